"""The protocol's events as plain records, the same for every wire flavour.

Requests travel from client to server, events from server to client. The codecs beside this file turn
bytes into requests and events into bytes (and the reverse, for the client); nothing here knows how.
`id` is the client's request id: 0 means "no answer wanted".

`docs/protocol/` describes each record for someone writing a client in another language.
"""

from collections.abc import Callable, Generator
from enum import IntEnum
from typing import Any

import msgspec

from arauto.errors import ArautoError
from arauto.model import Direction, Grants, Member, Message, Serial

__all__ = [
    "Ack",
    "AckItem",
    "AuthReply",
    "AuthRequest",
    "CloseRequest",
    "DocumentChangeReply",
    "DocumentChangeRequest",
    "DocumentGetReply",
    "DocumentGetRequest",
    "DocumentInfo",
    "DocumentUpdated",
    "Echo",
    "EncodedValue",
    "ErrorEvent",
    "Event",
    "Gap",
    "HistoryReply",
    "HistoryRequest",
    "Join",
    "Leave",
    "MarkReadRequest",
    "Occupancy",
    "OccupancyRequest",
    "Operation",
    "Ping",
    "Pong",
    "Presence",
    "PresenceRequest",
    "Publication",
    "PublishItem",
    "PublishRequest",
    "Request",
    "RestoreKey",
    "RestoreRequest",
    "Restored",
    "RpcRequest",
    "SessionInfo",
    "StreamRequest",
    "SubscribeItem",
    "SubscribeReply",
    "SubscribeRequest",
    "SubscribeResult",
    "UnreadOperations",
    "UnsubscribeReply",
    "UnsubscribeRequest",
]


class Echo(IntEnum):
    """Who, besides the other subscribers, receives a publication: the sender too, or not."""

    ALL = 0
    NOT_SESSION = 1
    NOT_USER = 2


class _Record(msgspec.Struct, frozen=True, gc=False):
    pass


# --- both ways -------------------------------------------------------------------------------------


class Ping(_Record, frozen=True, kw_only=True, gc=False):
    """Are you there? Answered by Pong with the same id."""

    id: int = 0


class Pong(_Record, frozen=True, kw_only=True, gc=False):
    id: int = 0


# --- client to server ------------------------------------------------------------------------------


class CloseRequest(_Record, frozen=True, kw_only=True, gc=False):
    """The client leaves on purpose: its restore state is forgotten."""


class RestoreRequest(_Record, frozen=True, kw_only=True, gc=False):
    """Take up an earlier session, with the single-use key it was given.

    `positions` holds the last place seen per channel: its subscriptions are recovered from there.
    """

    id: int = 0
    key: str
    positions: dict[str, Serial] = {}


class AuthRequest(_Record, frozen=True, kw_only=True, gc=False):
    """Authenticate or re-authenticate in place; the credentials are opaque to Arauto."""

    id: int = 0
    credentials: bytes


class SubscribeItem(_Record, frozen=True, kw_only=True, gc=False):
    """One channel, pattern or topic.

    `since` asks for recovery from that place; for patterns and topics `positions` holds the place per
    channel seen so far, and under `ALL_CHANNELS` where the subscription began, as the last answer said.
    """

    channel: str
    since: Serial | None = None
    positions: dict[str, Serial] | None = None


class SubscribeRequest(_Record, frozen=True, kw_only=True, gc=False):
    id: int = 0
    items: tuple[SubscribeItem, ...]


class UnsubscribeRequest(_Record, frozen=True, kw_only=True, gc=False):
    id: int = 0
    channels: tuple[str, ...]


class PublishItem(_Record, frozen=True, kw_only=True, gc=False):
    """One message to publish. `idempotency_key` makes a retry within the window deliver once."""

    channel: str
    payload: bytes
    content_type: str = ""
    idempotency_key: str = ""
    key: str = ""
    echo: Echo = Echo.ALL
    retain: bool = False
    store: bool = False
    push: bool = False
    ttl_ms: int = 0
    headers: dict[str, str] | None = None


class PublishRequest(_Record, frozen=True, kw_only=True, gc=False):
    id: int = 0
    items: tuple[PublishItem, ...]


