"""The shapes of requests in the JSON flavour: which fields exist, and of which type.

The parser holds requests to them; unknown fields are refused (`json_open` has what passes over them). Used,
with the module's name before them, by `json_requests` and `json_client`.
"""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from arauto.codec.json_values import Base64, Data, OperationShape, RequestSerialShape, Text

__all__ = [
    "AnyRequest",
    "Auth",
    "Close",
    "DocumentChange",
    "DocumentGet",
    "History",
    "MarkRead",
    "Occupancy",
    "Operation",
    "Ping",
    "Pong",
    "Presence",
    "Publish",
    "PublishItem",
    "Restore",
    "Rpc",
    "Stream",
    "Subscribe",
    "SubscribeItem",
    "Unsubscribe",
]


class _Part(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    pass


class _Shape(_Part, tag_field="event", kw_only=True, gc=False):
    pass


class Ping(_Shape, tag="ping", kw_only=True, gc=False):
    id: int = 0


class Pong(_Shape, tag="pong", kw_only=True, gc=False):
    id: int = 0


class Close(_Shape, tag="close", kw_only=True, gc=False):
    pass


class Restore(_Shape, tag="session_restore", kw_only=True, gc=False):
    id: int = 0
    key: str
    positions: dict[str, RequestSerialShape] = {}


class Auth(_Shape, tag="auth", kw_only=True, gc=False):
    id: int = 0
    data: Data = UNSET
    text: Text = UNSET
    base64: Base64 = UNSET


class SubscribeItem(_Part, kw_only=True, gc=False):
    channel: str
    since: RequestSerialShape | UnsetType = UNSET
    positions: dict[str, RequestSerialShape] | UnsetType = UNSET


class Subscribe(_Shape, tag="subscribe", kw_only=True, gc=False):
    id: int = 0
    items: list[SubscribeItem]


class Unsubscribe(_Shape, tag="unsubscribe", kw_only=True, gc=False):
    id: int = 0
    channels: list[str]


class PublishItem(_Part, kw_only=True, gc=False):
    channel: str
    data: Data = UNSET
    text: Text = UNSET
    base64: Base64 = UNSET
    content_type: str = ""
    idempotency_key: str = ""
    key: str = ""
    echo: Literal["all", "not_session", "not_user"] = "all"
    retain: bool = False
    store: bool = False
    push: bool = False
    ttl_ms: int = 0
    headers: dict[str, str] | UnsetType = UNSET


class Publish(_Shape, tag="publish", kw_only=True, gc=False):
    id: int = 0
    messages: list[PublishItem]


class Presence(_Shape, tag="presence", kw_only=True, gc=False):
    id: int = 0
    channel: str


class Occupancy(_Shape, tag="occupancy", kw_only=True, gc=False):
    id: int = 0
    channel: str


class History(_Shape, tag="history", kw_only=True, gc=False):
    id: int = 0
    channel: str
    since: RequestSerialShape | UnsetType = UNSET
    until: RequestSerialShape | UnsetType = UNSET
    from_ms: int = 0
    to_ms: int = 0
    limit: int = 0
    direction: Literal["forward", "backward"] = "forward"


class Rpc(_Shape, tag="rpc", kw_only=True, gc=False):
    id: int = 0
    method: str
    data: Data = UNSET
    text: Text = UNSET
    base64: Base64 = UNSET
    timeout_ms: int = 0


class Stream(_Shape, tag="stream_enqueue", kw_only=True, gc=False):
    id: int = 0
    stream: str
    data: Data = UNSET
    text: Text = UNSET
    base64: Base64 = UNSET


class Operation(OperationShape, kw_only=True, forbid_unknown_fields=True, gc=False):
    """An operation whose value is parsed when it is wanted."""

    value: Data = UNSET


class DocumentGet(_Shape, tag="document_get", kw_only=True, gc=False):
    id: int = 0
    channel: str


class DocumentChange(_Shape, tag="document_change", kw_only=True, gc=False):
    id: int = 0
    channel: str
    operations: list[Operation]
    if_version: int | UnsetType = UNSET


class MarkRead(_Shape, tag="mark_notification_as_read", kw_only=True, gc=False):
    id: int = 0
    channel: str
    notifications: list[str]


#: Everything a client may send.
AnyRequest = (
    Ping
    | Pong
    | Close
    | Restore
    | Auth
    | Subscribe
    | Unsubscribe
    | Publish
    | Presence
    | Occupancy
    | History
    | Rpc
    | Stream
    | DocumentGet
    | DocumentChange
    | MarkRead
)
