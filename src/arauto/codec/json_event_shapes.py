"""The shapes of events in the JSON flavour: which fields exist, and of which type.

A field that is always written has no default here; one that may be absent stands for zero, false or
empty. Unknown fields are ignored, so that an older client can talk to a newer server. Used, with the
module's name before them, by `json_events` and `json_client`.
"""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from arauto.codec.json_values import Base64, Data, OperationShape, SerialShape, Text

__all__ = [
    "Ack",
    "AckItem",
    "AnyEvent",
    "AuthReply",
    "DocumentChangeReply",
    "DocumentGetReply",
    "DocumentInfo",
    "DocumentUpdated",
    "Error",
    "ErrorPart",
    "Gap",
    "Grant",
    "Grants",
    "HistoryReply",
    "Join",
    "Leave",
    "Member",
    "MessagePart",
    "Occupancy",
    "Operation",
    "Ping",
    "Pong",
    "Presence",
    "Publication",
    "RestoreKey",
    "Restored",
    "SessionInfo",
    "SubscribeReply",
    "SubscribeResult",
    "UnsubscribeReply",
]


class _Part(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    pass


class _Shape(_Part, tag_field="event", kw_only=True, gc=False):
    pass


# --- parts -----------------------------------------------------------------------------------------


class ErrorPart(_Part, kw_only=True, gc=False):
    id: int = 0
    code: int
    message: str
    field: str = ""
    retryable: bool = False


class MessagePart(_Part, kw_only=True, gc=False):
    """A message, at the top level of a publication and inside a page of history."""

    channel: str
    data: Data = UNSET
    text: Text = UNSET
    base64: Base64 = UNSET
    content_type: str = ""
    serial: SerialShape
    ts_ms: int
    idempotency_key: str = ""
    session: str = ""
    user: str = ""
    key: str = ""
    headers: dict[str, str] | UnsetType = UNSET
    expires_ms: int = 0
    retain: bool = False
    store: bool = False


class SubscribeResult(_Part, kw_only=True, gc=False):
    channel: str
    error: ErrorPart | UnsetType = UNSET
    serial: SerialShape | UnsetType = UNSET
    recovered: bool = False
    recovered_count: int = 0
    positions: dict[str, SerialShape] | UnsetType = UNSET
    unrecovered: list[str] = []


class Grant(_Part, kw_only=True, gc=False):
    channel: str
    publish: bool = False
    subscribe: bool = False


class Grants(_Part, kw_only=True, gc=False):
    channels: list[Grant] = []
    rpcs: list[str] = []


class AckItem(_Part, kw_only=True, gc=False):
    serial: SerialShape | UnsetType = UNSET
    duplicate: bool = False
    error: ErrorPart | UnsetType = UNSET


class Member(_Part, kw_only=True, gc=False):
    session: str
    user: str = ""
    joined_ms: int
    extra: dict[str, str] = {}


class Operation(OperationShape, kw_only=True, gc=False):
    pass


# --- events ----------------------------------------------------------------------------------------


class Ping(_Shape, tag="ping", kw_only=True, gc=False):
    id: int = 0


class Pong(_Shape, tag="pong", kw_only=True, gc=False):
    id: int = 0


class Error(ErrorPart, _Shape, tag="error", kw_only=True, gc=False):
    pass


class SessionInfo(_Shape, tag="session_info", kw_only=True, gc=False):
    hub: str
    session: str
    node: str
    authenticated: bool
    user: str = ""
    allow_anonymous: bool
    user_channel: bool
    default_public: bool
    auth_deadline_ms: int = 0
    ping_interval_ms: int = 0
    message_bytes_max: int = 0


class RestoreKey(_Shape, tag="session_restore", kw_only=True, gc=False):
    key: str
    ttl_ms: int


class Restored(_Shape, tag="session_restored", kw_only=True, gc=False):
    id: int = 0
    session: str
    user: str
    grants: Grants
    extra: dict[str, str] = {}
    results: list[SubscribeResult]
    expires_in_ms: int = 0


class AuthReply(_Shape, tag="auth", kw_only=True, gc=False):
    id: int = 0
    success: bool
    user: str = ""
    token: str = ""
    token_expires_ms: int = 0
    grants: Grants | UnsetType = UNSET
    extra: dict[str, str] = {}
    error: ErrorPart | UnsetType = UNSET
    expires_in_ms: int = 0


class SubscribeReply(_Shape, tag="subscribe", kw_only=True, gc=False):
    id: int = 0
    results: list[SubscribeResult]


class UnsubscribeReply(_Shape, tag="unsubscribe", kw_only=True, gc=False):
    id: int = 0
    channels: list[str]
    error: ErrorPart | UnsetType = UNSET


class Publication(MessagePart, _Shape, tag="publish", kw_only=True, gc=False):
    pass


class Ack(_Shape, tag="ack", kw_only=True, gc=False):
    id: int
    results: list[AckItem]


class Join(_Shape, tag="join", kw_only=True, gc=False):
    channel: str
    member: Member


class Leave(_Shape, tag="leave", kw_only=True, gc=False):
    channel: str
    member: Member


class Presence(_Shape, tag="presence", kw_only=True, gc=False):
    id: int = 0
    channel: str
    members: list[Member]
    total: int


class Occupancy(_Shape, tag="occupancy", kw_only=True, gc=False):
    id: int = 0
    channel: str
    count: int


class HistoryReply(_Shape, tag="history", kw_only=True, gc=False):
    id: int = 0
    channel: str
    messages: list[MessagePart]
    more: bool
    next: SerialShape | UnsetType = UNSET
    complete: bool
    serial: SerialShape | UnsetType = UNSET


class Gap(_Shape, tag="gap", kw_only=True, gc=False):
    channel: str
    after: SerialShape
    upto: SerialShape
    reason: str


class DocumentInfo(_Shape, tag="document_info", kw_only=True, gc=False):
    channel: str
    version: int


class DocumentGetReply(_Shape, tag="document_get", kw_only=True, gc=False):
    id: int = 0
    channel: str
    version: int
    value: Any


class DocumentChangeReply(_Shape, tag="document_change", kw_only=True, gc=False):
    id: int
    channel: str
    version: int


class DocumentUpdated(_Shape, tag="document_updated", kw_only=True, gc=False):
    channel: str
    version: int
    operations: list[Operation]
    user: str = ""
    ts_ms: int = 0


#: Everything a server may send.
AnyEvent = (
    Ping
    | Pong
    | Error
    | SessionInfo
    | RestoreKey
    | Restored
    | AuthReply
    | SubscribeReply
    | UnsubscribeReply
    | Publication
    | Ack
    | Join
    | Leave
    | Presence
    | Occupancy
    | HistoryReply
    | Gap
    | DocumentInfo
    | DocumentGetReply
    | DocumentChangeReply
    | DocumentUpdated
)
