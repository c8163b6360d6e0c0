"""Requests in the protobuf flavour: payload bytes → records. Pure; used by `proto` alone.

Decoders are strict (a server reads them): unknown fields are refused at every level, by asking each message
for its unknown fields. That costs about a tenth of decoding and nothing where `proto_fast` answers. Given
an `Unknown`, requests and their items may have them; places and values may not, they are one thing.
"""

from collections.abc import Callable
from typing import Any, Final

from arauto.codec import arauto_pb2 as pb
from arauto.codec.checks import bad_field, check_count
from arauto.codec.events import (
    AuthRequest,
    CloseRequest,
    DocumentChangeRequest,
    DocumentGetRequest,
    Echo,
    HistoryRequest,
    MarkReadRequest,
    OccupancyRequest,
    Ping,
    Pong,
    PresenceRequest,
    PublishItem,
    PublishRequest,
    Request,
    RestoreRequest,
    RpcRequest,
    StreamRequest,
    SubscribeItem,
    SubscribeRequest,
    UnreadOperations,
    UnsubscribeRequest,
)
from arauto.codec.numbers import EventType
from arauto.codec.proto_outline import (
    SMALL_BYTES,
    OutlineDocumentChange,
    check_batch,
    check_publish,
    check_restore,
    check_subscribe,
)
from arauto.codec.proto_unread import read_operations, read_small
from arauto.codec.proto_values import (
    check_known,
    check_top,
    places_from_proto,
    positions_from_proto,
    serial_from_proto,
)
from arauto.codec.unknown import Unknown
from arauto.model import Direction, Serial

__all__ = ["REQUEST_DECODERS", "decode_publish"]

# Bound once: looking these up through the generated class costs as much as a small parse.
_parse_ping = pb.Ping.FromString
_parse_pong = pb.Pong.FromString

# By number and not by Echo(number), which is five times slower; .get also refuses negative numbers.
_ECHOES: Final = {int(echo): echo for echo in Echo}
_DIRECTIONS: Final = {int(direction): direction for direction in Direction}


def _ping(payload: bytes, unknown: Unknown | None) -> Ping:
    message = _parse_ping(payload)
    check_top(message, payload, unknown)
    return Ping(id=message.id)


def _pong(payload: bytes, unknown: Unknown | None) -> Pong:
    message = _parse_pong(payload)
    check_top(message, payload, unknown)
    return Pong(id=message.id)


def decode_publish(payload: bytes, unknown: Unknown | None) -> PublishRequest:
    check_publish(payload)
    message = pb.PublishRequest.FromString(payload)
    check_top(message, payload, unknown)
    wire_items = message.messages
    check_count(len(wire_items), "messages")
    items = []
    # By index: iterating over a repeated field costs twice as much.
    for index in range(len(wire_items)):
        item = wire_items[index]
        check_known(item, f"messages[{index}]", unknown)
        echo = _ECHOES.get(item.echo)
        if echo is None:
            raise bad_field(f"messages[{index}].echo", "must be one of the Echo numbers")
        headers = item.headers
        items.append(
            PublishItem(
                channel=item.channel,
                payload=item.payload,
                content_type=item.content_type,
                idempotency_key=item.idempotency_key,
                key=item.key,
                echo=echo,
                retain=item.retain,
                store=item.store,
                push=item.push,
                ttl_ms=item.ttl_ms,
                headers=dict(headers) if headers else None,
            )
        )
    return PublishRequest(id=message.id, items=tuple(items))


def _close(payload: bytes, unknown: Unknown | None) -> CloseRequest:
    check_top(pb.CloseRequest.FromString(payload), payload, unknown)
    return CloseRequest()


def _restore(payload: bytes, unknown: Unknown | None) -> RestoreRequest:
    check_restore(payload)
    message = pb.RestoreRequest.FromString(payload)
    strict = check_top(message, payload, unknown)
    positions = places_from_proto(message.positions, "positions", strict=strict)
    return RestoreRequest(id=message.id, key=message.key, positions=positions)


def _auth(payload: bytes, unknown: Unknown | None) -> AuthRequest:
    message = pb.AuthRequest.FromString(payload)
    check_top(message, payload, unknown)
    return AuthRequest(id=message.id, credentials=message.credentials)


def _subscribe(payload: bytes, unknown: Unknown | None) -> SubscribeRequest:
    check_subscribe(payload)
    message = pb.SubscribeRequest.FromString(payload)
    strict = check_top(message, payload, unknown)
    check_count(len(message.items), "items")
    items = []
    for index, item in enumerate(message.items):
        field = f"items[{index}]"
        check_known(item, field, unknown)
        since = positions = None
        if item.HasField("since"):
            since = serial_from_proto(item.since, f"{field}.since", strict=True)
        if item.HasField("positions"):
            positions = positions_from_proto(item.positions, f"{field}.positions", strict=strict)
        items.append(SubscribeItem(channel=item.channel, since=since, positions=positions))
    return SubscribeRequest(id=message.id, items=tuple(items))


