"""Reading: a channel's past, who is there, how many are there."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from arauto.codec.events import HistoryReply, HistoryRequest, OccupancyRequest, PresenceRequest
from arauto.errors import ArautoError, Code
from arauto.features.occupancy import OccupancyFeature
from arauto.features.presence import PresenceFeature
from arauto.hub.channel import Channel
from arauto.hub.history import HistoryPage, read_history
from arauto.session.access import open_readable, readable
from arauto.session.cost import bytes_cost

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["handle_history", "handle_occupancy", "handle_presence"]


def handle_presence(
    session: "Session", request: PresenceRequest
) -> Coroutine[Any, Any, None] | None:
    channel = readable(session, request.channel)
    if channel is None:
        return _presence_later(session, request)
    _send_presence(session, channel, request.id)
    return None


async def _presence_later(session: "Session", request: PresenceRequest) -> None:
    _send_presence(session, await open_readable(session, request.channel), request.id)


def _send_presence(session: "Session", channel: Channel, id: int) -> None:
    feature = channel.feature(PresenceFeature.name)
    if not isinstance(feature, PresenceFeature):
        raise ArautoError(
            Code.FEATURE_OFF, "presence is not enabled on this channel", field="channel"
        )
    session.send(feature.snapshot(id))


def handle_occupancy(
    session: "Session", request: OccupancyRequest
) -> Coroutine[Any, Any, None] | None:
    channel = readable(session, request.channel)
    if channel is None:
        return _occupancy_later(session, request)
    _send_occupancy(session, channel, request.id)
    return None


async def _occupancy_later(session: "Session", request: OccupancyRequest) -> None:
    _send_occupancy(session, await open_readable(session, request.channel), request.id)


def _send_occupancy(session: "Session", channel: Channel, id: int) -> None:
    feature = channel.feature(OccupancyFeature.name)
    if not isinstance(feature, OccupancyFeature):
        raise ArautoError(
            Code.FEATURE_OFF, "occupancy is not enabled on this channel", field="channel"
        )
    session.send(feature.snapshot(id))


def handle_history(session: "Session", request: HistoryRequest) -> None:
    """Read a page beside the session's other requests: the past need not hold up the present."""
    readable(session, request.channel)
    limit = session.env.limits.history_requests_max
    if session.history_requests >= limit:
        raise ArautoError(Code.TOO_MANY_PENDING, f"at most {limit} history requests at a time")
    session.history_requests += 1
    session.env.hub.tasks.spawn(_history(session, request))


async def _history(session: "Session", request: HistoryRequest) -> None:
    try:
        channel = await session.hub.open_channel(request.channel)
        page = await read_history(
            channel,
            HistoryPage(
                since=request.since,
                until=request.until,
                from_ms=request.from_ms,
                to_ms=request.to_ms,
                limit=request.limit,
                direction=request.direction,
            ),
            keep=lambda message: not session.subscriber.is_excluded(message),
        )
        # Reading took its time; what may be read is what may be read now.
        readable(session, request.channel)
    except ArautoError as error:
        if not session.has_ended():
            session.refuse(error, request.id, request)
        return
    finally:
        session.history_requests -= 1
    if not session.has_ended():
        session.bucket.owe(bytes_cost(sum(len(message.payload) for message in page.messages)))
        session.send(
            HistoryReply(
                id=request.id,
                channel=request.channel,
                messages=tuple(page.messages),
                more=page.more,
                next=page.next,
                complete=page.complete,
                serial=channel.serial,
            )
        )
