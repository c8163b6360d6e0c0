"""Live history: the last messages of a channel, in memory, for quick reconnects."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from arauto.hub.hooks import FeatureSpec, Recent
from arauto.model import Message
from arauto.settings import Rules

if TYPE_CHECKING:
    from arauto.hub.channel import Channel

__all__ = ["SPEC", "LiveHistory"]


class _State(msgspec.Struct):
    floor: int
    messages: list[Message]


class LiveHistory(Recent):
    """The last N messages no older than the configured age.

    Memory is taken with the first message, not with the channel. Old messages leave when something
    happens on the channel; a message past its age is never handed out.
    """

    __slots__ = ("_floor", "_len_max", "_messages")

    name = "live_history"

    def __init__(self, channel: "Channel") -> None:
        super().__init__(channel)
        self._messages: deque[Message] | None = None
        self._floor = channel.offset
        self._len_max = self._allowed_len()

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

    def restart(self, offset: int) -> None:
        self._messages = None
        self._floor = offset

    def on_message(self, message: Message) -> None:
        if message.epoch != self.channel.epoch:
            # It was on its way to the disk when its epoch ended.
            return
        messages = self._messages
        if messages is None:
            messages = self._messages = deque()
        messages.append(message)
        if len(messages) > self._len_max:
            self._floor = messages.popleft().offset

    def on_rules(self, rules: Rules) -> None:
        self._len_max = self._allowed_len()
        while self._messages and len(self._messages) > self._len_max:
            self._floor = self._messages.popleft().offset

    def export_state(self) -> bytes:
        return msgspec.msgpack.encode(_State(self._floor, list(self._messages or ())))

    def import_state(self, state: bytes) -> None:
        found = msgspec.msgpack.decode(state, type=_State)
        self._floor = found.floor
        self._messages = deque(found.messages) or None

    def _allowed_len(self) -> int:
        return min(
            self.channel.rules.live_history_len, self.channel.env.limits.live_history_len_max
        )

    def _expire(self) -> None:
        age_s = self.channel.rules.live_history_s
        if not age_s or not self._messages:
            return
        oldest_ms = self.channel.env.clock.wall_ms() - int(age_s * 1000)
        while self._messages and self._messages[0].ts_ms < oldest_ms:
            self._floor = self._messages.popleft().offset


SPEC = FeatureSpec(LiveHistory.name, lambda rules: rules.live_history_len > 0, LiveHistory)