class PresenceRequest(_Record, frozen=True, kw_only=True, gc=False):
    id: int = 0
    channel: str


class OccupancyRequest(_Record, frozen=True, kw_only=True, gc=False):
    id: int = 0
    channel: str


class HistoryRequest(_Record, frozen=True, kw_only=True, gc=False):
    """A page of a channel's past. `since`/`until` are exclusive places; `from_ms`/`to_ms` inclusive times."""

    id: int = 0
    channel: str
    since: Serial | None = None
    until: Serial | None = None
    from_ms: int = 0
    to_ms: int = 0
    limit: int = 0
    direction: Direction = Direction.FORWARD


class RpcRequest(_Record, frozen=True, kw_only=True, gc=False):
    id: int = 0
    method: str
    payload: bytes
    timeout_ms: int = 0


class StreamRequest(_Record, frozen=True, kw_only=True, gc=False):
    id: int = 0
    stream: str
    payload: bytes


class Operation(_Record, frozen=True, kw_only=True, gc=False):
    """One document operation: add remove replace move copy test. `path` and `source` are JSON pointers."""

    op: str
    path: str
    source: str = ""
    value: Any = None


class DocumentGetRequest(_Record, frozen=True, kw_only=True, gc=False):
    id: int = 0
    channel: str


class UnreadOperations(_Record, frozen=True, gc=False):
    """Operations as they came, their values not built yet. `read` builds them, step by step, and raises what
    a decoder does, and DOCUMENT_TOO_LARGE."""

    size_bytes: int
    """What they take on the wire."""
    read: Callable[[], Generator[None, None, tuple[Operation, ...]]]


class DocumentChangeRequest(_Record, frozen=True, kw_only=True, gc=False):
    """All operations apply, or none. `if_version` ≥ 0 demands that exact version first.

    A server's decoder leaves the operations unread: nobody is to cause that work who may not make the change.
    """

    id: int = 0
    channel: str
    operations: tuple[Operation, ...] | UnreadOperations
    if_version: int = -1


class MarkReadRequest(_Record, frozen=True, kw_only=True, gc=False):
    id: int = 0
    channel: str
    notifications: tuple[str, ...]


Request = (
    Ping
    | Pong
    | CloseRequest
    | RestoreRequest
    | AuthRequest
    | SubscribeRequest
    | UnsubscribeRequest
    | PublishRequest
    | PresenceRequest
    | OccupancyRequest
    | HistoryRequest
    | RpcRequest
    | StreamRequest
    | DocumentGetRequest
    | DocumentChangeRequest
    | MarkReadRequest
)


# --- server to client ------------------------------------------------------------------------------


class ErrorEvent(_Record, frozen=True, kw_only=True, gc=False):
    """Something was refused. `id` names the request, 0 if none; `field` the part at fault."""

    id: int = 0
    code: int
    message: str
    field: str = ""
    retryable: bool = False

    @classmethod
    def of(cls, error: ArautoError, id: int = 0) -> "ErrorEvent":
        """An error as it goes to the client."""
        return cls(
            id=id,
            code=int(error.code),
            message=error.told,
            field=error.field,
            retryable=error.retryable,
        )


class SessionInfo(_Record, frozen=True, kw_only=True, gc=False):
    """Always the first event of a connection."""

    hub: str
    session: str
    node: str
    authenticated: bool
    user: str = ""
    allow_anonymous: bool = True
    user_channel: bool = True
    default_public: bool = False
    auth_deadline_ms: int = 0
    """Time left to authenticate; 0 = no deadline."""
    ping_interval_ms: int = 0
    message_bytes_max: int = 0


class RestoreKey(_Record, frozen=True, kw_only=True, gc=False):
    """A single-use key (event SESSION_RESTORE) to take up this session after a lost connection."""

    key: str
    ttl_ms: int


class SubscribeResult(_Record, frozen=True, kw_only=True, gc=False):
    """The outcome for one item.

    On success `serial` is the channel's place now. `recovered` is meaningful if the item asked for
    recovery: True = all missed messages follow this reply, in order; False = there may be a hole. For
    patterns and topics `positions` holds the place of every live channel they cover and, under
    `ALL_CHANNELS`, that of all others; `unrecovered` the covered channels (or the pattern itself, for
    any of them) for which recovery was asked and cannot be whole."""

    channel: str
    error: ErrorEvent | None = None
    serial: Serial | None = None
    recovered: bool = False
    recovered_count: int = 0
    positions: dict[str, Serial] | None = None
    unrecovered: tuple[str, ...] = ()


