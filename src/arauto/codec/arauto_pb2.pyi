# mypy: disable-error-code="type-arg"
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Event(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVENT_UNSPECIFIED: _ClassVar[Event]
    EVENT_PING: _ClassVar[Event]
    EVENT_PONG: _ClassVar[Event]
    EVENT_CLOSE: _ClassVar[Event]
    EVENT_SESSION_INFO: _ClassVar[Event]
    EVENT_SESSION_RESTORE: _ClassVar[Event]
    EVENT_SESSION_RESTORED: _ClassVar[Event]
    EVENT_AUTH: _ClassVar[Event]
    EVENT_SUBSCRIBE: _ClassVar[Event]
    EVENT_UNSUBSCRIBE: _ClassVar[Event]
    EVENT_PUBLISH: _ClassVar[Event]
    EVENT_ACK: _ClassVar[Event]
    EVENT_JOIN: _ClassVar[Event]
    EVENT_LEAVE: _ClassVar[Event]
    EVENT_PRESENCE: _ClassVar[Event]
    EVENT_OCCUPANCY: _ClassVar[Event]
    EVENT_HISTORY: _ClassVar[Event]
    EVENT_RPC: _ClassVar[Event]
    EVENT_STREAM_ENQUEUE: _ClassVar[Event]
    EVENT_DOCUMENT_GET: _ClassVar[Event]
    EVENT_DOCUMENT_CHANGE: _ClassVar[Event]
    EVENT_DOCUMENT_UPDATED: _ClassVar[Event]
    EVENT_DOCUMENT_INFO: _ClassVar[Event]
    EVENT_NOTIFICATION_NEW: _ClassVar[Event]
    EVENT_NOTIFICATION_READ: _ClassVar[Event]
    EVENT_NOTIFICATION_INFO: _ClassVar[Event]
    EVENT_MARK_NOTIFICATION_AS_READ: _ClassVar[Event]
    EVENT_ERROR: _ClassVar[Event]
    EVENT_GAP: _ClassVar[Event]

class Op(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OP_UNSPECIFIED: _ClassVar[Op]
    OP_ADD: _ClassVar[Op]
    OP_REMOVE: _ClassVar[Op]
    OP_REPLACE: _ClassVar[Op]
    OP_MOVE: _ClassVar[Op]
    OP_COPY: _ClassVar[Op]
    OP_TEST: _ClassVar[Op]

class Echo(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ECHO_ALL: _ClassVar[Echo]
    ECHO_NOT_SESSION: _ClassVar[Echo]
    ECHO_NOT_USER: _ClassVar[Echo]

class Direction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIRECTION_FORWARD: _ClassVar[Direction]
    DIRECTION_BACKWARD: _ClassVar[Direction]
EVENT_UNSPECIFIED: Event
EVENT_PING: Event
EVENT_PONG: Event
EVENT_CLOSE: Event
EVENT_SESSION_INFO: Event
EVENT_SESSION_RESTORE: Event
EVENT_SESSION_RESTORED: Event
EVENT_AUTH: Event
EVENT_SUBSCRIBE: Event
EVENT_UNSUBSCRIBE: Event
EVENT_PUBLISH: Event
EVENT_ACK: Event
EVENT_JOIN: Event
EVENT_LEAVE: Event
EVENT_PRESENCE: Event
EVENT_OCCUPANCY: Event
EVENT_HISTORY: Event
EVENT_RPC: Event
EVENT_STREAM_ENQUEUE: Event
EVENT_DOCUMENT_GET: Event
EVENT_DOCUMENT_CHANGE: Event
EVENT_DOCUMENT_UPDATED: Event
EVENT_DOCUMENT_INFO: Event
EVENT_NOTIFICATION_NEW: Event
EVENT_NOTIFICATION_READ: Event
EVENT_NOTIFICATION_INFO: Event
EVENT_MARK_NOTIFICATION_AS_READ: Event
EVENT_ERROR: Event
EVENT_GAP: Event
OP_UNSPECIFIED: Op
OP_ADD: Op
OP_REMOVE: Op
OP_REPLACE: Op
OP_MOVE: Op
OP_COPY: Op
OP_TEST: Op
ECHO_ALL: Echo
ECHO_NOT_SESSION: Echo
ECHO_NOT_USER: Echo
DIRECTION_FORWARD: Direction
DIRECTION_BACKWARD: Direction

class Envelope(_message.Message):
    __slots__ = ("event", "payload")
    EVENT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    event: Event
    payload: bytes
    def __init__(self, event: _Optional[_Union[Event, str]] = ..., payload: _Optional[bytes] = ...) -> None: ...

class Serial(_message.Message):
    __slots__ = ("epoch", "offset")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    offset: int
    def __init__(self, epoch: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class Positions(_message.Message):
    __slots__ = ("channels",)
    class ChannelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Serial
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Serial, _Mapping]] = ...) -> None: ...
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    channels: _containers.MessageMap[str, Serial]
    def __init__(self, channels: _Optional[_Mapping[str, Serial]] = ...) -> None: ...

class Value(_message.Message):
    __slots__ = ("null", "boolean", "integer", "number", "text", "binary", "list", "map", "items", "keys")
    NULL_FIELD_NUMBER: _ClassVar[int]
    BOOLEAN_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BINARY_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    MAP_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    null: bool
    boolean: bool
    integer: int
    number: float
    text: str
    binary: bytes
    list: bool
    map: bool
    items: _containers.RepeatedCompositeFieldContainer[Value]
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, null: _Optional[bool] = ..., boolean: _Optional[bool] = ..., integer: _Optional[int] = ..., number: _Optional[float] = ..., text: _Optional[str] = ..., binary: _Optional[bytes] = ..., list: _Optional[bool] = ..., map: _Optional[bool] = ..., items: _Optional[_Iterable[_Union[Value, _Mapping]]] = ..., keys: _Optional[_Iterable[str]] = ...) -> None: ...