def _unsubscribe(payload: bytes, unknown: Unknown | None) -> UnsubscribeRequest:
    check_batch(payload, 2, "channels")
    message = pb.UnsubscribeRequest.FromString(payload)
    check_top(message, payload, unknown)
    check_count(len(message.channels), "channels")
    return UnsubscribeRequest(id=message.id, channels=tuple(message.channels))


def _presence(payload: bytes, unknown: Unknown | None) -> PresenceRequest:
    message = pb.PresenceRequest.FromString(payload)
    check_top(message, payload, unknown)
    return PresenceRequest(id=message.id, channel=message.channel)


def _occupancy(payload: bytes, unknown: Unknown | None) -> OccupancyRequest:
    message = pb.OccupancyRequest.FromString(payload)
    check_top(message, payload, unknown)
    return OccupancyRequest(id=message.id, channel=message.channel)


def _history(payload: bytes, unknown: Unknown | None) -> HistoryRequest:
    message = pb.HistoryRequest.FromString(payload)
    check_top(message, payload, unknown)
    direction = _DIRECTIONS.get(message.direction)
    if direction is None:
        raise bad_field("direction", "must be one of the Direction numbers")
    return HistoryRequest(
        id=message.id,
        channel=message.channel,
        since=_optional_serial(message, "since"),
        until=_optional_serial(message, "until"),
        from_ms=message.from_ms,
        to_ms=message.to_ms,
        limit=message.limit,
        direction=direction,
    )


def _optional_serial(message: pb.HistoryRequest, name: str) -> Serial | None:
    if not message.HasField(name):
        return None
    return serial_from_proto(getattr(message, name), name, strict=True)


def _rpc(payload: bytes, unknown: Unknown | None) -> RpcRequest:
    message = pb.RpcRequest.FromString(payload)
    check_top(message, payload, unknown)
    return RpcRequest(
        id=message.id,
        method=message.method,
        payload=message.payload,
        timeout_ms=message.timeout_ms,
    )


def _stream(payload: bytes, unknown: Unknown | None) -> StreamRequest:
    message = pb.StreamRequest.FromString(payload)
    check_top(message, payload, unknown)
    return StreamRequest(id=message.id, stream=message.stream, payload=message.payload)


def _document_get(payload: bytes, unknown: Unknown | None) -> DocumentGetRequest:
    message = pb.DocumentGetRequest.FromString(payload)
    check_top(message, payload, unknown)
    return DocumentGetRequest(id=message.id, channel=message.channel)


def _document_change(payload: bytes, unknown: Unknown | None) -> DocumentChangeRequest:
    # The values of a large one are its largest part: they stay bytes until its sender's right was found.
    is_large = len(payload) > SMALL_BYTES
    check_batch(payload, 3, "operations")
    message: Any = (OutlineDocumentChange if is_large else pb.DocumentChangeRequest).FromString(
        payload
    )
    check_top(message, payload, unknown)
    check_count(len(message.operations), "operations")
    for index, operation in enumerate(message.operations):
        check_known(operation, f"operations[{index}]", unknown)
    return DocumentChangeRequest(
        id=message.id,
        channel=message.channel,
        operations=UnreadOperations(
            len(payload),
            lambda: (read_operations if is_large else read_small)(message.operations),
        ),
        if_version=message.if_version if message.HasField("if_version") else -1,
    )


def _mark_read(payload: bytes, unknown: Unknown | None) -> MarkReadRequest:
    check_batch(payload, 3, "notifications")
    message = pb.MarkReadRequest.FromString(payload)
    check_top(message, payload, unknown)
    check_count(len(message.notifications), "notifications")
    return MarkReadRequest(
        id=message.id, channel=message.channel, notifications=tuple(message.notifications)
    )


#: Event number → decoder of the payload a client sends with it.
REQUEST_DECODERS: Final[dict[int, Callable[[bytes, Unknown | None], Request]]] = {
    EventType.PING: _ping,
    EventType.PONG: _pong,
    EventType.CLOSE: _close,
    EventType.SESSION_RESTORE: _restore,
    EventType.AUTH: _auth,
    EventType.SUBSCRIBE: _subscribe,
    EventType.UNSUBSCRIBE: _unsubscribe,
    EventType.PUBLISH: decode_publish,
    EventType.PRESENCE: _presence,
    EventType.OCCUPANCY: _occupancy,
    EventType.HISTORY: _history,
    EventType.RPC: _rpc,
    EventType.STREAM_ENQUEUE: _stream,
    EventType.DOCUMENT_GET: _document_get,
    EventType.DOCUMENT_CHANGE: _document_change,
    EventType.MARK_NOTIFICATION_AS_READ: _mark_read,
}
