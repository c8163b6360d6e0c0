"""Who receives from a channel: sessions subscribed by name, and sessions whose patterns cover it.

Every session is in exactly one lane, however many of its subscriptions lead here, so nobody
receives a message twice. Pattern matches are kept until the hub's patterns change.
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


@mypyc_attr(allow_interpreted_subclasses=True)
class Audience:
    """The receiving half of a channel."""

    __slots__ = (
        "_features",
        "_lanes",
        "_matched",
        "_matched_generation",
        "env",
        "hub",
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
        self._matched: dict[Subscriber, None] = {}
        """Sessions here only through a pattern or a topic above."""
        self._matched_generation = -1
        self._lanes: list[Lane] = []
        self._features: tuple[Feature, ...] = ()

    def subscribe(self, subscriber: Subscriber) -> None:
        """Let a session in. From now on it receives what is published; greet it with `welcome`."""
        known = subscriber in self._matched
        if known:
            del self._matched[subscriber]
        else:
            self._join(subscriber)
        self.subscribers[subscriber] = None

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Let a session out, unless a pattern of its still covers this channel."""
        if subscriber not in self.subscribers:
            return
        del self.subscribers[subscriber]
        if self._covered_by_pattern(subscriber):
            self._matched[subscriber] = None
            return
        self._leave(subscriber)
        if not self.subscribers and not self._matched:
            self.on_deserted()

    def welcome(
        self, subscriber: Subscriber, replay: Sequence[Message], *, recovered: bool
    ) -> None:
        """Send a newcomer what it missed and what it should know. Call after its reply is queued."""
        self.replay(subscriber, replay)
        for feature in self._features:
            feature.on_welcome(subscriber, recovered=recovered)

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

    def refresh_matches(self, newcomer: Subscriber | None = None, *, force: bool = False) -> None:
        """Bring the pattern subscribers up to date with the hub's patterns.

        Whoever is new here is welcomed at once, but for `newcomer`, whose reply is not queued yet.
        `force` is for when not the patterns changed but what their holders may read.
        """
        patterns = self.hub.patterns
        if self._matched_generation == patterns.generation and not force:
            return
        self._matched_generation = patterns.generation
        if not len(patterns) and not self._matched:
            return
        now = self._match()
        before, self._matched = self._matched, now
        for subscriber in before:
            if subscriber not in now and subscriber not in self.subscribers:
                self._leave(subscriber)
        for subscriber in now:
            if subscriber not in before:
                self._join(subscriber)
                if subscriber is not newcomer:
                    self.welcome(subscriber, (), recovered=True)
        if before and not now and not self.subscribers:
            self.on_deserted()

    def _match(self) -> dict[Subscriber, None]:
        found: dict[Subscriber, None] = {}
        for _, holders in self.hub.patterns.match(self.name):
            for subscriber in holders:
                if subscriber in self.subscribers or subscriber in found:
                    continue
                if subscriber.session.may_read(self.name, self.rules):
                    found[subscriber] = None
        return found

    def _covered_by_pattern(self, subscriber: Subscriber) -> bool:
        if not len(self.hub.patterns) or not subscriber.session.may_read(self.name, self.rules):
            return False
        return any(subscriber in holders for _, holders in self.hub.patterns.match(self.name))

    def reintroduce(self, subscriber: Subscriber) -> None:
        """A session here has become someone else: to the features one left and another came."""
        for feature in self._features:
            feature.on_leave(subscriber)
        for feature in self._features:
            feature.on_join(subscriber)

    def has(self, subscriber: Subscriber) -> bool:
        """Whether the session receives from here, by name or through a pattern."""
        return subscriber in self.subscribers or subscriber in self._matched

    @property
    def member_count(self) -> int:
        return len(self.subscribers) + len(self._matched)

    def _join(self, subscriber: Subscriber) -> None:
        for feature in self._features:
            feature.on_join(subscriber)
        self._lane_of(subscriber.outbox.format).add(subscriber.outbox)

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
                lane.put_except(frame, None, [to_all_but.outbox])
            else:
                lane.put(frame, None)

    def _excluded(self, message: Message) -> list[Outbox]:
        return [
            subscriber.outbox
            for subscriber in self.hub.subscribers_named(message.exclude)
            if subscriber in self.subscribers or subscriber in self._matched
        ]