class Operation(_message.Message):
    __slots__ = ("op", "path", "source", "value")
    OP_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    op: Op
    path: str
    source: str
    value: Value
    def __init__(self, op: _Optional[_Union[Op, str]] = ..., path: _Optional[str] = ..., source: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("channel", "publish", "subscribe")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    channel: str
    publish: bool
    subscribe: bool
    def __init__(self, channel: _Optional[str] = ..., publish: _Optional[bool] = ..., subscribe: _Optional[bool] = ...) -> None: ...

class Grants(_message.Message):
    __slots__ = ("channels", "rpcs")
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    RPCS_FIELD_NUMBER: _ClassVar[int]
    channels: _containers.RepeatedCompositeFieldContainer[Grant]
    rpcs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, channels: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ..., rpcs: _Optional[_Iterable[str]] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("session", "user", "joined_ms", "extra")
    class ExtraEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SESSION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    JOINED_MS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    session: str
    user: str
    joined_ms: int
    extra: _containers.ScalarMap[str, str]
    def __init__(self, session: _Optional[str] = ..., user: _Optional[str] = ..., joined_ms: _Optional[int] = ..., extra: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class Pong(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class CloseRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RestoreRequest(_message.Message):
    __slots__ = ("id", "key", "positions")
    class PositionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Serial
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Serial, _Mapping]] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    id: int
    key: str
    positions: _containers.MessageMap[str, Serial]
    def __init__(self, id: _Optional[int] = ..., key: _Optional[str] = ..., positions: _Optional[_Mapping[str, Serial]] = ...) -> None: ...

class AuthRequest(_message.Message):
    __slots__ = ("id", "credentials")
    ID_FIELD_NUMBER: _ClassVar[int]
    CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    id: int
    credentials: bytes
    def __init__(self, id: _Optional[int] = ..., credentials: _Optional[bytes] = ...) -> None: ...

class SubscribeItem(_message.Message):
    __slots__ = ("channel", "since", "positions")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    channel: str
    since: Serial
    positions: Positions
    def __init__(self, channel: _Optional[str] = ..., since: _Optional[_Union[Serial, _Mapping]] = ..., positions: _Optional[_Union[Positions, _Mapping]] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ("id", "items")
    ID_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    id: int
    items: _containers.RepeatedCompositeFieldContainer[SubscribeItem]
    def __init__(self, id: _Optional[int] = ..., items: _Optional[_Iterable[_Union[SubscribeItem, _Mapping]]] = ...) -> None: ...

class UnsubscribeRequest(_message.Message):
    __slots__ = ("id", "channels")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    id: int
    channels: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[int] = ..., channels: _Optional[_Iterable[str]] = ...) -> None: ...

class PublishItem(_message.Message):
    __slots__ = ("channel", "payload", "content_type", "idempotency_key", "key", "echo", "retain", "store", "push", "ttl_ms", "headers")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ECHO_FIELD_NUMBER: _ClassVar[int]
    RETAIN_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    PUSH_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    channel: str
    payload: bytes
    content_type: str
    idempotency_key: str
    key: str
    echo: Echo
    retain: bool
    store: bool
    push: bool
    ttl_ms: int
    headers: _containers.ScalarMap[str, str]
    def __init__(self, channel: _Optional[str] = ..., payload: _Optional[bytes] = ..., content_type: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., key: _Optional[str] = ..., echo: _Optional[_Union[Echo, str]] = ..., retain: _Optional[bool] = ..., store: _Optional[bool] = ..., push: _Optional[bool] = ..., ttl_ms: _Optional[int] = ..., headers: _Optional[_Mapping[str, str]] = ...) -> None: ...

class PublishRequest(_message.Message):
    __slots__ = ("id", "messages")
    ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    id: int
    messages: _containers.RepeatedCompositeFieldContainer[PublishItem]
    def __init__(self, id: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[PublishItem, _Mapping]]] = ...) -> None: ...

