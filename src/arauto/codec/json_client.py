"""The client's side of the JSON flavour: requests → shapes, shapes → events. Pure; used by `json` alone."""

from collections.abc import Callable
from typing import Any, Final

from msgspec import UNSET, UnsetType

from arauto.codec import json_event_shapes as events
from arauto.codec import json_request_shapes as requests
from arauto.codec.events import (
    Ack,
    AckItem,
    AuthReply,
    AuthRequest,
    CloseRequest,
    DocumentChangeReply,
    DocumentChangeRequest,
    DocumentGetReply,
    DocumentGetRequest,
    DocumentInfo,
    DocumentUpdated,
    Echo,
    ErrorEvent,
    Event,
    Gap,
    HistoryReply,
    HistoryRequest,
    Join,
    Leave,
    MarkReadRequest,
    Occupancy,
    OccupancyRequest,
    Ping,
    Pong,
    Presence,
    PresenceRequest,
    Publication,
    PublishRequest,
    Restored,
    RestoreKey,
    RestoreRequest,
    RpcRequest,
    SessionInfo,
    StreamRequest,
    SubscribeReply,
    SubscribeRequest,
    SubscribeResult,
    UnsubscribeReply,
    UnsubscribeRequest,
)
from arauto.codec.json_values import (
    SerialShape,
    operation_from_json,
    operation_to_json,
    payload_from_json,
    payload_to_json,
    positions_from_json,
    positions_to_json,
    serial_from_json,
    serial_to_json,
    value_from_json,
)
from arauto.codec.unread import operations_of
from arauto.model import TEXT, Direction, Grant, Grants, Member, Message, Serial

__all__ = ["EVENT_FROM_SHAPE", "REQUEST_TO_SHAPE"]

_ECHO_NAMES: Final = {Echo.ALL: "all", Echo.NOT_SESSION: "not_session", Echo.NOT_USER: "not_user"}
_DIRECTION_NAMES: Final = {Direction.FORWARD: "forward", Direction.BACKWARD: "backward"}


# --- requests: records → shapes ------------------------------------------------------------------


def _publish_shape(request: PublishRequest) -> requests.Publish:
    items = []
    for item in request.items:
        data, text, base64 = payload_to_json(item.payload, item.content_type)
        items.append(
            requests.PublishItem(
                channel=item.channel,
                data=data,
                text=text,
                base64=base64,
                content_type=item.content_type if base64 is not UNSET else "",
                idempotency_key=item.idempotency_key,
                key=item.key,
                echo=_ECHO_NAMES[item.echo],  # type: ignore[arg-type]
                retain=item.retain,
                store=item.store,
                push=item.push,
                ttl_ms=item.ttl_ms,
                headers=item.headers or UNSET,
            )
        )
    return requests.Publish(id=request.id, messages=items)


def _subscribe_shape(request: SubscribeRequest) -> requests.Subscribe:
    items = [
        requests.SubscribeItem(
            channel=item.channel,
            since=UNSET if item.since is None else serial_to_json(item.since),
            positions=UNSET if item.positions is None else positions_to_json(item.positions),
        )
        for item in request.items
    ]
    return requests.Subscribe(id=request.id, items=items)


def _history_shape(request: HistoryRequest) -> requests.History:
    return requests.History(
        id=request.id,
        channel=request.channel,
        since=UNSET if request.since is None else serial_to_json(request.since),
        until=UNSET if request.until is None else serial_to_json(request.until),
        from_ms=request.from_ms,
        to_ms=request.to_ms,
        limit=request.limit,
        direction=_DIRECTION_NAMES[request.direction],  # type: ignore[arg-type]
    )


def _auth_shape(request: AuthRequest) -> requests.Auth:
    _, text, base64 = payload_to_json(request.credentials, TEXT)
    return requests.Auth(id=request.id, text=text, base64=base64)


def _rpc_shape(request: RpcRequest) -> requests.Rpc:
    _, text, base64 = payload_to_json(request.payload, TEXT)
    return requests.Rpc(
        id=request.id,
        method=request.method,
        text=text,
        base64=base64,
        timeout_ms=request.timeout_ms,
    )


def _stream_shape(request: StreamRequest) -> requests.Stream:
    _, text, base64 = payload_to_json(request.payload, TEXT)
    return requests.Stream(id=request.id, stream=request.stream, text=text, base64=base64)


