"""Events in the protobuf flavour: records → payload bytes. Pure; used by `proto` alone."""

from collections.abc import Callable
from typing import Any, Final

from arauto.codec import arauto_pb2 as pb
from arauto.codec.events import (
    Ack,
    AuthReply,
    DocumentChangeReply,
    DocumentGetReply,
    DocumentInfo,
    DocumentUpdated,
    EncodedValue,
    ErrorEvent,
    Gap,
    HistoryReply,
    Join,
    Leave,
    Occupancy,
    Ping,
    Pong,
    Presence,
    Publication,
    Restored,
    RestoreKey,
    SessionInfo,
    SubscribeReply,
    SubscribeResult,
    UnsubscribeReply,
)
from arauto.codec.numbers import EventType
from arauto.codec.proto_values import (
    field_bytes,
    operation_to_proto,
    positions_to_proto,
    serial_to_proto,
    value_to_proto,
)
from arauto.model import Grants, Member, Message

__all__ = ["EVENT_ENCODERS"]

_Publication = pb.Publication
_Ack = pb.Ack


def _encode_publication(event: Publication) -> bytes:
    return _message_to_proto(event.message).SerializeToString()


def _message_to_proto(message: Message) -> pb.Publication:
    # Setting a field costs more than asking whether it is needed; most messages need few.
    out = _Publication(
        channel=message.channel,
        payload=message.payload,
        epoch=message.epoch,
        offset=message.offset,
        ts_ms=message.ts_ms,
    )
    if message.content_type:
        out.content_type = message.content_type
    if message.id:
        out.idempotency_key = message.id
    if message.session:
        out.session = message.session
    if message.user:
        out.user = message.user
    if message.key:
        out.key = message.key
    if message.headers:
        out.headers.update(message.headers)
    if message.expires_ms:
        out.expires_ms = message.expires_ms
    if message.retain:
        out.retain = True
    if message.store:
        out.store = True
    return out


def _encode_ack(event: Ack) -> bytes:
    message = _Ack(id=event.id)
    add = message.results.add
    for item in event.results:
        out = add()
        serial = item.serial
        if serial is not None:
            place = out.serial
            place.epoch = serial.epoch
            place.offset = serial.offset
        if item.duplicate:
            out.duplicate = True
        if item.error is not None:
            _fill_error(item.error, out.error)
    return message.SerializeToString()


def _fill_error(error: ErrorEvent, out: pb.ErrorEvent) -> None:
    out.id = error.id
    out.code = error.code
    out.message = error.message
    out.field = error.field
    out.retryable = error.retryable


def _encode_error(event: ErrorEvent) -> bytes:
    message = pb.ErrorEvent()
    _fill_error(event, message)
    return message.SerializeToString()


def _encode_session_info(event: SessionInfo) -> bytes:
    return pb.SessionInfo(
        hub=event.hub,
        session=event.session,
        node=event.node,
        authenticated=event.authenticated,
        user=event.user,
        allow_anonymous=event.allow_anonymous,
        user_channel=event.user_channel,
        default_public=event.default_public,
        auth_deadline_ms=event.auth_deadline_ms,
        ping_interval_ms=event.ping_interval_ms,
        message_bytes_max=event.message_bytes_max,
    ).SerializeToString()


def _fill_result(result: SubscribeResult, out: pb.SubscribeResult) -> None:
    out.channel = result.channel
    out.recovered = result.recovered
    out.recovered_count = result.recovered_count
    out.unrecovered.extend(result.unrecovered)
    if result.error is not None:
        _fill_error(result.error, out.error)
    if result.serial is not None:
        serial_to_proto(result.serial, out.serial)
    if result.positions is not None:
        positions_to_proto(result.positions, out.positions)


def _fill_grants(grants: Grants, out: pb.Grants) -> None:
    for grant in grants.channels:
        out.channels.add(channel=grant.channel, publish=grant.publish, subscribe=grant.subscribe)
    out.rpcs.extend(grants.rpcs)


def _encode_subscribe_reply(event: SubscribeReply) -> bytes:
    message = pb.SubscribeReply(id=event.id)
    for result in event.results:
        _fill_result(result, message.results.add())
    return message.SerializeToString()


def _encode_restored(event: Restored) -> bytes:
    message = pb.Restored(
        id=event.id,
        session=event.session,
        user=event.user,
        extra=event.extra,
        expires_in_ms=event.expires_in_ms,
    )
    _fill_grants(event.grants, message.grants)
    for result in event.results:
        _fill_result(result, message.results.add())
    return message.SerializeToString()


def _encode_auth_reply(event: AuthReply) -> bytes:
    message = pb.AuthReply(
        id=event.id,
        success=event.success,
        user=event.user,
        token=event.token,
        token_expires_ms=event.token_expires_ms,
        extra=event.extra,
        expires_in_ms=event.expires_in_ms,
    )
    _fill_grants(event.grants, message.grants)
    if event.error is not None:
        _fill_error(event.error, message.error)
    return message.SerializeToString()


