"""Live history: the last messages of a channel, in memory, for quick reconnects."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from arauto.hub.hooks import FeatureSpec, Recent
from arauto.hub.live_memory import Place
from arauto.hub.share import size_of
from arauto.model import Direction, Message
from arauto.settings import Rules
from arauto.storage.base import HistoryQuery

if TYPE_CHECKING:
    from arauto.hub.channel import Channel

__all__ = ["SPEC", "LiveHistory"]

_SERIAL, _TIME = attrgetter("serial"), attrgetter("ts_ms")


class LiveHistory(Recent):
    """The last N messages no older than the configured age, as far as the hub may hold so many bytes.

    Memory is taken with the first message, not with the channel. Old messages leave when something
    happens on the channel, or when the hub needs the room; a message past its age is never handed out.
    """

    __slots__ = ("_floor", "_is_over", "_len_max", "_memory", "_messages", "_place")

    name = "live_history"

    def __init__(self, channel: "Channel") -> None:
        super().__init__(channel)
        self._memory = channel.hub.holdings.live_history
        self._messages: deque[Message] | None = None
        """None while there are none."""
        self._place: Place | None = None
        # What is on its way to the disk already will be delivered to this one too.
        self._floor = channel.serial.offset
        self._len_max = self._allowed_len()
        self._is_over = False

    @property
    def floor(self) -> int:
        self._expire()
        return self._floor

    def after(self, offset: int) -> Sequence[Message]:
        self._expire()
        messages = self._messages
        if not messages or messages[-1].offset <= offset:
            return ()
        # The wanted tail is usually short, so it is collected from the right.
        tail: list[Message] = []
        for message in reversed(messages):
            if message.offset <= offset:
                break
            tail.append(message)
        tail.reverse()
        return tail

    def within(self, query: HistoryQuery) -> Iterator[Message]:
        self._expire()
        messages = self._messages or ()
        # Places and times grow alike.
        begin, end = 0, len(messages)
        if query.since is not None:
            begin = bisect_right(messages, query.since, key=_SERIAL)
        if query.until is not None:
            end = bisect_left(messages, query.until, key=_SERIAL)
        if query.from_ms:
            begin = max(begin, bisect_left(messages, query.from_ms, key=_TIME))
        if query.to_ms:
            end = min(end, bisect_right(messages, query.to_ms, key=_TIME))
        found = range(begin, end)
        for at in found if query.direction is Direction.FORWARD else reversed(found):
            yield messages[at]

    def offset_at(self, ms: int) -> int | None:
        self._expire()
        messages = self._messages or ()
        count = bisect_right(messages, ms, key=_TIME)
        if count:
            return messages[count - 1].offset
        # All that is remembered came later. An epoch begins with offset 1, so what lies before is known
        # to be none.
        return 0 if self._floor == 0 else None

    @property
    def oldest_ms(self) -> int:
        return self._messages[0].ts_ms if self._messages is not None else 0

    def drop_oldest(self) -> None:
        messages = self._messages
        if messages is None:
            return
        gone = messages.popleft()
        self._floor = gone.offset
        self._memory.give(size_of(gone))
        if not messages:
            self._forget()

    def restart(self, offset: int) -> None:
        self._forget()
        self._floor = offset

    def on_message(self, message: Message) -> None:
        if message.epoch != self.channel.epoch:
            # It was on its way to the disk when its epoch ended.
            return
        messages = self._messages
        if messages is None:
            if self._is_over:
                # It was on its way to the disk when its channel closed.
                return
            messages = self._begin(message.ts_ms)
        messages.append(message)
        if len(messages) > self._len_max:
            gone = messages.popleft()
            self._floor = gone.offset
            # The same as `size_of`, on the shortest way: what most have besides weighs the same.
            size_bytes = len(message.payload) - len(gone.payload)
            if (
                message.headers is not gone.headers
                or message.id is not gone.id
                or message.key is not gone.key
                or message.exclude is not gone.exclude
            ):
                size_bytes = size_of(message) - size_of(gone)
            if not size_bytes:
                return
        else:
            size_bytes = size_of(message)
        memory = self._memory
        memory.used_bytes += size_bytes
        if memory.used_bytes > memory.granted_bytes:
            memory.make_room()

    def on_rules(self, rules: Rules) -> None:
        self._len_max = self._allowed_len()
        while self._messages is not None and len(self._messages) > self._len_max:
            self.drop_oldest()

    def on_close(self) -> None:
        self._is_over = True
        self._forget()

    def export_state(self) -> bytes:
        return msgspec.msgpack.encode((self._floor, list(self._messages or ())))

    def import_state(self, state: bytes) -> None:
        # Not a record of its own: once compiled, a class no longer tells of what its lists are.
        floor, messages = msgspec.msgpack.decode(state, type=tuple[int, list[Message]])
        self._forget()
        self._floor = floor
        for message in messages:
            self.on_message(message)

    def _begin(self, oldest_ms: int) -> deque[Message]:
        self._place = self._memory.enter(self, oldest_ms)
        self._messages = deque()
        return self._messages

    def _forget(self) -> None:
        """Let go of all that is remembered."""
        messages, self._messages = self._messages, None
        if messages is None:
            return
        self._memory.give(sum([size_of(message) for message in messages]))
        if self._place is not None:
            self._memory.leave(self._place)
            self._place = None

    def _allowed_len(self) -> int:
        return min(
            self.channel.rules.live_history_len, self.channel.env.limits.live_history_len_max
        )

    def _expire(self) -> None:
        age_s = self.channel.rules.live_history_s
        if not age_s or not self._messages:
            return
        oldest_ms = self.channel.env.clock.wall_ms() - int(age_s * 1000)
        while self._messages is not None and self._messages[0].ts_ms < oldest_ms:
            self.drop_oldest()


SPEC = FeatureSpec(LiveHistory.name, lambda rules: rules.live_history_len > 0, LiveHistory)
