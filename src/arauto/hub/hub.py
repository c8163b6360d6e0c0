"""One hub on one node: its channels, patterns, sessions, retained messages and quotas.

The hub is the tenant's boundary: everything below is reached through a `Hub` object, and no name, key
or pattern inside it can reach another hub. Neighbours: `directory.py` makes and closes hubs.
"""

import asyncio
from collections.abc import Sequence

from arauto.errors import ArautoError, Code
from arauto.hub.attendance import Attendance
from arauto.hub.channel import Channel
from arauto.hub.continuity import Continuity
from arauto.hub.environment import Environment
from arauto.hub.matcher import Matcher
from arauto.hub.ownership import HERE
from arauto.hub.quota import TokenBucket
from arauto.hub.refusals import Refusals
from arauto.hub.retained import Retained
from arauto.hub.rules import HubState
from arauto.hub.subscriber import Subscriber
from arauto.names import is_pattern, is_topic, matches, namespace_of
from arauto.settings import Quotas

__all__ = ["Hub"]

#: Settings changes are re-checked in slices of this many sessions, so that a large hub does not stall.
_RECHECK_SLICE = 500


class Hub:
    """A tenant. All methods run on the event loop."""

    __slots__ = (
        "_closing",
        "_idle",
        "_is_closed",
        "_opening",
        "_publish_bucket",
        "_users",
        "attendance",
        "channels",
        "continuity",
        "counters",
        "env",
        "generation",
        "idle_since_s",
        "name",
        "patterns",
        "quotas",
        "refreshing",
        "refusals",
        "retained",
        "sessions",
        "state",
        "subscription_count",
    )

    def __init__(self, name: str, state: HubState, env: Environment) -> None:
        self.name = name
        self.env = env
        self.state = state
        self.quotas: Quotas = state.settings.quotas
        self.generation = 0
        """Grows whenever an access decision may have changed; whoever caches one compares it."""
        self.channels: dict[str, Channel] = {}
        self._opening: dict[str, asyncio.Future[Channel]] = {}
        self._closing: dict[str, asyncio.Future[None]] = {}
        self._idle: dict[Channel, float] = {}
        self.patterns: Matcher[dict[Subscriber, None]] = Matcher()
        self.sessions: dict[str, Subscriber] = {}
        self._users: dict[str, dict[Subscriber, None]] = {}
        self.refreshing = asyncio.Lock()
        """Held while settings are read again and applied."""
        self.retained = Retained(name, env, self.quotas.channels_max)
        self.continuity = Continuity(name, env)
        self.counters = env.metrics.hub(name)
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
            ArautoError: TOO_MANY_SESSIONS.
        """
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

    def subscribers_named(self, exclude: str) -> list[Subscriber]:
        """The sessions an exclusion key ("s:<session>" or "u:<user>") stands for."""
        kind, _, name = exclude.partition(":")
        if kind == "u":
            return self.sessions_of(name)
        subscriber = self.sessions.get(name)
        return [subscriber] if subscriber is not None else []

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
        return await asyncio.shield(opening)

    async def _open(self, name: str) -> Channel:
        if name in self._closing:
            await self._closing[name]
        channel = self._make(name)
        await channel.open()
        if self._is_closed:
            await channel.close()
            raise _closed()
        self._admit(channel)
        # Rules may have changed while the store was asked.
        channel.apply_rules(self.state.resolve_rules(name))
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
        if channel.is_idle:
            self._idle[channel] = self.env.clock.monotonic_s()

    def touch(self, channel: Channel) -> None:
        """The channel has no subscribers and something just happened on it: it may close later."""
        self._idle.pop(channel, None)
        self._idle[channel] = self.env.clock.monotonic_s()

    async def close_idle_channels(self) -> int:
        """Close channels nobody has used for the configured time; return how many."""
        deadline_s = self.env.clock.monotonic_s() - self.env.limits.channel_close_s
        closed = 0
        while self._idle:
            channel = next(iter(self._idle))
            if self._idle[channel] > deadline_s:
                break
            del self._idle[channel]
            if self.channels.get(channel.name) is not channel:
                continue
            if channel.is_idle:
                await self._close_channel(channel)
                closed += 1
            elif not channel.member_count:
                # Deserted, but still busy or bound by a promise: look again later.
                self.touch(channel)
        return closed

    async def _close_channel(self, channel: Channel) -> None:
        """Close one channel. Who asks for its name meanwhile waits and gets a fresh one."""
        del self.channels[channel.name]
        # Sessions that remember it as a target must look again.
        channel.is_open = False
        closing = self._closing[channel.name] = asyncio.get_running_loop().create_future()
        try:
            await channel.close()
        finally:
            del self._closing[channel.name]
            closing.set_result(None)

    def matching(self, pattern: str) -> list[Channel]:
        """The open channels a pattern or topic covers."""
        return [channel for name, channel in self.channels.items() if matches(pattern, name)]

    # --- patterns ----------------------------------------------------------------------------------

    def add_pattern(self, pattern: str, subscriber: Subscriber) -> list[Channel]:
        """Subscribe a session to everything a pattern or topic covers, now and later.

        Returns the open channels it now receives from; greet it with their `welcome`.
        """
        holders = self.patterns.get(pattern)
        if holders is None:
            self.patterns.add(pattern, {subscriber: None})
        else:
            holders[subscriber] = None
            self.patterns.generation += 1
        covered = self.matching(pattern)
        for channel in covered:
            channel.refresh_matches(newcomer=subscriber)
        return [channel for channel in covered if channel.has(subscriber)]

    def remove_pattern(self, pattern: str, subscriber: Subscriber) -> None:
        holders = self.patterns.get(pattern)
        if holders is None or subscriber not in holders:
            return
        del holders[subscriber]
        if holders:
            self.patterns.generation += 1
        else:
            self.patterns.remove(pattern)
        for channel in self.matching(pattern):
            channel.refresh_matches()
            if channel.is_idle:
                self.touch(channel)

    def identity_changed(
        self, subscriber: Subscriber, held: Sequence[str], *, renamed: bool
    ) -> None:
        """A session became someone else and still holds these subscriptions: its patterns deliver what
        the new identity may read, and the others see who it is now, if that is `renamed`.
        """
        wide = [name for name in held if is_pattern(name) or is_topic(name)]
        here = [self.channels[name] for name in held if name in self.channels]
        if wide:
            here += [
                channel
                for name, channel in self.channels.items()
                if any(matches(pattern, name) for pattern in wide)
            ]
        for channel in dict.fromkeys(here):
            was_here = channel.has(subscriber)
            channel.refresh_matches(force=True)
            if renamed and was_here and channel.has(subscriber):
                channel.reintroduce(subscriber)

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
        """Take new settings: channels take their new rules, sessions re-check what they hold."""
        self.state = state
        self.quotas = state.settings.quotas
        self.retained.set_limit(self.quotas.channels_max)
        self.generation += 1
        self._publish_bucket.set_rate(state.settings.quotas.messages_per_s)
        for channel in list(self.channels.values()):
            channel.apply_rules(state.resolve_rules(channel.name))
        for index, subscriber in enumerate(list(self.sessions.values())):
            subscriber.session.recheck()
            if index % _RECHECK_SLICE == _RECHECK_SLICE - 1:
                await asyncio.sleep(0)

    @property
    def is_idle(self) -> bool:
        """Whether the hub holds nothing anybody uses."""
        return not self.sessions and not self.channels and not self._opening

    async def close(self) -> None:
        """Disconnect everyone and release everything."""
        self._is_closed = True
        for subscriber in list(self.sessions.values()):
            subscriber.session.disconnect(Code.HUB_CLOSED, "the hub was closed")
        channels = list(self.channels.values())
        for channel in channels:
            channel.is_open = False
            await channel.close()
        self.channels = {}
        if any(channel.is_storing for channel in channels):
            # Whoever opens them next must find everything that has a serial.
            await self.env.storage.journal.flush()
        await self.retained.close()


def _closed() -> ArautoError:
    return ArautoError(Code.HUB_CLOSED, "the hub was closed")
