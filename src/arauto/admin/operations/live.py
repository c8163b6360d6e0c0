"""What goes on in a hub now, and publishing into it."""

from arauto.admin.operations.states import States
from arauto.admin.paging import first_covered, page_of
from arauto.admin.records import (
    ChannelPage,
    History,
    LiveChannel,
    OccupancyInfo,
    PresenceInfo,
    StoredInfo,
)
from arauto.codec import json_event_shapes as shapes
from arauto.codec.checks import check_request
from arauto.codec.events import HistoryReply, HistoryRequest, Presence, PublishItem
from arauto.codec.json_events import EVENT_TO_SHAPE
from arauto.codec.json_values import SerialShape, serial_to_json
from arauto.errors import ArautoError, Code
from arauto.features.presence import PresenceFeature
from arauto.hub.channel import Channel
from arauto.hub.history import HistoryPage, read_history
from arauto.hub.hub import Hub
from arauto.hub.refusals import Asker
from arauto.hub.sender import ADMINISTRATORS
from arauto.model import Serial
from arauto.names import check_channel, check_hub, check_pattern
from arauto.session.environment import SessionEnvironment
from arauto.session.oneshot import Published, publish_all, published, refuse_all
from arauto.storage.base import HistoryQuery

__all__ = ["Live"]


class Live:
    """The verbs on channels and messages."""

    def __init__(self, env: SessionEnvironment, states: States) -> None:
        self._env = env
        self._states = states

    async def publish(
        self, hub: str, items: tuple[PublishItem, ...], *, by: str, size_bytes: int
    ) -> Published:
        """Publish messages, in order, wherever the administrator likes. Each outcome stands for itself.
        `size_bytes` is what the request took on the wire.

        Raises:
            ArautoError: BAD_HUB_NAME, UNKNOWN_HUB, OVERLOADED.
        """
        env = self._env
        # Of who asks, as "http 127.0.0.1", the address is what an auditor wants to know.
        asker = Asker(transport=ADMINISTRATORS, address=by.partition(" ")[2])
        if hub not in env.directory.hubs:
            state = await env.directory.look(hub)
            refused = refuse_all(state, items, asker, None, env.refusals)
            if refused is not None:
                env.hub.metrics.node.read(size_bytes)
                return published(refused)
        found = await env.directory.get(hub)
        trace = env.trace_publish
        outcomes = await publish_all(found, items, asker, None, trace, size_bytes=size_bytes)
        return published(outcomes)

    async def channels(
        self, hub: str, *, match: str = "", after: str = "", limit: int
    ) -> ChannelPage:
        """The open channels of a hub that a pattern or topic covers, in order of name.

        Raises:
            ArautoError: BAD_HUB_NAME, UNKNOWN_HUB, BAD_CHANNEL_NAME (the pattern or cursor).
        """
        if match:
            check_pattern(match)
        if after:
            check_channel(after)
        running = await self._running(hub)
        if running is None:
            return ChannelPage(items=[], next="")
        names = await first_covered(running.names, match or "*", after, limit + 1)
        page, cursor = page_of(names, limit)
        # Some may have closed while others were looked at.
        found = [running.channels[name] for name in page if name in running.channels]
        return ChannelPage(items=[_live(channel) for channel in found], next=cursor)

    async def presence(self, hub: str, channel: str) -> PresenceInfo:
        """Who is in a channel whose rules enable presence.

        Raises:
            ArautoError: BAD_HUB_NAME, UNKNOWN_HUB, BAD_CHANNEL_NAME, FEATURE_OFF.
        """
        check_channel(channel)
        running = await self._running(hub)
        state = running.state if running is not None else await self._states.of(hub)
        if not state.resolve_rules(channel).presence:
            raise ArautoError(
                Code.FEATURE_OFF, "presence is not enabled on this channel", field="channel"
            )
        live = running.channels.get(channel) if running is not None else None
        feature = live.feature(PresenceFeature.name) if live is not None else None
        if not isinstance(feature, PresenceFeature):
            return PresenceInfo(channel=channel, members=[], total=0)
        shape = EVENT_TO_SHAPE[Presence](feature.snapshot())
        assert isinstance(shape, shapes.Presence)
        return PresenceInfo(channel=channel, members=shape.members, total=shape.total)

    async def occupancy(self, hub: str, channel: str) -> OccupancyInfo:
        """How many sessions receive from a channel, whatever its rules.

        Raises:
            ArautoError: BAD_HUB_NAME, UNKNOWN_HUB, BAD_CHANNEL_NAME.
        """
        check_channel(channel)
        running = await self._running(hub)
        live = running.channels.get(channel) if running is not None else None
        return OccupancyInfo(channel=channel, count=live.member_count if live is not None else 0)

    async def stored(self, hub: str, match: str) -> StoredInfo:
        """What the rules store of the channels that a name, pattern or topic can cover.

        Raises:
            ArautoError: BAD_HUB_NAME, UNKNOWN_HUB, BAD_CHANNEL_NAME.
        """
        check_pattern(match)
        state = await self._states.of(check_hub(hub))
        return StoredInfo(match=match, store=sorted(state.stored(match)))

    async def history(self, hub: str, request: HistoryRequest) -> History:
        """A page of a channel's past, with nothing kept back.

        Raises:
            ArautoError: BAD_HUB_NAME, UNKNOWN_HUB, BAD_CHANNEL_NAME, BAD_FIELD, TOO_MANY_CHANNELS.
        """
        check_channel(request.channel)
        check_request(request)
        if not await self._has_past(hub, request.channel):
            return _no_history(request.channel)
        channel = await (await self._env.directory.get(hub)).open_channel(request.channel)
        page = await read_history(
            channel,
            HistoryPage.of(request),
            keep=lambda message: True,
        )
        reply = HistoryReply(
            id=0,
            channel=channel.name,
            messages=tuple(page.messages),
            more=page.more,
            next=page.next,
            complete=page.complete,
            serial=channel.serial,
        )
        shape = EVENT_TO_SHAPE[HistoryReply](reply)
        assert isinstance(shape, shapes.HistoryReply)
        return History(
            channel=channel.name,
            messages=shape.messages,
            more=shape.more,
            next=shape.next if isinstance(shape.next, SerialShape) else None,
            complete=shape.complete,
            serial=serial_to_json(channel.serial),
        )

    async def _has_past(self, hub: str, channel: str) -> bool:
        """Whether there can be anything to show, so that a question about a hub that somebody made up
        does not make it."""
        directory = self._env.directory
        if await self._running(hub) is not None or await directory.read_state(hub) is not None:
            return True
        query = HistoryQuery(
            hub=hub, channel=channel, now_ms=self._env.hub.clock.wall_ms(), limit=1
        )
        return bool(await self._env.hub.storage.journal.history(query))

    async def _running(self, hub: str) -> Hub | None:
        return await self._states.running(check_hub(hub))


def _no_history(channel: str) -> History:
    return History(
        channel=channel,
        messages=[],
        more=False,
        next=None,
        complete=False,
        serial=serial_to_json(Serial(0, 0)),
    )


def _live(channel: Channel) -> LiveChannel:
    return LiveChannel(
        name=channel.name,
        serial=serial_to_json(channel.serial),
        members=channel.member_count,
        rules=channel.rules,
    )
