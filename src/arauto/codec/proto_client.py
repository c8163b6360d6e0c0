"""The client's side of the protobuf flavour: requests → payload bytes, payload bytes → events. Pure.

Decoders are lenient, unlike the server's: a field this version does not know is ignored, so that an older
client can talk to a newer server.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from arauto.codec import arauto_pb2 as pb
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
from arauto.codec.numbers import EventType
from arauto.codec.proto_values import (
    operation_from_proto,
    operation_to_proto,
    positions_from_proto,
    positions_to_proto,
    serial_from_proto,
    serial_to_proto,
    value_from_proto,
)
from arauto.codec.unread import operations_of
from arauto.model import Grant, Grants, Member, Message, Serial

__all__ = ["EVENT_DECODERS", "REQUEST_ENCODERS"]


# --- requests: records → payload bytes ------------------------------------------------------------


def _encode_publish(request: PublishRequest) -> bytes:
    message = pb.PublishRequest(id=request.id)
    for item in request.items:
        out = message.messages.add(
            channel=item.channel,
            payload=item.payload,
            content_type=item.content_type,
            idempotency_key=item.idempotency_key,
            key=item.key,
            echo=int(item.echo),
            retain=item.retain,
            store=item.store,
            push=item.push,
            ttl_ms=item.ttl_ms,
        )
        if item.headers:
            out.headers.update(item.headers)
    return message.SerializeToString()


def _encode_subscribe(request: SubscribeRequest) -> bytes:
    message = pb.SubscribeRequest(id=request.id)
    for item in request.items:
        out = message.items.add(channel=item.channel)
        if item.since is not None:
            serial_to_proto(item.since, out.since)
        if item.positions is not None:
            positions_to_proto(item.positions, out.positions)
    return message.SerializeToString()


def _encode_history(request: HistoryRequest) -> bytes:
    message = pb.HistoryRequest(
        id=request.id,
        channel=request.channel,
        from_ms=request.from_ms,
        to_ms=request.to_ms,
        limit=request.limit,
        direction=int(request.direction),  # type: ignore[arg-type]
    )
    if request.since is not None:
        serial_to_proto(request.since, message.since)
    if request.until is not None:
        serial_to_proto(request.until, message.until)
    return message.SerializeToString()


def _encode_rpc(request: RpcRequest) -> bytes:
    return pb.RpcRequest(
        id=request.id,
        method=request.method,
        payload=request.payload,
        timeout_ms=request.timeout_ms,
    ).SerializeToString()


def _encode_stream(request: StreamRequest) -> bytes:
    message = pb.StreamRequest(id=request.id, stream=request.stream, payload=request.payload)
    return message.SerializeToString()


def _encode_document_change(request: DocumentChangeRequest) -> bytes:
    message = pb.DocumentChangeRequest(id=request.id, channel=request.channel)
    for operation in operations_of(request):
        operation_to_proto(operation, message.operations.add())
    if request.if_version >= 0:
        message.if_version = request.if_version
    return message.SerializeToString()


def _encode_mark_read(request: MarkReadRequest) -> bytes:
    return pb.MarkReadRequest(
        id=request.id, channel=request.channel, notifications=request.notifications
    ).SerializeToString()


def _encode_unsubscribe(request: UnsubscribeRequest) -> bytes:
    return pb.UnsubscribeRequest(id=request.id, channels=request.channels).SerializeToString()


def _encode_restore(request: RestoreRequest) -> bytes:
    message = pb.RestoreRequest(id=request.id, key=request.key)
    for channel, serial in request.positions.items():
        serial_to_proto(serial, message.positions[channel])
    return message.SerializeToString()


def _encode_auth(request: AuthRequest) -> bytes:
    return pb.AuthRequest(id=request.id, credentials=request.credentials).SerializeToString()


#: Record type → event number and encoder of the payload.
REQUEST_ENCODERS: Final[dict[type, tuple[EventType, Callable[[Any], bytes]]]] = {
    Ping: (EventType.PING, lambda r: pb.Ping(id=r.id).SerializeToString()),
    Pong: (EventType.PONG, lambda r: pb.Pong(id=r.id).SerializeToString()),
    CloseRequest: (EventType.CLOSE, lambda _: b""),
    RestoreRequest: (EventType.SESSION_RESTORE, _encode_restore),
    AuthRequest: (EventType.AUTH, _encode_auth),
    SubscribeRequest: (EventType.SUBSCRIBE, _encode_subscribe),
    UnsubscribeRequest: (EventType.UNSUBSCRIBE, _encode_unsubscribe),
    PublishRequest: (EventType.PUBLISH, _encode_publish),
    PresenceRequest: (
        EventType.PRESENCE,
        lambda r: pb.PresenceRequest(id=r.id, channel=r.channel).SerializeToString(),
    ),
    OccupancyRequest: (
        EventType.OCCUPANCY,
        lambda r: pb.OccupancyRequest(id=r.id, channel=r.channel).SerializeToString(),
    ),
    HistoryRequest: (EventType.HISTORY, _encode_history),
    RpcRequest: (EventType.RPC, _encode_rpc),
    StreamRequest: (EventType.STREAM_ENQUEUE, _encode_stream),
    DocumentGetRequest: (
        EventType.DOCUMENT_GET,
        lambda r: pb.DocumentGetRequest(id=r.id, channel=r.channel).SerializeToString(),
    ),
    DocumentChangeRequest: (EventType.DOCUMENT_CHANGE, _encode_document_change),
    MarkReadRequest: (EventType.MARK_NOTIFICATION_AS_READ, _encode_mark_read),
}


# --- events: payload bytes → records ------------------------------------------------------------


def _message_from_proto(message: pb.Publication) -> Message:
    headers = message.headers
    return Message(
        hub="",
        channel=message.channel,
        payload=message.payload,
        epoch=message.epoch,
        offset=message.offset,
        ts_ms=message.ts_ms,
        content_type=message.content_type,
        id=message.idempotency_key,
        session=message.session,
        user=message.user,
        key=message.key,
        headers=dict(headers) if headers else None,
        expires_ms=message.expires_ms,
        retain=message.retain,
        store=message.store,
    )


def _publication(payload: bytes) -> Publication:
    return Publication(message=_message_from_proto(pb.Publication.FromString(payload)))


def _serial(message: Any, name: str) -> Serial | None:
    if not message.HasField(name):
        return None
    return serial_from_proto(getattr(message, name), name, strict=False)


def _error_from_proto(error: pb.ErrorEvent) -> ErrorEvent:
    return ErrorEvent(
        id=error.id,
        code=error.code,
        message=error.message,
        field=error.field,
        retryable=error.retryable,
    )


def _optional_error(message: Any) -> ErrorEvent | None:
    return _error_from_proto(message.error) if message.HasField("error") else None


def _ack(payload: bytes) -> Ack:
    message = pb.Ack.FromString(payload)
    results = [
        AckItem(
            serial=_serial(item, "serial"), duplicate=item.duplicate, error=_optional_error(item)
        )
        for item in message.results
    ]
    return Ack(id=message.id, results=tuple(results))


def _error(payload: bytes) -> ErrorEvent:
    return _error_from_proto(pb.ErrorEvent.FromString(payload))


def _session_info(payload: bytes) -> SessionInfo:
    message = pb.SessionInfo.FromString(payload)
    return SessionInfo(
        hub=message.hub,
        session=message.session,
        node=message.node,
        authenticated=message.authenticated,
        user=message.user,
        allow_anonymous=message.allow_anonymous,
        user_channel=message.user_channel,
        default_public=message.default_public,
        auth_deadline_ms=message.auth_deadline_ms,
        ping_interval_ms=message.ping_interval_ms,
        message_bytes_max=message.message_bytes_max,
    )


def _restore_key(payload: bytes) -> RestoreKey:
    message = pb.RestoreKey.FromString(payload)
    return RestoreKey(key=message.key, ttl_ms=message.ttl_ms)


def _results(results: Iterable[pb.SubscribeResult]) -> tuple[SubscribeResult, ...]:
    return tuple(
        SubscribeResult(
            channel=result.channel,
            error=_optional_error(result),
            serial=_serial(result, "serial"),
            recovered=result.recovered,
            recovered_count=result.recovered_count,
            positions=(
                positions_from_proto(result.positions, "positions", strict=False)
                if result.HasField("positions")
                else None
            ),
            unrecovered=tuple(result.unrecovered),
        )
        for result in results
    )


def _grants(grants: pb.Grants) -> Grants:
    channels = [
        Grant(channel=grant.channel, publish=grant.publish, subscribe=grant.subscribe)
        for grant in grants.channels
    ]
    return Grants(channels=tuple(channels), rpcs=tuple(grants.rpcs))


def _subscribe_reply(payload: bytes) -> SubscribeReply:
    message = pb.SubscribeReply.FromString(payload)
    return SubscribeReply(id=message.id, results=_results(message.results))


def _restored(payload: bytes) -> Restored:
    message = pb.Restored.FromString(payload)
    return Restored(
        id=message.id,
        session=message.session,
        user=message.user,
        grants=_grants(message.grants),
        extra=dict(message.extra),
        results=_results(message.results),
        expires_in_ms=message.expires_in_ms,
    )


def _auth_reply(payload: bytes) -> AuthReply:
    message = pb.AuthReply.FromString(payload)
    return AuthReply(
        id=message.id,
        success=message.success,
        user=message.user,
        token=message.token,
        token_expires_ms=message.token_expires_ms,
        grants=_grants(message.grants),
        extra=dict(message.extra),
        error=_optional_error(message),
        expires_in_ms=message.expires_in_ms,
    )


def _unsubscribe_reply(payload: bytes) -> UnsubscribeReply:
    message = pb.UnsubscribeReply.FromString(payload)
    return UnsubscribeReply(
        id=message.id, channels=tuple(message.channels), error=_optional_error(message)
    )


def _member(member: pb.Member) -> Member:
    return Member(
        session=member.session,
        user=member.user,
        joined_ms=member.joined_ms,
        extra=dict(member.extra),
    )


def _join(payload: bytes) -> Join:
    message = pb.Join.FromString(payload)
    return Join(channel=message.channel, member=_member(message.member))


def _leave(payload: bytes) -> Leave:
    message = pb.Leave.FromString(payload)
    return Leave(channel=message.channel, member=_member(message.member))


def _presence(payload: bytes) -> Presence:
    message = pb.Presence.FromString(payload)
    members = tuple(_member(member) for member in message.members)
    return Presence(id=message.id, channel=message.channel, members=members, total=message.total)


def _occupancy(payload: bytes) -> Occupancy:
    message = pb.Occupancy.FromString(payload)
    return Occupancy(id=message.id, channel=message.channel, count=message.count)


def _history(payload: bytes) -> HistoryReply:
    message = pb.HistoryReply.FromString(payload)
    return HistoryReply(
        id=message.id,
        channel=message.channel,
        messages=tuple(_message_from_proto(each) for each in message.messages),
        more=message.more,
        next=_serial(message, "next"),
        complete=message.complete,
        serial=_serial(message, "serial"),
    )


def _gap(payload: bytes) -> Gap:
    message = pb.Gap.FromString(payload)
    return Gap(
        channel=message.channel,
        after=serial_from_proto(message.after, "after", strict=False),
        upto=serial_from_proto(message.upto, "upto", strict=False),
        reason=message.reason,
    )


def _document_get(payload: bytes) -> DocumentGetReply:
    message = pb.DocumentGetReply.FromString(payload)
    value = value_from_proto(message.value, "value", strict=False)
    return DocumentGetReply(
        id=message.id, channel=message.channel, version=message.version, value=value
    )


def _document_change(payload: bytes) -> DocumentChangeReply:
    message = pb.DocumentChangeReply.FromString(payload)
    return DocumentChangeReply(id=message.id, channel=message.channel, version=message.version)


def _document_info(payload: bytes) -> DocumentInfo:
    message = pb.DocumentInfo.FromString(payload)
    return DocumentInfo(channel=message.channel, version=message.version)


def _document_updated(payload: bytes) -> DocumentUpdated:
    message = pb.DocumentUpdated.FromString(payload)
    operations = [
        operation_from_proto(operation, f"operations[{index}]", strict=False)
        for index, operation in enumerate(message.operations)
    ]
    return DocumentUpdated(
        channel=message.channel,
        version=message.version,
        operations=tuple(operations),
        user=message.user,
        ts_ms=message.ts_ms,
    )


#: Event number → decoder of the payload a server sends with it.
EVENT_DECODERS: Final[dict[int, Callable[[bytes], Event]]] = {
    EventType.PUBLISH: _publication,
    EventType.ACK: _ack,
    EventType.PING: lambda payload: Ping(id=pb.Ping.FromString(payload).id),
    EventType.PONG: lambda payload: Pong(id=pb.Pong.FromString(payload).id),
    EventType.ERROR: _error,
    EventType.SESSION_INFO: _session_info,
    EventType.SESSION_RESTORE: _restore_key,
    EventType.SESSION_RESTORED: _restored,
    EventType.AUTH: _auth_reply,
    EventType.SUBSCRIBE: _subscribe_reply,
    EventType.UNSUBSCRIBE: _unsubscribe_reply,
    EventType.JOIN: _join,
    EventType.LEAVE: _leave,
    EventType.PRESENCE: _presence,
    EventType.OCCUPANCY: _occupancy,
    EventType.HISTORY: _history,
    EventType.GAP: _gap,
    EventType.DOCUMENT_GET: _document_get,
    EventType.DOCUMENT_CHANGE: _document_change,
    EventType.DOCUMENT_INFO: _document_info,
    EventType.DOCUMENT_UPDATED: _document_updated,
}