class PresenceRequest(_message.Message):
    __slots__ = ("id", "channel")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    id: int
    channel: str
    def __init__(self, id: _Optional[int] = ..., channel: _Optional[str] = ...) -> None: ...

class OccupancyRequest(_message.Message):
    __slots__ = ("id", "channel")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    id: int
    channel: str
    def __init__(self, id: _Optional[int] = ..., channel: _Optional[str] = ...) -> None: ...

class HistoryRequest(_message.Message):
    __slots__ = ("id", "channel", "since", "until", "from_ms", "to_ms", "limit", "direction")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    FROM_MS_FIELD_NUMBER: _ClassVar[int]
    TO_MS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    id: int
    channel: str
    since: Serial
    until: Serial
    from_ms: int
    to_ms: int
    limit: int
    direction: Direction
    def __init__(self, id: _Optional[int] = ..., channel: _Optional[str] = ..., since: _Optional[_Union[Serial, _Mapping]] = ..., until: _Optional[_Union[Serial, _Mapping]] = ..., from_ms: _Optional[int] = ..., to_ms: _Optional[int] = ..., limit: _Optional[int] = ..., direction: _Optional[_Union[Direction, str]] = ...) -> None: ...

class RpcRequest(_message.Message):
    __slots__ = ("id", "method", "payload", "timeout_ms")
    ID_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    id: int
    method: str
    payload: bytes
    timeout_ms: int
    def __init__(self, id: _Optional[int] = ..., method: _Optional[str] = ..., payload: _Optional[bytes] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class StreamRequest(_message.Message):
    __slots__ = ("id", "stream", "payload")
    ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    id: int
    stream: str
    payload: bytes
    def __init__(self, id: _Optional[int] = ..., stream: _Optional[str] = ..., payload: _Optional[bytes] = ...) -> None: ...

class DocumentGetRequest(_message.Message):
    __slots__ = ("id", "channel")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    id: int
    channel: str
    def __init__(self, id: _Optional[int] = ..., channel: _Optional[str] = ...) -> None: ...

class DocumentChangeRequest(_message.Message):
    __slots__ = ("id", "channel", "operations", "if_version")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    IF_VERSION_FIELD_NUMBER: _ClassVar[int]
    id: int
    channel: str
    operations: _containers.RepeatedCompositeFieldContainer[Operation]
    if_version: int
    def __init__(self, id: _Optional[int] = ..., channel: _Optional[str] = ..., operations: _Optional[_Iterable[_Union[Operation, _Mapping]]] = ..., if_version: _Optional[int] = ...) -> None: ...

class MarkReadRequest(_message.Message):
    __slots__ = ("id", "channel", "notifications")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    NOTIFICATIONS_FIELD_NUMBER: _ClassVar[int]
    id: int
    channel: str
    notifications: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[int] = ..., channel: _Optional[str] = ..., notifications: _Optional[_Iterable[str]] = ...) -> None: ...

class ErrorEvent(_message.Message):
    __slots__ = ("id", "code", "message", "field", "retryable")
    ID_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    id: int
    code: int
    message: str
    field: str
    retryable: bool
    def __init__(self, id: _Optional[int] = ..., code: _Optional[int] = ..., message: _Optional[str] = ..., field: _Optional[str] = ..., retryable: _Optional[bool] = ...) -> None: ...

