"""Who receives from a channel: sessions subscribed by name, and sessions whose patterns cover it.

Every session is in exactly one lane, however many of its subscriptions lead here, so nobody receives a
message twice. The patterns of a session that lead here are kept with it, so that a pattern that comes
or goes costs this channel one step, whatever others hold.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from arauto.codec.events import Event
from arauto.hub.fanout import Format, Lane
from arauto.hub.hooks import Feature
from arauto.hub.outbox import Outbox
from arauto.hub.subscriber import Subscriber
from arauto.model import Message
from arauto.settings import Rules

if TYPE_CHECKING:
    from arauto.hub.hub import Hub

__all__ = ["Audience"]

#: What it takes to let in a session whose pattern leads to a channel that opens: some microseconds.
_TOKENS_PER_NEWCOMER = 0.1


@mypyc_attr(allow_interpreted_subclasses=True)
class Audience:
    """The receiving half of a channel."""

    __slots__ = (
        "_covering",
        "_features",
        "_lanes",
        "env",
        "hub",
        "matching_effort",
        "name",
        "rules",
        "subscribers",
    )

    def __init__(self, hub: "Hub", name: str) -> None:
        self.hub = hub
        self.env = hub.env
        self.name = name
        self.rules: Rules = hub.state.resolve_rules(name)
        self.subscribers: dict[Subscriber, None] = {}
        """Sessions subscribed to this very name."""
        self._covering: dict[Subscriber, tuple[str, ...]] = {}
        """Sessions that may read it and that patterns or topics above lead here: by which."""
        self.matching_effort = 0
        """What it took to find them (`Matcher.effort`), the last time."""
        self._lanes: list[Lane] = []
        self._features: tuple[Feature, ...] = ()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Let a session in. From now on it receives what is published; greet it with `welcome`."""
        if subscriber not in self._covering:
            self._join(subscriber)
        self.subscribers[subscriber] = None

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Let a session out, unless a pattern of its still covers this channel."""
        if subscriber not in self.subscribers:
            return
        del self.subscribers[subscriber]
        if subscriber not in self._covering:
            self._leave(subscriber)

    def cover(self, subscriber: Subscriber, by: tuple[str]) -> bool:
        """A pattern of the session leads here: whether the session is new here by that. Greet it then.

        `by` is the pattern alone; the same object for all channels, of which there may be very many.
        """
        known = self._covering.get(subscriber)
        if known is not None:
            if by[0] not in known:
                self._covering[subscriber] = known + by
            return False
        if not subscriber.session.may_read(self.name, self.rules):
            return False
        self._covering[subscriber] = by
        if subscriber in self.subscribers:
            return False
        self._join(subscriber)
        return True

    def uncover(self, subscriber: Subscriber, pattern: str) -> None:
        """A pattern of the session no longer leads here."""
        known = self._covering.get(subscriber)
        if known is None or pattern not in known:
            return
        if len(known) > 1:
            self._covering[subscriber] = tuple(other for other in known if other != pattern)
            return
        del self._covering[subscriber]
        if subscriber not in self.subscribers:
            self._leave(subscriber)

    def welcome(
        self, subscriber: Subscriber, replay: Sequence[Message], *, recovered: bool
    ) -> None:
        """Send a newcomer what it missed and what it should know. Call after its reply is queued."""
        self.introduce(subscriber)
        self.replay(subscriber, replay)
        for feature in self._features:
            feature.on_welcome(subscriber, recovered=recovered)

    @property
    def greeting_len(self) -> int:
        """Of how many items features tell a newcomer."""
        return sum(feature.greeting_len() for feature in self._features)

    def introduce(self, subscriber: Subscriber) -> None:
        """Tell a newcomer what the channel's type has to tell; a plain channel has nothing."""

    def due(self, subscriber: Subscriber, messages: Sequence[Message]) -> list[Message]:
        """The past messages for one session: without those kept from it and those expired."""
        now_ms = self.env.clock.wall_ms()
        return [
            message
            for message in messages
            if not (message.expires_ms and message.expires_ms <= now_ms)
            and not subscriber.is_excluded(message)
        ]

    def replay(self, subscriber: Subscriber, messages: Sequence[Message]) -> None:
        """Send past messages to one session, those that are due to it."""
        encode = subscriber.outbox.format.encode_message
        frames = [encode(message) for message in self.due(subscriber, messages)]
        if frames:
            subscriber.outbox.put(b"".join(frames))
            self.hub.count_deliveries(len(frames))

    def rematch(self) -> None:
        """Find the patterns that lead here anew: for a channel that opens, or whose readers may have changed.

        Whoever is new here by that is welcomed at once.
        """
        if not len(self.hub.patterns) and not self._covering:
            return
        matcher = self.hub.patterns
        found: dict[Subscriber, list[str]] = {subscriber: [] for subscriber in self._covering}
        before = matcher.effort
        leading = matcher.match(self.name)
        self.matching_effort = matcher.effort - before
        for pattern, holders in leading:
            for subscriber in holders:
                found.setdefault(subscriber, []).append(pattern)
        newcomers = [s for s, patterns in found.items() if self._take_patterns(s, tuple(patterns))]
        # Nobody is charged for that, but it takes its time.
        self.env.trying.spend(len(newcomers) * _TOKENS_PER_NEWCOMER)
        if len(newcomers) == 1:
            self._join(newcomers[0])
            self.welcome(newcomers[0], (), recovered=True)
        elif newcomers:
            self._join_together(newcomers)

    def set_patterns(self, subscriber: Subscriber, patterns: tuple[str, ...]) -> None:
        """These patterns of the session lead here, and what it may read may have changed."""
        if self._take_patterns(subscriber, patterns):
            self._join(subscriber)
            self.welcome(subscriber, (), recovered=True)

    def _take_patterns(self, subscriber: Subscriber, patterns: tuple[str, ...]) -> bool:
        """The same; whether the session has to join, being new here. One that may not stay has left."""
        was_here = self.has(subscriber)
        if patterns and subscriber.session.may_read(self.name, self.rules):
            self._covering[subscriber] = patterns
            return not was_here
        self._covering.pop(subscriber, None)
        if was_here and subscriber not in self.subscribers:
            self._leave(subscriber)
        return False

    def reintroduce(self, subscriber: Subscriber) -> None:
        """A session here has become someone else: to the features one left and another came."""
        for feature in self._features:
            feature.on_leave(subscriber)
        for feature in self._features:
            feature.on_join(subscriber)

    def has(self, subscriber: Subscriber) -> bool:
        """Whether the session receives from here, by name or through a pattern."""
        return subscriber in self.subscribers or subscriber in self._covering

    def catch_up(self, outbox: Outbox) -> bool:
        """Let go out what this turn owes to a connection, so that what is sent to it alone comes after that;
        whether it receives from here at all."""
        for lane in self._lanes:
            if outbox in lane.outboxes:
                lane.spill()
                return True
        return False

    @property
    def member_count(self) -> int:
        # Everyone here is in exactly one lane.
        return sum(len(lane.outboxes) for lane in self._lanes)

    @property
    def members(self) -> list[Subscriber]:
        """Everyone who receives from here, once."""
        by_pattern = [s for s in self._covering if s not in self.subscribers]
        return [*self.subscribers, *by_pattern]

    @property
    def is_deserted(self) -> bool:
        return not self.subscribers and not self._covering

    def _join(self, subscriber: Subscriber) -> None:
        for feature in self._features:
            feature.on_join(subscriber)
        self._lane_of(subscriber.outbox.format).add(subscriber.outbox)

    def _join_together(self, newcomers: Sequence[Subscriber]) -> None:
        """As `_join` and `welcome` for each, but nobody is told of each of the others: they may be many."""
        for subscriber in newcomers:
            self._lane_of(subscriber.outbox.format).add(subscriber.outbox)
        for subscriber in newcomers:
            self.introduce(subscriber)
        for feature in self._features:
            feature.on_arrivals(newcomers)

    def _leave(self, subscriber: Subscriber) -> None:
        outbox = subscriber.outbox
        for lane in self._lanes:
            if lane.format is outbox.format:
                lane.remove(outbox)
                if not lane.outboxes:
                    self._lanes.remove(lane)
                break
        for feature in self._features:
            feature.on_leave(subscriber)
            outbox.forgive(feature)
        if self.is_deserted:
            self.on_deserted()

    def _lane_of(self, format: Format) -> Lane:
        for lane in self._lanes:
            if lane.format is format:
                return lane
        lane = Lane(self.name, format, self.rules.slow_policy, self.env.turn, self.hub.counters)
        self._lanes.append(lane)
        return lane

    def on_deserted(self) -> None:
        """The last session left."""

    # --- reaching them ---------------------------------------------------------------------------

    def broadcast(self, event: Event, *, to_all_but: Subscriber | None = None) -> None:
        """Send an event that is not a message to everyone here."""
        for lane in self._lanes:
            frame = lane.format.encode(event)
            if to_all_but is not None and to_all_but.outbox in lane.outboxes:
                lane.put_except(frame, None, {to_all_but.outbox})
            else:
                lane.put(frame, None)

    def _excluded(self, message: Message) -> set[Outbox]:
        named = self.hub.subscribers_named(message.exclude)
        if len(named) > len(self.subscribers) + len(self._covering):
            # A user may have very many sessions elsewhere.
            return {each.outbox for each in (*self.subscribers, *self._covering) if each in named}
        return {each.outbox for each in named if self.has(each)}
