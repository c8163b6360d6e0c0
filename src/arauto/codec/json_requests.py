"""Requests in the JSON flavour: shapes → records. Pure; used by `json` alone."""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Raw, UnsetType

from arauto.codec import json_request_shapes as shapes
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
from arauto.codec.json_unread import read_operations
from arauto.codec.json_values import (
    payload_from_json,
    positions_from_json,
    serial_from_json,
)
from arauto.model import Direction

__all__ = ["REQUEST_FROM_SHAPE"]

_ECHOES: Final = {"all": Echo.ALL, "not_session": Echo.NOT_SESSION, "not_user": Echo.NOT_USER}
_DIRECTIONS: Final = {"forward": Direction.FORWARD, "backward": Direction.BACKWARD}


def _publish(shape: shapes.Publish) -> PublishRequest:
    wire_items = shape.messages
    check_count(len(wire_items), "messages")
    items = []
    for index, item in enumerate(wire_items):
        payload, content_type = payload_from_json(
            item.data, item.text, item.base64, f"messages[{index}]"
        )
        if item.content_type:
            if content_type:
                field = f"messages[{index}].content_type"
                raise bad_field(field, "is only allowed beside base64")
            content_type = item.content_type
        headers = item.headers
        items.append(
            PublishItem(
                channel=item.channel,
                payload=payload,
                content_type=content_type,
                idempotency_key=item.idempotency_key,
                key=item.key,
                echo=_ECHOES[item.echo],
                retain=item.retain,
                store=item.store,
                push=item.push,
                ttl_ms=item.ttl_ms,
                headers=headers or None,
            )
        )
    return PublishRequest(id=shape.id, items=tuple(items))


def _subscribe(shape: shapes.Subscribe) -> SubscribeRequest:
    check_count(len(shape.items), "items")
    items = []
    for index, item in enumerate(shape.items):
        since = positions = None
        if not isinstance(item.since, UnsetType):
            since = serial_from_json(item.since, f"items[{index}].since")
        if not isinstance(item.positions, UnsetType):
            positions = positions_from_json(item.positions, f"items[{index}].positions")
        items.append(SubscribeItem(channel=item.channel, since=since, positions=positions))
    return SubscribeRequest(id=shape.id, items=tuple(items))


def _restore(shape: shapes.Restore) -> RestoreRequest:
    positions = positions_from_json(shape.positions, "positions")
    return RestoreRequest(id=shape.id, key=shape.key, positions=positions)


def _unsubscribe(shape: shapes.Unsubscribe) -> UnsubscribeRequest:
    check_count(len(shape.channels), "channels")
    return UnsubscribeRequest(id=shape.id, channels=tuple(shape.channels))


def _history(shape: shapes.History) -> HistoryRequest:
    since, until = shape.since, shape.until
    return HistoryRequest(
        id=shape.id,
        channel=shape.channel,
        since=None if isinstance(since, UnsetType) else serial_from_json(since, "since"),
        until=None if isinstance(until, UnsetType) else serial_from_json(until, "until"),
        from_ms=shape.from_ms,
        to_ms=shape.to_ms,
        limit=shape.limit,
        direction=_DIRECTIONS[shape.direction],
    )


def _auth(shape: shapes.Auth) -> AuthRequest:
    return AuthRequest(
        id=shape.id, credentials=payload_from_json(shape.data, shape.text, shape.base64, "")[0]
    )


def _rpc(shape: shapes.Rpc) -> RpcRequest:
    payload, _ = payload_from_json(shape.data, shape.text, shape.base64, "")
    return RpcRequest(
        id=shape.id, method=shape.method, payload=payload, timeout_ms=shape.timeout_ms
    )


def _stream(shape: shapes.Stream) -> StreamRequest:
    return StreamRequest(
        id=shape.id,
        stream=shape.stream,
        payload=payload_from_json(shape.data, shape.text, shape.base64, "")[0],
    )


def _document_change(shape: shapes.DocumentChange) -> DocumentChangeRequest:
    check_count(len(shape.operations), "operations")
    size_bytes = sum(
        memoryview(each.value).nbytes for each in shape.operations if isinstance(each.value, Raw)
    )
    if_version = -1
    if not isinstance(shape.if_version, UnsetType):
        if_version = shape.if_version
        if if_version < 0:
            raise bad_field("if_version", "must not be negative")
    return DocumentChangeRequest(
        id=shape.id,
        channel=shape.channel,
        operations=UnreadOperations(size_bytes, lambda: read_operations(shape.operations)),
        if_version=if_version,
    )


def _mark_read(shape: shapes.MarkRead) -> MarkReadRequest:
    check_count(len(shape.notifications), "notifications")
    return MarkReadRequest(
        id=shape.id, channel=shape.channel, notifications=tuple(shape.notifications)
    )


#: Shape type → what makes the record of it.
REQUEST_FROM_SHAPE: Final[dict[type, Callable[[Any], Request]]] = {
    shapes.Ping: lambda s: Ping(id=s.id),
    shapes.Pong: lambda s: Pong(id=s.id),
    shapes.Close: lambda _: CloseRequest(),
    shapes.Restore: _restore,
    shapes.Auth: _auth,
    shapes.Subscribe: _subscribe,
    shapes.Unsubscribe: _unsubscribe,
    shapes.Publish: _publish,
    shapes.Presence: lambda s: PresenceRequest(id=s.id, channel=s.channel),
    shapes.Occupancy: lambda s: OccupancyRequest(id=s.id, channel=s.channel),
    shapes.History: _history,
    shapes.Rpc: _rpc,
    shapes.Stream: _stream,
    shapes.DocumentGet: lambda s: DocumentGetRequest(id=s.id, channel=s.channel),
    shapes.DocumentChange: _document_change,
    shapes.MarkRead: _mark_read,
}