class SessionInfo(_message.Message):
    __slots__ = ("hub", "session", "node", "authenticated", "user", "allow_anonymous", "user_channel", "default_public", "auth_deadline_ms", "ping_interval_ms", "message_bytes_max")
    HUB_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATED_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    ALLOW_ANONYMOUS_FIELD_NUMBER: _ClassVar[int]
    USER_CHANNEL_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_PUBLIC_FIELD_NUMBER: _ClassVar[int]
    AUTH_DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    PING_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    hub: str
    session: str
    node: str
    authenticated: bool
    user: str
    allow_anonymous: bool
    user_channel: bool
    default_public: bool
    auth_deadline_ms: int
    ping_interval_ms: int
    message_bytes_max: int
    def __init__(self, hub: _Optional[str] = ..., session: _Optional[str] = ..., node: _Optional[str] = ..., authenticated: _Optional[bool] = ..., user: _Optional[str] = ..., allow_anonymous: _Optional[bool] = ..., user_channel: _Optional[bool] = ..., default_public: _Optional[bool] = ..., auth_deadline_ms: _Optional[int] = ..., ping_interval_ms: _Optional[int] = ..., message_bytes_max: _Optional[int] = ...) -> None: ...

class RestoreKey(_message.Message):
    __slots__ = ("key", "ttl_ms")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    key: str
    ttl_ms: int
    def __init__(self, key: _Optional[str] = ..., ttl_ms: _Optional[int] = ...) -> None: ...

class SubscribeResult(_message.Message):
    __slots__ = ("channel", "error", "serial", "recovered", "recovered_count", "positions", "unrecovered")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_COUNT_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    UNRECOVERED_FIELD_NUMBER: _ClassVar[int]
    channel: str
    error: ErrorEvent
    serial: Serial
    recovered: bool
    recovered_count: int
    positions: Positions
    unrecovered: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, channel: _Optional[str] = ..., error: _Optional[_Union[ErrorEvent, _Mapping]] = ..., serial: _Optional[_Union[Serial, _Mapping]] = ..., recovered: _Optional[bool] = ..., recovered_count: _Optional[int] = ..., positions: _Optional[_Union[Positions, _Mapping]] = ..., unrecovered: _Optional[_Iterable[str]] = ...) -> None: ...

class SubscribeReply(_message.Message):
    __slots__ = ("id", "results")
    ID_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    id: int
    results: _containers.RepeatedCompositeFieldContainer[SubscribeResult]
    def __init__(self, id: _Optional[int] = ..., results: _Optional[_Iterable[_Union[SubscribeResult, _Mapping]]] = ...) -> None: ...

class Restored(_message.Message):
    __slots__ = ("id", "session", "user", "grants", "extra", "results", "expires_in_ms")
    class ExtraEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_MS_FIELD_NUMBER: _ClassVar[int]
    id: int
    session: str
    user: str
    grants: Grants
    extra: _containers.ScalarMap[str, str]
    results: _containers.RepeatedCompositeFieldContainer[SubscribeResult]
    expires_in_ms: int
    def __init__(self, id: _Optional[int] = ..., session: _Optional[str] = ..., user: _Optional[str] = ..., grants: _Optional[_Union[Grants, _Mapping]] = ..., extra: _Optional[_Mapping[str, str]] = ..., results: _Optional[_Iterable[_Union[SubscribeResult, _Mapping]]] = ..., expires_in_ms: _Optional[int] = ...) -> None: ...

class AuthReply(_message.Message):
    __slots__ = ("id", "success", "user", "token", "token_expires_ms", "grants", "extra", "error", "expires_in_ms")
    class ExtraEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_MS_FIELD_NUMBER: _ClassVar[int]
    id: int
    success: bool
    user: str
    token: str
    token_expires_ms: int
    grants: Grants
    extra: _containers.ScalarMap[str, str]
    error: ErrorEvent
    expires_in_ms: int
    def __init__(self, id: _Optional[int] = ..., success: _Optional[bool] = ..., user: _Optional[str] = ..., token: _Optional[str] = ..., token_expires_ms: _Optional[int] = ..., grants: _Optional[_Union[Grants, _Mapping]] = ..., extra: _Optional[_Mapping[str, str]] = ..., error: _Optional[_Union[ErrorEvent, _Mapping]] = ..., expires_in_ms: _Optional[int] = ...) -> None: ...

