"""Reading: who is on a channel, how many are there. `pages.py` has its past."""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from arauto.codec.events import (
    OccupancyRequest,
    Presence,
    PresenceRequest,
)
from arauto.errors import ArautoError, Code
from arauto.features.occupancy import OccupancyFeature
from arauto.features.presence import PresenceFeature
from arauto.hub.channel import Channel
from arauto.hub.outbox import Outbox
from arauto.session.access import closed_again, open_readable, readable
from arauto.session.cost import charge, page_cost

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["handle_occupancy", "handle_presence"]


def handle_presence(
    session: "Session", request: PresenceRequest
) -> Coroutine[Any, Any, None] | None:
    if readable(session, request.channel) is None:
        return _presence_later(session, request)
    return _show(session, request)


async def _presence_later(session: "Session", request: PresenceRequest) -> None:
    await open_readable(session, request.channel)
    rest = _show(session, request)
    if rest is not None:
        await rest


def _show(session: "Session", request: PresenceRequest) -> Coroutine[Any, Any, None] | None:
    """Answer at once, if the connection has taken what came before; else what waits for that."""
    picture = _Picture(session, request)
    session.outbox.owe(picture, at_once=True)
    return None if picture.is_shown else picture.wait()


class _Picture:
    """Who is on a channel, as one request asked: made when the connection takes it, since a few bytes may ask
    for thousands of large ones. Implements `Debtor`."""

    __slots__ = ("_request", "_session", "is_shown")

    def __init__(self, session: "Session", request: PresenceRequest) -> None:
        self._session = session
        self._request = request
        self.is_shown = False

    async def wait(self) -> None:
        """Until it has gone out, or the session has ended."""
        session = self._session
        if not self.is_shown and not session.has_ended():
            session.showing = asyncio.get_running_loop().create_future()
            await session.showing

    def owed_to(self, outbox: Outbox) -> bytes:
        """See `Debtor`."""
        session, request = self._session, self._request
        self.is_shown = True
        showing, session.showing = session.showing, None
        if showing is not None:
            showing.set_result(None)
        try:
            # It may have waited: what earlier ones turned out to cost is to be paid first, and what may be
            # read is what may be read now.
            charge(session, 0)
            picture = _who_is_there(session, request)
        except ArautoError as error:
            session.refuse(error, request.id, request)
            return b""
        session.errors = 0
        data = outbox.format.encode(picture)
        session.bucket.owe(page_cost(len(picture.members), len(data)))
        return data


def _who_is_there(session: "Session", request: PresenceRequest) -> Presence:
    channel = readable(session, request.channel)
    if channel is None:
        raise closed_again()
    feature = channel.feature(PresenceFeature.name)
    if not isinstance(feature, PresenceFeature):
        raise ArautoError(
            Code.FEATURE_OFF, "presence is not enabled on this channel", field="channel"
        )
    channel.catch_up(session.outbox)
    return feature.snapshot(request.id)


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
    session.errors = 0
