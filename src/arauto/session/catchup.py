"""What a returning subscriber missed: reading it from the store beforehand, and the final answer.

A subscription to one channel comes back with its last place there. One that covers many comes back with
a place per channel it has heard from, and under `*` the hub's place when it began: whatever is not
named counts as seen up to then. It is recovered only if nothing can have been lost in between on any
channel, also on those that opened and closed while nobody looked.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from arauto.codec.events import SubscribeItem
from arauto.errors import ArautoError, Code
from arauto.hub.channel import Channel
from arauto.hub.epoch import is_fully_stored
from arauto.hub.recovery import Recovery
from arauto.hub.subscriber import Subscriber
from arauto.model import Message, Serial
from arauto.names import ALL_CHANNELS, check_channel, literal_prefix, matches
from arauto.session.access import check_readable
from arauto.session.cost import matching_cost, pay
from arauto.storage.base import HistoryQuery

if TYPE_CHECKING:
    from arauto.session.session import Session

__all__ = ["Catchup", "Room"]

#: Pages read while more is published than live history holds. Each is shorter than the one before, unless the
#: store is slower than the channel.
_PREFETCH_TRIES = 16
#: Closed channels compared before others get their turn.
_SLICE_LEN = 50
#: What comparing one takes, in the steps of `Matcher.effort`.
_STEPS_PER_NAME = 2
#: Channels in the store that are looked at for one pattern after a restart.
_SCAN_LEN = 10_000


class Room:
    """What may be replayed in answer to one request. A client that wants more reads it page by page."""

    __slots__ = ("_left_bytes",)

    def __init__(self, size_bytes: int) -> None:
        self._left_bytes = size_bytes

    def take(self, messages: Sequence[Message]) -> bool:
        """Whether these fit too."""
        size_bytes = sum(len(message.payload) for message in messages)
        if size_bytes > self._left_bytes:
            return False
        self._left_bytes -= size_bytes
        return True


class Catchup:
    """One returning subscription: where it stands in each channel, and what the store had of it."""

    __slots__ = ("_began_ms", "_item", "_prefetched", "_since", "lost", "proven")

    def __init__(self, item: SubscribeItem) -> None:
        self._item = item
        self._since: dict[str, Serial] = {}
        self._prefetched: dict[str, list[Message] | None] = {}
        """Missed messages read from the store, by channel; None where some are gone for good."""
        self.lost: dict[str, None] = {}
        """Channels of which something is known to be missing."""
        self.proven = item.positions is None
        """Whether what is not in `lost` is known to be whole."""
        began = item.positions.get(ALL_CHANNELS) if item.positions is not None else None
        self._began_ms = began.offset if began is not None else -1

    @property
    def is_asked(self) -> bool:
        return self._item.since is not None or self._item.positions is not None

    async def prepare(self, channel: Channel, subscriber: Subscriber, room: Room) -> None:
        """Read from the store what live history no longer has, and keep it while there is room for what the
        request has read: what is more than may be replayed is not to wait in memory for the answer.
        """
        since = self._place(channel)
        if since is None and is_fully_stored(channel.epoch):
            since = await self._read_since_then(channel)
        if since is None:
            self.lost[channel.name] = None
            return
        self._since[channel.name] = since
        if channel.name not in self._prefetched:
            self._prefetched[channel.name] = await _prefetch(channel, since)
        found = self._prefetched[channel.name] or []
        may_be_sent = Room(channel.env.limits.replay_bytes_max).take(channel.due(subscriber, found))
        if not may_be_sent or not room.take(found):
            self._prefetched[channel.name] = None

    def _place(self, channel: Channel) -> Serial | None:
        """Where the subscription stands in a channel; None if only the store can tell."""
        if self._item.positions is None:
            return self._item.since
        named = self._item.positions.get(channel.name)
        if named is not None:
            return named
        # Without a beginning, all there is may be new to it; that nothing is missing is not claimed.
        return (
            Serial(channel.epoch, 0) if self._began_ms < 0 else channel.place_at(self._began_ms - 1)
        )

    async def _read_since_then(self, channel: Channel) -> Serial | None:
        limit = channel.env.limits.recovery_len_max
        now, now_ms = channel.serial, channel.env.clock.wall_ms()
        kept_ms = channel.kept_ms
        if kept_ms > 0 and now_ms - self._began_ms >= kept_ms:
            return None  # what is kept no longer leaves no trace
        before = channel.hub.departed.get(channel.name)
        if before is not None and before.unstored_ms >= self._began_ms:
            return None  # something of an epoch that is over need not be in the store
        found = await channel.env.storage.journal.history(
            HistoryQuery(
                hub=channel.hub.name,
                channel=channel.name,
                now_ms=now_ms,
                from_ms=self._began_ms,
                limit=limit + 1,
            )
        )
        if len(found) > limit:
            return None
        if not found:
            return now
        self._prefetched[channel.name] = found
        return Serial(found[0].epoch, found[0].offset - 1)

    async def find_closed(self, session: "Session") -> list[str]:
        """The closed channels that have to be opened, since the store may have something of theirs.
        Notes what is lost with those that were not stored, and whether that is all."""
        positions = self._item.positions or {}
        began = positions.get(ALL_CHANNELS)
        names: dict[str, None] = {}
        if began is not None and session.hub.remembers(began):
            self.proven = True
            await self._look_among_departed(session, began, names)
        elif began is not None and session.hub.knows_stored(began, self._item.channel):
            await self._look_in_store(session, began, names)
        if not self.proven:
            names |= {n: None for n, serial in positions.items() if is_fully_stored(serial.epoch)}
        wanted = [name for name in names if self._may_open(session, name)]
        limit = session.env.hub.limits.pattern_positions_len_max
        if len(wanted) > limit:
            self.proven = False
        return wanted[:limit]

    async def _look_among_departed(
        self, session: "Session", began: Serial, names: dict[str, None]
    ) -> None:
        positions = self._item.positions or {}
        for index, (name, life) in enumerate(
            list(session.hub.departed.closed_since(began.offset)), start=1
        ):
            if index % _SLICE_LEN == 0:
                await _pause(session)
            if not self._covers(session, name):
                continue
            if life.unstored_ms >= began.offset and positions.get(name) != life.last:
                self.lost[name] = None
            if life.stored_ms >= began.offset:
                names[name] = None

    async def _look_in_store(
        self, session: "Session", began: Serial, names: dict[str, None]
    ) -> None:
        prefix = literal_prefix(self._item.channel)
        found = await session.env.hub.storage.journal.places(
            session.hub.name, (prefix, prefix + "\U0010ffff"), began.offset - 1, scan_len=_SCAN_LEN
        )
        self.proven = found is not None
        for index, name in enumerate(found or (), start=1):
            if index % _SLICE_LEN == 0:
                await _pause(session)
            if self._covers(session, name):
                names[name] = None

    def _covers(self, session: "Session", name: str) -> bool:
        if not matches(self._item.channel, name):
            return False
        try:
            check_readable(session, name)
        except ArautoError as error:
            if error.code is Code.RATE_LIMITED:
                raise  # there may be very many names
            return False
        return True

    def _may_open(self, session: "Session", name: str) -> bool:
        if name in session.hub.channels:
            return False
        try:
            check_channel(name)
        except ArautoError:
            return False
        return self._covers(session, name)

    def lost_with_closed(self, live: Collection[str]) -> list[str]:
        """The channels of which something is missing and that are not among these."""
        lost = dict.fromkeys(name for name in self.lost if name not in live)
        if not self.proven:
            # Nobody remembers what became of them.
            pattern = self._item.channel
            for name in self._item.positions or ():
                if name != ALL_CHANNELS and name not in live and matches(pattern, name):
                    lost[name] = None
        return list(lost)

    def missed(self, channel: Channel) -> tuple[bool, list[Message]]:
        """(whether everything since the subscription's place is here, the messages). Final: nothing may
        happen between this and joining."""
        name = channel.name
        since = self._since.get(name) or self._place(channel)
        prefetched = self._prefetched.get(name, [])
        if name in self.lost or prefetched is None or since is None:
            return False, []
        # The store may be a step ahead: what it has and nobody was given yet will come by itself.
        delivered = channel.serial
        prefetched = [message for message in prefetched if message.serial <= delivered]
        if prefetched:
            at = prefetched[-1].serial
            if at.epoch == delivered.epoch and at.offset >= channel.recent_floor:
                return True, prefetched + list(channel.recent_after(at.offset))
            return False, []
        how = channel.recovery_from(since)
        if how is Recovery.NOTHING_MISSED:
            return True, []
        if how is Recovery.FROM_MEMORY:
            return True, list(channel.recent_after(since.offset))
        return False, []


async def _pause(session: "Session") -> None:
    """Let others have their turn after a slice, which the session pays for."""
    pay(session, matching_cost(_STEPS_PER_NAME * _SLICE_LEN))
    await asyncio.sleep(0)
    await session.env.hub.trying.turn()


async def _prefetch(channel: Channel, since: Serial) -> list[Message] | None:
    """Read missed messages until live history covers the rest; None if the oldest are gone.

    Where stored messages are kept for a time only, the first one missed must still be there: what is
    kept no longer leaves no trace.
    """
    found: list[Message] = []
    at = since
    for _ in range(_PREFETCH_TRIES):
        if channel.recovery_from(at) is not Recovery.FROM_STORE:
            break
        query = HistoryQuery(
            hub=channel.hub.name,
            channel=channel.name,
            now_ms=channel.env.clock.wall_ms(),
            since=at,
            until=Serial(at.epoch + 1, 0),
            limit=channel.env.limits.recovery_len_max,
        )
        page = await channel.env.storage.journal.history(query)
        starts_late = not page or page[0].offset != since.offset + 1
        if at is since and channel.kept_ms > 0 and starts_late:
            return None
        if not page:
            # Everything up to here has expired or is not yet durable: live history has the rest.
            break
        found.extend(page)
        at = page[-1].serial
    return found