class UnsubscribeReply(_message.Message):
    __slots__ = ("id", "channels", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: int
    channels: _containers.RepeatedScalarFieldContainer[str]
    error: ErrorEvent
    def __init__(self, id: _Optional[int] = ..., channels: _Optional[_Iterable[str]] = ..., error: _Optional[_Union[ErrorEvent, _Mapping]] = ...) -> None: ...

class Publication(_message.Message):
    __slots__ = ("channel", "payload", "epoch", "offset", "ts_ms", "content_type", "idempotency_key", "session", "user", "key", "headers", "expires_ms", "retain", "store")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TS_MS_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    RETAIN_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    channel: str
    payload: bytes
    epoch: int
    offset: int
    ts_ms: int
    content_type: str
    idempotency_key: str
    session: str
    user: str
    key: str
    headers: _containers.ScalarMap[str, str]
    expires_ms: int
    retain: bool
    store: bool
    def __init__(self, channel: _Optional[str] = ..., payload: _Optional[bytes] = ..., epoch: _Optional[int] = ..., offset: _Optional[int] = ..., ts_ms: _Optional[int] = ..., content_type: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., session: _Optional[str] = ..., user: _Optional[str] = ..., key: _Optional[str] = ..., headers: _Optional[_Mapping[str, str]] = ..., expires_ms: _Optional[int] = ..., retain: _Optional[bool] = ..., store: _Optional[bool] = ...) -> None: ...

class AckItem(_message.Message):
    __slots__ = ("serial", "duplicate", "error")
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    serial: Serial
    duplicate: bool
    error: ErrorEvent
    def __init__(self, serial: _Optional[_Union[Serial, _Mapping]] = ..., duplicate: _Optional[bool] = ..., error: _Optional[_Union[ErrorEvent, _Mapping]] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("id", "results")
    ID_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    id: int
    results: _containers.RepeatedCompositeFieldContainer[AckItem]
    def __init__(self, id: _Optional[int] = ..., results: _Optional[_Iterable[_Union[AckItem, _Mapping]]] = ...) -> None: ...

class Join(_message.Message):
    __slots__ = ("channel", "member")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    channel: str
    member: Member
    def __init__(self, channel: _Optional[str] = ..., member: _Optional[_Union[Member, _Mapping]] = ...) -> None: ...

class Leave(_message.Message):
    __slots__ = ("channel", "member")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    channel: str
    member: Member
    def __init__(self, channel: _Optional[str] = ..., member: _Optional[_Union[Member, _Mapping]] = ...) -> None: ...

class Presence(_message.Message):
    __slots__ = ("id", "channel", "members", "total")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    id: int
    channel: str
    members: _containers.RepeatedCompositeFieldContainer[Member]
    total: int
    def __init__(self, id: _Optional[int] = ..., channel: _Optional[str] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., total: _Optional[int] = ...) -> None: ...

class Occupancy(_message.Message):
    __slots__ = ("id", "channel", "count")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    id: int
    channel: str
    count: int
    def __init__(self, id: _Optional[int] = ..., channel: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class HistoryReply(_message.Message):
    __slots__ = ("id", "channel", "messages", "more", "next", "complete", "serial")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    id: int
    channel: str
    messages: _containers.RepeatedCompositeFieldContainer[Publication]
    more: bool
    next: Serial
    complete: bool
    serial: Serial
    def __init__(self, id: _Optional[int] = ..., channel: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[Publication, _Mapping]]] = ..., more: _Optional[bool] = ..., next: _Optional[_Union[Serial, _Mapping]] = ..., complete: _Optional[bool] = ..., serial: _Optional[_Union[Serial, _Mapping]] = ...) -> None: ...

class Gap(_message.Message):
    __slots__ = ("channel", "after", "upto", "reason")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    channel: str
    after: Serial
    upto: Serial
    reason: str
    def __init__(self, channel: _Optional[str] = ..., after: _Optional[_Union[Serial, _Mapping]] = ..., upto: _Optional[_Union[Serial, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class DocumentInfo(_message.Message):
    __slots__ = ("channel", "version")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    channel: str
    version: int
    def __init__(self, channel: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class DocumentGetReply(_message.Message):
    __slots__ = ("id", "channel", "version", "value")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    id: int
    channel: str
    version: int
    value: Value
    def __init__(self, id: _Optional[int] = ..., channel: _Optional[str] = ..., version: _Optional[int] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...

class DocumentChangeReply(_message.Message):
    __slots__ = ("id", "channel", "version")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    id: int
    channel: str
    version: int
    def __init__(self, id: _Optional[int] = ..., channel: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class DocumentUpdated(_message.Message):
    __slots__ = ("channel", "version", "operations", "user", "ts_ms")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TS_MS_FIELD_NUMBER: _ClassVar[int]
    channel: str
    version: int
    operations: _containers.RepeatedCompositeFieldContainer[Operation]
    user: str
    ts_ms: int
    def __init__(self, channel: _Optional[str] = ..., version: _Optional[int] = ..., operations: _Optional[_Iterable[_Union[Operation, _Mapping]]] = ..., user: _Optional[str] = ..., ts_ms: _Optional[int] = ...) -> None: ...