def _document_change_shape(request: DocumentChangeRequest) -> requests.DocumentChange:
    return requests.DocumentChange(
        id=request.id,
        channel=request.channel,
        operations=[operation_to_json(each, requests.Operation) for each in operations_of(request)],
        if_version=UNSET if request.if_version < 0 else request.if_version,
    )


def _mark_read_shape(request: MarkReadRequest) -> requests.MarkRead:
    notifications = list(request.notifications)
    return requests.MarkRead(id=request.id, channel=request.channel, notifications=notifications)


#: Record type → what makes the shape of it.
REQUEST_TO_SHAPE: Final[dict[type, Callable[[Any], requests.AnyRequest]]] = {
    Ping: lambda r: requests.Ping(id=r.id),
    Pong: lambda r: requests.Pong(id=r.id),
    CloseRequest: lambda _: requests.Close(),
    RestoreRequest: lambda r: requests.Restore(
        id=r.id, key=r.key, positions=positions_to_json(r.positions)
    ),
    AuthRequest: _auth_shape,
    SubscribeRequest: _subscribe_shape,
    UnsubscribeRequest: lambda r: requests.Unsubscribe(id=r.id, channels=list(r.channels)),
    PublishRequest: _publish_shape,
    PresenceRequest: lambda r: requests.Presence(id=r.id, channel=r.channel),
    OccupancyRequest: lambda r: requests.Occupancy(id=r.id, channel=r.channel),
    HistoryRequest: _history_shape,
    RpcRequest: _rpc_shape,
    StreamRequest: _stream_shape,
    DocumentGetRequest: lambda r: requests.DocumentGet(id=r.id, channel=r.channel),
    DocumentChangeRequest: _document_change_shape,
    MarkReadRequest: _mark_read_shape,
}


# --- events: shapes → records --------------------------------------------------------------------------


def _message(shape: events.MessagePart | events.Publication) -> Message:
    payload, content_type = payload_from_json(shape.data, shape.text, shape.base64, "")
    serial = serial_from_json(shape.serial, "serial")
    headers = shape.headers
    return Message(
        hub="",
        channel=shape.channel,
        payload=payload,
        epoch=serial.epoch,
        offset=serial.offset,
        ts_ms=shape.ts_ms,
        content_type=content_type or shape.content_type,
        id=shape.idempotency_key,
        session=shape.session,
        user=shape.user,
        key=shape.key,
        headers=None if isinstance(headers, UnsetType) else headers,
        expires_ms=shape.expires_ms,
        retain=shape.retain,
        store=shape.store,
    )


def _serial(shape: SerialShape | UnsetType, field: str) -> Serial | None:
    return None if isinstance(shape, UnsetType) else serial_from_json(shape, field)


def _error(shape: events.ErrorPart) -> ErrorEvent:
    return ErrorEvent(
        id=shape.id,
        code=shape.code,
        message=shape.message,
        field=shape.field,
        retryable=shape.retryable,
    )


def _optional_error(shape: events.ErrorPart | UnsetType) -> ErrorEvent | None:
    return None if isinstance(shape, UnsetType) else _error(shape)


def _ack(shape: events.Ack) -> Ack:
    results = [
        AckItem(
            serial=_serial(item.serial, "serial"),
            duplicate=item.duplicate,
            error=_optional_error(item.error),
        )
        for item in shape.results
    ]
    return Ack(id=shape.id, results=tuple(results))


def _session_info(shape: events.SessionInfo) -> SessionInfo:
    return SessionInfo(
        hub=shape.hub,
        session=shape.session,
        node=shape.node,
        authenticated=shape.authenticated,
        user=shape.user,
        allow_anonymous=shape.allow_anonymous,
        user_channel=shape.user_channel,
        default_public=shape.default_public,
        auth_deadline_ms=shape.auth_deadline_ms,
        ping_interval_ms=shape.ping_interval_ms,
        message_bytes_max=shape.message_bytes_max,
    )


def _results(shapes: list[events.SubscribeResult]) -> tuple[SubscribeResult, ...]:
    results = []
    for shape in shapes:
        positions = None
        if not isinstance(shape.positions, UnsetType):
            positions = positions_from_json(shape.positions, "positions")
        results.append(
            SubscribeResult(
                channel=shape.channel,
                error=_optional_error(shape.error),
                serial=_serial(shape.serial, "serial"),
                recovered=shape.recovered,
                recovered_count=shape.recovered_count,
                positions=positions,
                unrecovered=tuple(shape.unrecovered),
            )
        )
    return tuple(results)