class SubscribeReply(_Record, frozen=True, kw_only=True, gc=False):
    """Answer to SUBSCRIBE; with id 0 it announces a subscription the server made (user channel)."""

    id: int = 0
    results: tuple[SubscribeResult, ...]


class Restored(_Record, frozen=True, kw_only=True, gc=False):
    """The session was taken up again; subscriptions were re-checked one by one."""

    id: int = 0
    session: str
    user: str
    grants: Grants
    extra: dict[str, str]
    results: tuple[SubscribeResult, ...]
    expires_in_ms: int = 0


class AuthReply(_Record, frozen=True, kw_only=True, gc=False):
    id: int = 0
    success: bool
    user: str = ""
    token: str = ""
    """A short-lived token for the HTTP APIs and for connecting pre-authenticated."""
    token_expires_ms: int = 0
    grants: Grants = Grants()
    extra: dict[str, str] = {}
    error: ErrorEvent | None = None
    expires_in_ms: int = 0
    """When the session must have authenticated again; 0 = never. A duration, since clocks differ."""


class UnsubscribeReply(_Record, frozen=True, kw_only=True, gc=False):
    """Answer to UNSUBSCRIBE; with id 0 the server ended the subscriptions, `error` says why."""

    id: int = 0
    channels: tuple[str, ...]
    error: ErrorEvent | None = None


class Publication(_Record, frozen=True, kw_only=True, gc=False):
    """A message delivered."""

    message: Message


class AckItem(_Record, frozen=True, kw_only=True, gc=False):
    """The outcome for one published item, in request order."""

    serial: Serial | None = None
    duplicate: bool = False
    error: ErrorEvent | None = None


class Ack(_Record, frozen=True, kw_only=True, gc=False):
    id: int
    results: tuple[AckItem, ...]


class Join(_Record, frozen=True, kw_only=True, gc=False):
    channel: str
    member: Member


class Leave(_Record, frozen=True, kw_only=True, gc=False):
    channel: str
    member: Member


class Presence(_Record, frozen=True, kw_only=True, gc=False):
    """Who is there. `total` may be larger than the number of `members` listed."""

    id: int = 0
    channel: str
    members: tuple[Member, ...]
    total: int


class Occupancy(_Record, frozen=True, kw_only=True, gc=False):
    id: int = 0
    channel: str
    count: int


class HistoryReply(_Record, frozen=True, kw_only=True, gc=False):
    """A page. `more` says whether another page follows in the same direction, `next` where it starts.

    `complete` is False if messages of the asked range may be missing (expired or never kept).
    """

    id: int = 0
    channel: str
    messages: tuple[Message, ...]
    more: bool = False
    next: Serial | None = None
    complete: bool = True
    serial: Serial | None = None


class Gap(_Record, frozen=True, kw_only=True, gc=False):
    """Messages of a channel this session did not get: offsets after `after` up to and including `upto`."""

    channel: str
    after: Serial
    upto: Serial
    reason: str


class DocumentInfo(_Record, frozen=True, kw_only=True, gc=False):
    channel: str
    version: int


class EncodedValue(_Record, frozen=True, gc=False):
    """A document's value as the codec that is to send it has written it before."""

    data: bytes


class DocumentGetReply(_Record, frozen=True, kw_only=True, gc=False):
    """A document. A server may give its value as an `EncodedValue`."""

    id: int = 0
    channel: str
    version: int
    value: Any


class DocumentChangeReply(_Record, frozen=True, kw_only=True, gc=False):
    id: int
    channel: str
    version: int


class DocumentUpdated(_Record, frozen=True, kw_only=True, gc=False):
    """Operations that turned version - 1 into `version`."""

    channel: str
    version: int
    operations: tuple[Operation, ...]
    user: str = ""
    ts_ms: int = 0


Event = (
    Ping
    | Pong
    | ErrorEvent
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