def _encode_unsubscribe_reply(event: UnsubscribeReply) -> bytes:
    message = pb.UnsubscribeReply(id=event.id, channels=event.channels)
    if event.error is not None:
        _fill_error(event.error, message.error)
    return message.SerializeToString()


def _member_to_proto(member: Member) -> pb.Member:
    return pb.Member(
        session=member.session, user=member.user, joined_ms=member.joined_ms, extra=member.extra
    )


def _encode_join(event: Join) -> bytes:
    message = pb.Join(channel=event.channel, member=_member_to_proto(event.member))
    return message.SerializeToString()


def _encode_leave(event: Leave) -> bytes:
    message = pb.Leave(channel=event.channel, member=_member_to_proto(event.member))
    return message.SerializeToString()


def _encode_presence(event: Presence) -> bytes:
    return pb.Presence(
        id=event.id,
        channel=event.channel,
        members=[_member_to_proto(member) for member in event.members],
        total=event.total,
    ).SerializeToString()


def _encode_occupancy(event: Occupancy) -> bytes:
    return pb.Occupancy(id=event.id, channel=event.channel, count=event.count).SerializeToString()


def _encode_history(event: HistoryReply) -> bytes:
    message = pb.HistoryReply(
        id=event.id,
        channel=event.channel,
        messages=[_message_to_proto(each) for each in event.messages],
        more=event.more,
        complete=event.complete,
    )
    if event.next is not None:
        serial_to_proto(event.next, message.next)
    if event.serial is not None:
        serial_to_proto(event.serial, message.serial)
    return message.SerializeToString()


def _encode_gap(event: Gap) -> bytes:
    message = pb.Gap(channel=event.channel, reason=event.reason)
    serial_to_proto(event.after, message.after)
    serial_to_proto(event.upto, message.upto)
    return message.SerializeToString()


def _encode_document_get(event: DocumentGetReply) -> bytes:
    message = pb.DocumentGetReply(id=event.id, channel=event.channel, version=event.version)
    if isinstance(event.value, EncodedValue):
        return message.SerializeToString() + field_bytes(b"\x22", event.value.data)
    value_to_proto(event.value, message.value)
    return message.SerializeToString()


def _encode_document_change(event: DocumentChangeReply) -> bytes:
    return pb.DocumentChangeReply(
        id=event.id, channel=event.channel, version=event.version
    ).SerializeToString()


def _encode_document_info(event: DocumentInfo) -> bytes:
    return pb.DocumentInfo(channel=event.channel, version=event.version).SerializeToString()


def _encode_document_updated(event: DocumentUpdated) -> bytes:
    message = pb.DocumentUpdated(
        channel=event.channel, version=event.version, user=event.user, ts_ms=event.ts_ms
    )
    for operation in event.operations:
        operation_to_proto(operation, message.operations.add())
    return message.SerializeToString()


#: Record type → event number and encoder of the payload.
EVENT_ENCODERS: Final[dict[type, tuple[EventType, Callable[[Any], bytes]]]] = {
    Publication: (EventType.PUBLISH, _encode_publication),
    Ack: (EventType.ACK, _encode_ack),
    Ping: (EventType.PING, lambda e: pb.Ping(id=e.id).SerializeToString()),
    Pong: (EventType.PONG, lambda e: pb.Pong(id=e.id).SerializeToString()),
    ErrorEvent: (EventType.ERROR, _encode_error),
    SessionInfo: (EventType.SESSION_INFO, _encode_session_info),
    RestoreKey: (
        EventType.SESSION_RESTORE,
        lambda e: pb.RestoreKey(key=e.key, ttl_ms=e.ttl_ms).SerializeToString(),
    ),
    Restored: (EventType.SESSION_RESTORED, _encode_restored),
    AuthReply: (EventType.AUTH, _encode_auth_reply),
    SubscribeReply: (EventType.SUBSCRIBE, _encode_subscribe_reply),
    UnsubscribeReply: (EventType.UNSUBSCRIBE, _encode_unsubscribe_reply),
    Join: (EventType.JOIN, _encode_join),
    Leave: (EventType.LEAVE, _encode_leave),
    Presence: (EventType.PRESENCE, _encode_presence),
    Occupancy: (EventType.OCCUPANCY, _encode_occupancy),
    HistoryReply: (EventType.HISTORY, _encode_history),
    Gap: (EventType.GAP, _encode_gap),
    DocumentGetReply: (EventType.DOCUMENT_GET, _encode_document_get),
    DocumentChangeReply: (EventType.DOCUMENT_CHANGE, _encode_document_change),
    DocumentInfo: (EventType.DOCUMENT_INFO, _encode_document_info),
    DocumentUpdated: (EventType.DOCUMENT_UPDATED, _encode_document_updated),
}