def _grants(shape: events.Grants | UnsetType) -> Grants:
    if isinstance(shape, UnsetType):
        return Grants()
    channels = [
        Grant(channel=grant.channel, publish=grant.publish, subscribe=grant.subscribe)
        for grant in shape.channels
    ]
    return Grants(channels=tuple(channels), rpcs=tuple(shape.rpcs))


def _restored(shape: events.Restored) -> Restored:
    return Restored(
        id=shape.id,
        session=shape.session,
        user=shape.user,
        grants=_grants(shape.grants),
        extra=shape.extra,
        results=_results(shape.results),
        expires_in_ms=shape.expires_in_ms,
    )


def _auth_reply(shape: events.AuthReply) -> AuthReply:
    return AuthReply(
        id=shape.id,
        success=shape.success,
        user=shape.user,
        token=shape.token,
        token_expires_ms=shape.token_expires_ms,
        grants=_grants(shape.grants),
        extra=shape.extra,
        error=_optional_error(shape.error),
        expires_in_ms=shape.expires_in_ms,
    )


def _unsubscribe_reply(shape: events.UnsubscribeReply) -> UnsubscribeReply:
    return UnsubscribeReply(
        id=shape.id, channels=tuple(shape.channels), error=_optional_error(shape.error)
    )


def _member(shape: events.Member) -> Member:
    return Member(
        session=shape.session, user=shape.user, joined_ms=shape.joined_ms, extra=shape.extra
    )


def _presence(shape: events.Presence) -> Presence:
    members = tuple(_member(member) for member in shape.members)
    return Presence(id=shape.id, channel=shape.channel, members=members, total=shape.total)


def _history(shape: events.HistoryReply) -> HistoryReply:
    return HistoryReply(
        id=shape.id,
        channel=shape.channel,
        messages=tuple(_message(message) for message in shape.messages),
        more=shape.more,
        next=_serial(shape.next, "next"),
        complete=shape.complete,
        serial=_serial(shape.serial, "serial"),
    )


def _gap(shape: events.Gap) -> Gap:
    return Gap(
        channel=shape.channel,
        after=serial_from_json(shape.after, "after"),
        upto=serial_from_json(shape.upto, "upto"),
        reason=shape.reason,
    )


def _document_get(shape: events.DocumentGetReply) -> DocumentGetReply:
    value = value_from_json(shape.value, "value")
    return DocumentGetReply(id=shape.id, channel=shape.channel, version=shape.version, value=value)


def _document_updated(shape: events.DocumentUpdated) -> DocumentUpdated:
    operations = [
        operation_from_json(operation, f"operations[{index}]")
        for index, operation in enumerate(shape.operations)
    ]
    return DocumentUpdated(
        channel=shape.channel,
        version=shape.version,
        operations=tuple(operations),
        user=shape.user,
        ts_ms=shape.ts_ms,
    )


#: Shape type → what makes the record of it.
EVENT_FROM_SHAPE: Final[dict[type, Callable[[Any], Event]]] = {
    events.Publication: lambda s: Publication(message=_message(s)),
    events.Ack: _ack,
    events.Ping: lambda s: Ping(id=s.id),
    events.Pong: lambda s: Pong(id=s.id),
    events.Error: _error,
    events.SessionInfo: _session_info,
    events.RestoreKey: lambda s: RestoreKey(key=s.key, ttl_ms=s.ttl_ms),
    events.Restored: _restored,
    events.AuthReply: _auth_reply,
    events.SubscribeReply: lambda s: SubscribeReply(id=s.id, results=_results(s.results)),
    events.UnsubscribeReply: _unsubscribe_reply,
    events.Join: lambda s: Join(channel=s.channel, member=_member(s.member)),
    events.Leave: lambda s: Leave(channel=s.channel, member=_member(s.member)),
    events.Presence: _presence,
    events.Occupancy: lambda s: Occupancy(id=s.id, channel=s.channel, count=s.count),
    events.HistoryReply: _history,
    events.Gap: _gap,
    events.DocumentGetReply: _document_get,
    events.DocumentChangeReply: lambda s: DocumentChangeReply(
        id=s.id, channel=s.channel, version=s.version
    ),
    events.DocumentInfo: lambda s: DocumentInfo(channel=s.channel, version=s.version),
    events.DocumentUpdated: _document_updated,
}
