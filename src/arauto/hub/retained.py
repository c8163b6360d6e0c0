"""A hub's retained messages: the last one of each channel that retains.

Held in memory for every channel that has one, whether the channel is open or not, so that a pattern or
topic subscriber gets them all; written behind to the key-value store, latest value only, about once a
second, and read back when the hub opens. Bounded by the hub's channel quota.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from arauto.clock import Timer
from arauto.errors import StorageError
from arauto.model import Message
from arauto.names import matches

if TYPE_CHECKING:
    from arauto.hub.environment import Environment

__all__ = ["Retained"]

_PREFIX = "retained:"
_FLUSH_S = 1.0
_SWEEP_S = 10.0
_MESSAGES_MAX = 100_000

_decoder = msgspec.msgpack.Decoder(Message)
_encode = msgspec.msgpack.Encoder().encode


class Retained:
    """Retained messages by channel. Expired ones are never handed out."""

    __slots__ = (
        "_counters",
        "_dirty",
        "_env",
        "_hub",
        "_is_closed",
        "_limit_len",
        "_messages",
        "_swept_s",
        "_timer",
    )

    def __init__(self, hub: str, env: "Environment", channels_max: int = 0) -> None:
        self._hub = hub
        self._env = env
        self.set_limit(channels_max)
        self._is_closed = False
        self._swept_s = env.clock.monotonic_s()
        self._messages: dict[str, Message] = {}
        self._dirty: dict[str, None] = {}
        self._timer: Timer | None = None
        self._counters = env.metrics.hub(hub)

    def __len__(self) -> int:
        return len(self._messages)

    async def load(self) -> None:
        """Read back what earlier runs retained."""
        for key, value in await self._env.storage.kv.scan(self._hub, _PREFIX, _MESSAGES_MAX):
            channel = key[len(_PREFIX) :]
            try:
                message = _decoder.decode(value)
            except msgspec.MsgspecError:
                # Written by a version that knew another form: it will be replaced, not trusted.
                self._counters.retained_failures += 1
                continue
            if (message.hub, message.channel) == (self._hub, channel):
                self._messages[channel] = message
            else:
                self._counters.retained_failures += 1

    def set_limit(self, channels_max: int) -> None:
        """Hold at most as many as the hub may have channels; 0 = as many as anybody may."""
        self._limit_len = min(channels_max or _MESSAGES_MAX, _MESSAGES_MAX)

    def get(self, channel: str) -> Message | None:
        message = self._messages.get(channel)
        if message is None or self._live(message):
            return message
        self.remove(channel)
        return None

    def set(self, message: Message) -> None:
        """Retain a message in place of its channel's last one; an empty payload clears it."""
        if not message.payload:
            self.remove(message.channel)
            return
        if message.channel not in self._messages and not self._has_room():
            self._counters.retained_refused += 1
            return
        self._messages[message.channel] = message
        self._mark(message.channel)

    def remove(self, channel: str) -> None:
        if self._messages.pop(channel, None) is not None:
            self._mark(channel)

    def matching(self, pattern: str) -> Iterator[Message]:
        """Live retained messages of the channels a pattern or topic covers, in order of channel name."""
        for channel in sorted(self._messages):
            if matches(pattern, channel):
                message = self.get(channel)
                if message is not None:
                    yield message

    async def close(self) -> None:
        """Write what is left. Afterwards nothing more is written: the next opening has its own."""
        self._is_closed = True
        await self.flush()

    async def flush(self) -> None:
        """Write every change that is not yet in the store."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        dirty, self._dirty = self._dirty, {}
        kv = self._env.storage.kv
        for channel in dirty:
            message = self._messages.get(channel)
            key = _PREFIX + channel
            try:
                if message is None:
                    await kv.delete(self._hub, key)
                else:
                    await kv.put(self._hub, key, _encode(message), self._ttl_s(message))
            except StorageError:
                self._counters.retained_failures += 1
                self._mark(channel)

    def _live(self, message: Message) -> bool:
        return not message.expires_ms or message.expires_ms > self._env.clock.wall_ms()

    def _ttl_s(self, message: Message) -> float:
        if not message.expires_ms:
            return 0
        return max(0.001, (message.expires_ms - self._env.clock.wall_ms()) / 1000)

    def _has_room(self) -> bool:
        if len(self._messages) < self._limit_len:
            return True
        # Those that expired make room, but looking for them is not worth it with every message.
        now_s = self._env.clock.monotonic_s()
        if now_s - self._swept_s >= _SWEEP_S:
            self._swept_s = now_s
            for channel in [c for c, m in self._messages.items() if not self._live(m)]:
                self.remove(channel)
        return len(self._messages) < self._limit_len

    def _mark(self, channel: str) -> None:
        self._dirty[channel] = None
        if self._timer is None and not self._is_closed:
            self._timer = self._env.clock.call_later(_FLUSH_S, self._flush_soon)

    def _flush_soon(self) -> None:
        self._timer = None
        self._env.tasks.spawn(self.flush())
