"""One hub on one node: its channels, patterns, sessions, retained messages and quotas.

The hub is the tenant's boundary: everything below is reached through a `Hub` object, and no name, key
or pattern inside it can reach another hub. Neighbours: `directory.py` makes and closes hubs.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager, nullcontext

from arauto.errors import ArautoError, Code
from arauto.hub.attendance import Attendance
from arauto.hub.channel import Channel
from arauto.hub.continuity import Continuity
from arauto.hub.departed import Departed
from arauto.hub.environment import Environment
from arauto.hub.epoch import RANDOM_BITS, began_ms, make_epoch
from arauto.hub.holdings import Holdings
from arauto.hub.matcher import Matcher
from arauto.hub.name_index import SLICE_LEN, NameIndex
from arauto.hub.ownership import HERE
from arauto.hub.pattern_bounds import check_room
from arauto.hub.quota import TokenBucket
from arauto.hub.refusals import Refusals
from arauto.hub.retained import Retained
from arauto.hub.rules import HubState
from arauto.hub.stored_keys import StoredKeys
from arauto.hub.subscriber import Subscriber
from arauto.model import Serial
from arauto.names import namespace_of
from arauto.settings import Quotas
from arauto.tasks import Pace

__all__ = ["Hub"]

#: What a disconnection counts for: its frames are written.
_DISCONNECT_STEPS = 10
#: So much of `Matcher.effort` counts for a step.
_EFFORT_PER_STEP = 16


class Hub:
    """A tenant. All methods run on the event loop."""

    __slots__ = (
        "_closing",
        "_idle",
        "_is_closed",
        "_opening",
        "_publish_bucket",
        "_users",
        "_watchers",
        "attendance",
        "channels",
        "continuity",
        "counters",
        "departed",
        "env",
        "epoch",
        "generation",
        "holdings",
        "idle_since_s",
        "name",
        "names",
        "patterns",
        "quotas",
        "refreshing",
        "refusals",
        "retained",
        "sessions",
        "state",
        "stored_keys",
        "subscription_count",
        "ts_ms",
    )

    def __init__(self, name: str, state: HubState, env: Environment) -> None:
        self.name = name
        self.env = env
        self.state = state
        self.quotas: Quotas = state.settings.quotas
        self.generation = 0
        """Grows whenever an access decision may have changed; whoever caches one compares it."""
        self.ts_ms = max(env.clock.wall_ms(), env.began_ms)
        """The time of the newest message, or of a place given out since; never goes back. Public for the
        channels, which give their messages this time."""
        self.epoch = self.new_epoch(fully_stored=False)
        """Stands for this opening of the hub in the places of patterns."""
        self.channels: dict[str, Channel] = {}
        self.names = NameIndex()
        """The names of `channels`."""
        self.departed = Departed(self.ts_ms - 1)
        self._opening: dict[str, asyncio.Future[Channel]] = {}
        self._closing: dict[str, asyncio.Future[None]] = {}
        self._idle: OrderedDict[Channel, float] = OrderedDict()
        """By when they were last used. Not a dict: its first costs the more, the more were taken before."""
        self._watchers: dict[int, list[str]] = {}
        self.patterns: Matcher[dict[Subscriber, None]] = Matcher()
        self.sessions: dict[str, Subscriber] = {}
        self._users: dict[str, dict[Subscriber, None]] = {}
        self.refreshing = asyncio.Lock()
        """Held while settings are read again and applied."""
        self.counters = env.metrics.hub(name)
        self.holdings = Holdings(env.pools, self.quotas, self.counters, env.clock)
        self.retained = Retained(name, env, self.quotas.channels_max, self.holdings.retained)
        self.continuity = Continuity(name, env)
        self.stored_keys = StoredKeys(name, env)
        self.refusals = Refusals(name, self.counters, env.clock, env.storage.journal)
        self.attendance = Attendance(
            name, env.clock, env.storage.journal, enabled=env.journal_subscriptions
        )
        self.subscription_count = 0
        now_s = env.clock.monotonic_s()
        self._publish_bucket = TokenBucket(state.settings.quotas.messages_per_s, now_s)
        self.idle_since_s = now_s
        self._is_closed = False

    # --- sessions ----------------------------------------------------------------------------------

    def add_session(self, subscriber: Subscriber) -> None:
        """Let a session into the hub.

        Raises:
            ArautoError: TOO_MANY_SESSIONS, HUB_CLOSED.
        """
        if self._is_closed:
            raise _closed()
        limit = self.quotas.sessions_max
        if limit and len(self.sessions) >= limit:
            raise ArautoError(Code.TOO_MANY_SESSIONS, f"this hub allows {limit} sessions at a time")
        self.sessions[subscriber.id] = subscriber

    def remove_session(self, subscriber: Subscriber) -> None:
        if self.sessions.get(subscriber.id) is subscriber:
            del self.sessions[subscriber.id]
        self.forget_user(subscriber)
        if not self.sessions:
            self.idle_since_s = self.env.clock.monotonic_s()

    def rename_session(self, subscriber: Subscriber, id: str) -> None:
        """A restored session takes its old id back."""
        del self.sessions[subscriber.id]
        subscriber.id = id
        self.sessions[id] = subscriber

    def know_user(self, subscriber: Subscriber) -> None:
        """The subscriber's user is now known; call again after it changed (`forget_user` first)."""
        if subscriber.user:
            self._users.setdefault(subscriber.user, {})[subscriber] = None

    def forget_user(self, subscriber: Subscriber) -> None:
        holders = self._users.get(subscriber.user)
        if holders is not None:
            holders.pop(subscriber, None)
            if not holders:
                del self._users[subscriber.user]

    def sessions_of(self, user: str) -> list[Subscriber]:
        return list(self._users.get(user, ()))

    def subscribers_named(self, exclude: str) -> Collection[Subscriber]:
        """The sessions an exclusion key ("s:<session>" or "u:<user>") stands for, as they are: no copy."""
        kind, _, name = exclude.partition(":")
        if kind == "u":
            return self._users.get(name, ())
        subscriber = self.sessions.get(name)
        return (subscriber,) if subscriber is not None else ()

    # --- channels ----------------------------------------------------------------------------------

    def channel(self, name: str) -> Channel | None:
        """The open channel of that (well-formed) name, made now if that needs no storage; None if
        opening has to wait: then use `open_channel`.

        Raises:
            ArautoError: TOO_MANY_CHANNELS, NOT_OWNER, NOT_AVAILABLE, HUB_CLOSED.
        """
        found = self.channels.get(name)
        if found is not None:
            return found
        if name in self._opening or name in self._closing:
            return None
        channel = self._make(name)
        if not channel.opens_at_once:
            channel.let_go()
            return None
        channel.open_now()
        self._admit(channel)
        return channel

    async def open_channel(self, name: str) -> Channel:
        """As `channel`, but waits for storage where needed. Concurrent callers share one opening.

        Raises:
            ArautoError: as `channel`, and StorageError.
        """
        channel = self.channel(name)
        if channel is not None:
            return channel
        opening = self._opening.get(name)
        if opening is None:
            opening = asyncio.ensure_future(self._open(name))
            self._opening[name] = opening
            opening.add_done_callback(lambda _: self._opening.pop(name, None))
        try:
            return await asyncio.shield(opening)
        finally:
            del opening  # a failure would hold this frame, and so itself

    async def _open(self, name: str) -> Channel:
        if name in self._closing:
            await self._closing[name]
        channel = self._make(name)
        try:
            await channel.open()
        except BaseException:
            channel.let_go()
            raise
        if self._is_closed:
            await channel.close()
            raise _closed()
        self._admit(channel)
        # Rules may have changed while the store was asked.
        self._apply_rules(channel)
        return channel

    def _make(self, name: str) -> Channel:
        if self._is_closed:
            raise _closed()
        limit = self.quotas.channels_max
        if limit and len(self.channels) + len(self._opening) >= limit and name not in self._opening:
            raise ArautoError(Code.TOO_MANY_CHANNELS, f"this hub allows {limit} channels at a time")
        if self.env.ownership.owner_of(self.name, name) != HERE:
            raise ArautoError(Code.NOT_OWNER, "another node owns this channel")
        kind = self.env.channel_types.get(namespace_of(name))
        return Channel(self, name) if kind is None else kind(self, name)

    def _admit(self, channel: Channel) -> None:
        self.channels[channel.name] = channel
        self.names.add(channel.name)
        for opened in self._watchers.values():
            opened.append(channel.name)
        self.retained.take_rules(channel.name, channel.rules)
        channel.rematch()
        if channel.is_idle:
            self._idle[channel] = self.env.clock.monotonic_s()

    def touch(self, channel: Channel) -> None:
        """The channel has no subscribers and something just happened on it: it may close later."""
        if channel.is_open:
            self._idle.pop(channel, None)
            self._idle[channel] = self.env.clock.monotonic_s()

    async def close_idle_channels(self) -> int:
        """Close channels nobody has used for the configured time; return how many."""
        deadline_s = self.env.clock.monotonic_s() - self.env.limits.channel_close_s
        closed = 0
        pace = Pace()
        while self._idle:
            await pace.after(1)
            if not self._idle:
                break
            channel = next(iter(self._idle))
            if self._idle[channel] > deadline_s:
                break
            del self._idle[channel]
            if self.channels.get(channel.name) is not channel:
                continue
            if channel.is_idle:
                await self._close_channel(channel)
                closed += 1
            elif channel.is_deserted:
                # Deserted, but still busy or bound by a promise: look again later.
                self.touch(channel)
        return closed

    async def _close_channel(self, channel: Channel) -> None:
        """Close one channel. Who asks for its name meanwhile waits and gets a fresh one."""
        del self.channels[channel.name]
        self.names.discard(channel.name)
        # Sessions that remember it as a target must look again.
        channel.is_open = False
        closing = self._closing[channel.name] = asyncio.get_running_loop().create_future()
        try:
            await channel.close()
        finally:
            del self._closing[channel.name]
            closing.set_result(None)

    # --- time --------------------------------------------------------------------------------------

    def new_epoch(self, *, fully_stored: bool, above: int = 0) -> int:
        now_ms = max(self.env.clock.wall_ms(), self.ts_ms)
        random = self.env.entropy.bits(RANDOM_BITS)
        return make_epoch(now_ms, random, fully_stored=fully_stored, above=above)

    def place(self) -> Serial:
        """The hub's place now: whatever is published later, on whichever channel, has no earlier time."""
        self.ts_ms = max(self.env.clock.wall_ms(), self.ts_ms)
        return Serial(self.epoch, self.ts_ms)

    def remembers(self, place: Serial) -> bool:
        """Whether every message that was lost since then by the closing of its channel is among
        `departed`."""
        return place.epoch == self.epoch and self.departed.floor_ms < place.offset <= self.ts_ms

    def knows_stored(self, place: Serial, pattern: str) -> bool:
        """Whether all that a pattern covers was stored ever since then, before this opening of the hub
        too."""
        is_before = place.epoch < self.epoch and place.offset < began_ms(self.epoch)
        return is_before and self.continuity.stored_since(place.offset, pattern, self.state)

    # --- patterns ----------------------------------------------------------------------------------

    def matching(self, pattern: str) -> list[Channel]:
        """The open channels a pattern or topic covers."""
        return [self.channels[name] for name in self.names.matching(pattern)]

    def hold_pattern(self, pattern: str, subscriber: Subscriber) -> None:
        """Subscribe a session to everything a pattern or topic will cover. What it covers already is the
        caller's to join: `Channel.cover` for each of `matching`.

        Raises:
            ArautoError: TOO_MANY_SUBSCRIPTIONS.
        """
        holders = self.patterns.get(pattern)
        if holders is not None:
            holders[subscriber] = None
            return
        check_room(self.patterns, pattern)
        self.patterns.add(pattern, {subscriber: None})

    def drop_pattern(self, pattern: str, subscriber: Subscriber) -> None:
        """The session gives a pattern up, or has to. Where it covers very much, that takes a moment: see
        `leave`."""
        holders = self.patterns.get(pattern)
        if holders is None or subscriber not in holders:
            return
        del holders[subscriber]
        if not holders:
            self.patterns.remove(pattern)
        after = self._uncover(pattern, subscriber, "")
        if after:
            subscriber.leaving_len += 1
            self.env.tasks.spawn(self._uncover_rest(pattern, subscriber, after))

    def _uncover(self, pattern: str, subscriber: Subscriber, after: str) -> str:
        page, after = self.names.page(pattern, after, SLICE_LEN)
        for name in page:
            self.channels[name].uncover(subscriber, pattern)
        return after

    async def _uncover_rest(self, pattern: str, subscriber: Subscriber, after: str) -> None:
        # Who is gone receives nothing anyway: of those one after the other, however many went at once.
        is_gone = subscriber.outbox.closed
        try:
            async with self.env.leaving if is_gone else nullcontext():
                while after:
                    await asyncio.sleep(0)
                    if subscriber in (self.patterns.get(pattern) or ()):
                        return  # it came back meanwhile
                    after = self._uncover(pattern, subscriber, after)
        finally:
            subscriber.leaving_len -= 1

    def leave(self, subscriber: Subscriber) -> Generator[None, None, None]:
        """Until the session has left all that its patterns led to. It is to stay who it was until then: the
        channels know it by that."""
        while subscriber.leaving_len:
            yield

    @contextmanager
    def watching(self) -> Iterator[list[str]]:
        """A list that grows by the name of each channel that opens."""
        opened: list[str] = []
        self._watchers[id(opened)] = opened
        try:
            yield opened
        finally:
            del self._watchers[id(opened)]

    # --- quotas and counters -----------------------------------------------------------------------

    def admit_publish(self, size_bytes: int) -> None:
        """Count a publication against the hub's quotas.

        Raises:
            ArautoError: MESSAGE_TOO_LARGE, HUB_RATE_LIMITED.
        """
        quotas = self.quotas
        limit = quotas.message_bytes_max
        if limit and size_bytes > limit:
            raise ArautoError(
                Code.MESSAGE_TOO_LARGE,
                f"a message of this hub has at most {limit} bytes",
                field="payload",
            )
        if quotas.messages_per_s and not self._publish_bucket.take(self.env.clock.monotonic_s()):
            raise ArautoError(
                Code.HUB_RATE_LIMITED,
                f"this hub allows {quotas.messages_per_s} messages per second",
            )
        self.counters.publishes += 1

    def count_deliveries(self, count: int) -> None:
        counters = self.counters
        counters.deliveries += count
        counters.messages_out += count

    # --- settings ----------------------------------------------------------------------------------

    async def apply(self, state: HubState) -> None:
        """Take new settings: channels take their new rules, sessions re-check what they hold.

        Raises:
            StorageError: what they need could not be read or noted; nothing changed.
        """
        now_ms = max(self.env.clock.wall_ms(), self.ts_ms)
        await self.stored_keys.prepare(self.state, state)
        await self.continuity.note_settings(state, now_ms)
        self.state = state
        self.quotas = state.settings.quotas
        self.retained.set_limit(self.quotas.channels_max)
        self.holdings.set_limits(self.quotas)
        self.generation += 1
        self._publish_bucket.set_rate(state.settings.quotas.messages_per_s)
        pace = Pace()
        for channel in list(self.channels.values()):
            if channel.is_open:
                self._apply_rules(channel)
                # Who may read it depends on the hub's settings too.
                channel.rematch()
            await pace.after(1 + channel.member_count + channel.matching_effort // _EFFORT_PER_STEP)
        for subscriber in list(self.sessions.values()):
            await pace.after(1 + subscriber.session.recheck())
        await self.retained.load_rest()

    def _apply_rules(self, channel: Channel) -> None:
        rules = self.state.resolve_rules(channel.name)
        channel.apply_rules(rules)
        self.retained.take_rules(channel.name, rules)

    @property
    def is_idle(self) -> bool:
        """Whether the hub holds nothing anybody uses."""
        return not self.sessions and not self.channels and not self._opening

    async def close(self) -> None:
        """Disconnect everyone and release everything. Where that is very much, others get their turn."""
        self._is_closed = True
        pace = Pace()
        for subscriber in list(self.sessions.values()):
            held_len = len(subscriber.session.held())
            subscriber.session.disconnect(Code.HUB_CLOSED, "the hub was closed")
            await pace.after(_DISCONNECT_STEPS + held_len)
        channels = list(self.channels.values())
        self.channels = {}
        self.names = NameIndex()
        self._idle.clear()
        for channel in channels:
            channel.is_open = False
        is_storing = False
        while channels:
            # Taken out one by one, so that they are not freed all at once either.
            channel = channels.pop()
            steps = 1 + channel.member_count
            await channel.close()
            is_storing = is_storing or channel.is_storing
            await pace.after(steps)
        if is_storing:
            # Whoever opens them next must find everything that has a serial.
            await self.env.storage.journal.flush()
        await self.retained.close()
        self.holdings.close()


def _closed() -> ArautoError:
    return ArautoError(Code.HUB_CLOSED, "the hub was closed")
