"""Events in the JSON flavour: records → shapes. Pure; used by `json` alone."""

from collections.abc import Callable
from typing import Any, Final

from msgspec import UNSET, Raw, UnsetType

from arauto.codec import json_event_shapes as shapes
from arauto.codec.events import (
    Ack,
    AckItem,
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
from arauto.codec.json_values import (
    SerialShape,
    operation_to_json,
    payload_to_json,
    positions_to_json,
    serial_to_json,
    value_to_json,
)
from arauto.model import Grants, Member, Message, Serial

__all__ = ["EVENT_TO_SHAPE"]


def _message(message: Message, make: Callable[..., Any]) -> Any:
    """Return the message as `make`, either of the two shapes that a message has."""
    data, text, base64 = payload_to_json(message.payload, message.content_type)
    return make(
        channel=message.channel,
        data=data,
        text=text,
        base64=base64,
        content_type=message.content_type if base64 is not UNSET else "",
        serial=SerialShape(f"{message.epoch:016x}", message.offset),
        ts_ms=message.ts_ms,
        idempotency_key=message.id,
        session=message.session,
        user=message.user,
        key=message.key,
        headers=message.headers or UNSET,
        expires_ms=message.expires_ms,
        retain=message.retain,
        store=message.store,
    )


def _publication(event: Publication) -> shapes.Publication:
    shape: shapes.Publication = _message(event.message, shapes.Publication)
    return shape


def _serial(serial: Serial | None) -> SerialShape | UnsetType:
    return UNSET if serial is None else serial_to_json(serial)


def _ack_item(item: AckItem) -> shapes.AckItem:
    return shapes.AckItem(
        serial=_serial(item.serial), duplicate=item.duplicate, error=_error_part(item.error)
    )


def _ack(event: Ack) -> shapes.Ack:
    return shapes.Ack(id=event.id, results=[_ack_item(item) for item in event.results])


def _error_part(error: ErrorEvent | None) -> shapes.ErrorPart | UnsetType:
    if error is None:
        return UNSET
    return shapes.ErrorPart(
        id=error.id,
        code=error.code,
        message=error.message,
        field=error.field,
        retryable=error.retryable,
    )


def _error(event: ErrorEvent) -> shapes.Error:
    return shapes.Error(
        id=event.id,
        code=event.code,
        message=event.message,
        field=event.field,
        retryable=event.retryable,
    )


def _session_info(event: SessionInfo) -> shapes.SessionInfo:
    return shapes.SessionInfo(
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
    )


def _result(result: SubscribeResult) -> shapes.SubscribeResult:
    positions = result.positions
    return shapes.SubscribeResult(
        channel=result.channel,
        error=_error_part(result.error),
        serial=_serial(result.serial),
        recovered=result.recovered,
        recovered_count=result.recovered_count,
        positions=UNSET if positions is None else positions_to_json(positions),
        unrecovered=list(result.unrecovered),
    )


def _grants(grants: Grants) -> shapes.Grants:
    channels = [
        shapes.Grant(channel=grant.channel, publish=grant.publish, subscribe=grant.subscribe)
        for grant in grants.channels
    ]
    return shapes.Grants(channels=channels, rpcs=list(grants.rpcs))


def _subscribe_reply(event: SubscribeReply) -> shapes.SubscribeReply:
    return shapes.SubscribeReply(id=event.id, results=[_result(each) for each in event.results])


def _restored(event: Restored) -> shapes.Restored:
    return shapes.Restored(
        id=event.id,
        session=event.session,
        user=event.user,
        grants=_grants(event.grants),
        extra=event.extra,
        results=[_result(each) for each in event.results],
        expires_in_ms=event.expires_in_ms,
    )


def _auth_reply(event: AuthReply) -> shapes.AuthReply:
    grants = event.grants
    return shapes.AuthReply(
        id=event.id,
        success=event.success,
        user=event.user,
        token=event.token,
        token_expires_ms=event.token_expires_ms,
        grants=_grants(grants) if grants.channels or grants.rpcs else UNSET,
        extra=event.extra,
        error=_error_part(event.error),
        expires_in_ms=event.expires_in_ms,
    )


def _unsubscribe_reply(event: UnsubscribeReply) -> shapes.UnsubscribeReply:
    return shapes.UnsubscribeReply(
        id=event.id, channels=list(event.channels), error=_error_part(event.error)
    )


def _member(member: Member) -> shapes.Member:
    return shapes.Member(
        session=member.session, user=member.user, joined_ms=member.joined_ms, extra=member.extra
    )


def _presence(event: Presence) -> shapes.Presence:
    members = [_member(member) for member in event.members]
    return shapes.Presence(id=event.id, channel=event.channel, members=members, total=event.total)


def _history(event: HistoryReply) -> shapes.HistoryReply:
    return shapes.HistoryReply(
        id=event.id,
        channel=event.channel,
        messages=[_message(message, shapes.MessagePart) for message in event.messages],
        more=event.more,
        next=_serial(event.next),
        complete=event.complete,
        serial=_serial(event.serial),
    )


def _gap(event: Gap) -> shapes.Gap:
    return shapes.Gap(
        channel=event.channel,
        after=serial_to_json(event.after),
        upto=serial_to_json(event.upto),
        reason=event.reason,
    )


def _document_get(event: DocumentGetReply) -> shapes.DocumentGetReply:
    value = event.value
    plain = Raw(value.data) if isinstance(value, EncodedValue) else value_to_json(value)
    return shapes.DocumentGetReply(
        id=event.id, channel=event.channel, version=event.version, value=plain
    )


def _document_change(event: DocumentChangeReply) -> shapes.DocumentChangeReply:
    return shapes.DocumentChangeReply(id=event.id, channel=event.channel, version=event.version)


def _document_updated(event: DocumentUpdated) -> shapes.DocumentUpdated:
    return shapes.DocumentUpdated(
        channel=event.channel,
        version=event.version,
        operations=[operation_to_json(each, shapes.Operation) for each in event.operations],
        user=event.user,
        ts_ms=event.ts_ms,
    )


#: Record type → what makes the shape of it.
EVENT_TO_SHAPE: Final[dict[type, Callable[[Any], shapes.AnyEvent]]] = {
    Publication: _publication,
    Ack: _ack,
    Ping: lambda e: shapes.Ping(id=e.id),
    Pong: lambda e: shapes.Pong(id=e.id),
    ErrorEvent: _error,
    SessionInfo: _session_info,
    RestoreKey: lambda e: shapes.RestoreKey(key=e.key, ttl_ms=e.ttl_ms),
    Restored: _restored,
    AuthReply: _auth_reply,
    SubscribeReply: _subscribe_reply,
    UnsubscribeReply: _unsubscribe_reply,
    Join: lambda e: shapes.Join(channel=e.channel, member=_member(e.member)),
    Leave: lambda e: shapes.Leave(channel=e.channel, member=_member(e.member)),
    Presence: _presence,
    Occupancy: lambda e: shapes.Occupancy(id=e.id, channel=e.channel, count=e.count),
    HistoryReply: _history,
    Gap: _gap,
    DocumentGetReply: _document_get,
    DocumentChangeReply: _document_change,
    DocumentInfo: lambda e: shapes.DocumentInfo(channel=e.channel, version=e.version),
    DocumentUpdated: _document_updated,
}
