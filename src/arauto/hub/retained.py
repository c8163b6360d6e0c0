"""A hub's retained messages: the last one of each channel that retains.

Held in memory for every channel that has one, whether the channel is open or not, so that a pattern or
topic subscriber gets them all; written behind to the key-value store, latest value only, about once a
second, and read back when the hub opens.

Bounded in number by the hub's channel quota, and in bytes by the hub's quota and the node's pool. A message
that finds no room is not retained, and what its channel had before goes: nobody is ever greeted with an old
message as if it were the last one.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from arauto.clock import Timer
from arauto.errors import StorageError
from arauto.hub.name_index import NameIndex
from arauto.hub.share import Share, size_of
from arauto.model import Message, When
from arauto.settings import Rules

if TYPE_CHECKING:
    from arauto.hub.environment import Environment

__all__ = ["Retained"]

_PREFIX = "retained:"
_FLUSH_S = 1.0
#: Looked at with each new one, whether they have expired: more than come, so that those cannot pile up.
_LOOK_LEN = 2
#: The same for one that finds no room.
_SEARCH_LEN = 100
_MESSAGES_MAX = 100_000
#: Changes written at a time: they share a commit, and others get their turn in between.
_BATCH_LEN = 100

_decoder = msgspec.msgpack.Decoder(Message)
_encode = msgspec.msgpack.Encoder().encode


class Retained:
    """Retained messages by channel. Expired ones are never handed out."""

    __slots__ = (
        "_counters",
        "_dirty",
        "_env",
        "_flushing",
        "_hub",
        "_is_closed",
        "_left_out",
        "_limit_len",
        "_memory",
        "_messages",
        "_names",
        "_timer",
    )

    def __init__(
        self, hub: str, env: "Environment", channels_max: int = 0, memory: Share | None = None
    ) -> None:
        self._hub = hub
        self._env = env
        self._memory = memory if memory is not None else Share(env.pools.retained)
        self.set_limit(channels_max)
        self._is_closed = False
        self._messages: OrderedDict[str, Message] = OrderedDict()
        """The longest not looked at first."""
        self._left_out: OrderedDict[str, int] = OrderedDict()
        """Channels of which the store has a message that found no room here when the hub opened, and when
        that expires; the longest not looked at first."""
        self._names = NameIndex()
        self._dirty: dict[str, None] = {}
        self._flushing = asyncio.Lock()
        self._timer: Timer | None = None
        self._counters = env.metrics.hub(hub)

    def __len__(self) -> int:
        return len(self._messages)

    async def load(self) -> None:
        """Read back what earlier runs retained. What finds no room stays in the store until there is a later
        one, until `load_rest` finds room, or until the hub opens again.

        Raises:
            StorageError: the store could not be read.
        """
        async for channel, message in self._stored():
            if message is None:
                self._counters.retained_failures += 1
            elif self._live(message) and not self._add(channel, message):
                self._counters.retained_refused += 1
                self._left_out[channel] = message.expires_ms

    async def load_rest(self) -> None:
        """There may be room now for what found none when the hub opened: the quota is another."""
        if not self._left_out:
            return
        try:
            async for channel, message in self._stored():
                if message is None or channel not in self._left_out:
                    continue  # there was a later one meanwhile, or it was cleared
                if self._live(message) and self._add(channel, message):
                    del self._left_out[channel]
        except StorageError:
            self._counters.retained_failures += 1

    async def _stored(self) -> AsyncIterator[tuple[str, Message | None]]:
        async for page in self._env.storage.kv.scan(self._hub, _PREFIX, _MESSAGES_MAX):
            for key, value in page:
                channel = key[len(_PREFIX) :]
                yield channel, self._read(channel, value)

    def _add(self, channel: str, message: Message) -> bool:
        """Hold a message that the store has, if there is room for it."""
        if not self._memory.take(size_of(message)):
            return False
        self._messages[channel] = message
        self._names.add(channel)
        return True

    def _read(self, channel: str, value: bytes | None) -> Message | None:
        """A stored message; None if it is damaged, of another form, or not of this place: it will be
        replaced, not trusted."""
        try:
            message = _decoder.decode(value or b"")
        except msgspec.MsgspecError:
            return None
        if (message.hub, message.channel) != (self._hub, channel):
            return None
        # Without copies of the names, which would be more than is counted.
        return msgspec.structs.replace(message, hub=self._hub, channel=channel)

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
        """Retain a message in place of its channel's last one; an empty payload clears it, and so does a
        message for which there is no room."""
        channel = message.channel
        if not message.payload:
            self.remove(channel)
            return
        if channel not in self._messages:
            self._drop_expired(_LOOK_LEN)
        if not self._take_room(message):
            self._drop_expired(_SEARCH_LEN)
            if not self._take_room(message):
                self._counters.retained_refused += 1
                self.remove(channel)
                return
        if channel not in self._messages:
            self._names.add(channel)
            self._left_out.pop(channel, None)
        self._messages[channel] = message
        self._mark(channel)

    def take_rules(self, channel: str, rules: Rules) -> None:
        """An open channel has these rules. If they retain nothing, what it had goes: it is not the last for
        long. A channel that is not open keeps its own until it opens; who greets asks the rules."""
        if rules.retain is When.NEVER:
            self.remove(channel)

    def remove(self, channel: str) -> None:
        message = self._messages.pop(channel, None)
        if message is not None:
            self._memory.give(size_of(message))
            self._names.discard(channel)
            self._mark(channel)
        elif channel in self._left_out:
            del self._left_out[channel]
            self._mark(channel)

    def page(self, pattern: str, after: str, scan_len: int) -> tuple[list[Message], str]:
        """Live retained messages of the channels a pattern or topic covers, in order of channel name: those
        among the next `scan_len` that may be covered, and where to go on; "" = done."""
        names, last = self._names.page(pattern, after, scan_len)
        return [message for message in map(self.get, names) if message is not None], last

    async def close(self) -> None:
        """Write what is left. Afterwards nothing more is written: the next opening has its own."""
        self._is_closed = True
        await self.flush()

    async def flush(self) -> None:
        """Write every change that is not yet in the store."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # One at a time, so that an older value never comes after a newer one.
        async with self._flushing:
            dirty, self._dirty = self._dirty, {}
            waiting = iter(dirty)
            while batch := list(islice(waiting, _BATCH_LEN)):
                await asyncio.gather(*map(self._write, batch))

    async def _write(self, channel: str) -> None:
        message = self._messages.get(channel)
        key = _PREFIX + channel
        kv = self._env.storage.kv
        try:
            if message is None:
                await kv.delete(self._hub, key)
            else:
                await kv.put(self._hub, key, _encode(message), self._ttl_s(message))
        except StorageError:
            self._counters.retained_failures += 1
            self._mark(channel)

    def _live(self, message: Message) -> bool:
        return self._is_to_come(message.expires_ms)

    def _is_to_come(self, expires_ms: int) -> bool:
        return not expires_ms or expires_ms > self._env.clock.wall_ms()

    def _ttl_s(self, message: Message) -> float:
        if not message.expires_ms:
            return 0
        return max(0.001, (message.expires_ms - self._env.clock.wall_ms()) / 1000)

    def _take_room(self, message: Message) -> bool:
        """Count a message that is about to be retained; whether there is room for it."""
        before = self._messages.get(message.channel)
        if before is None:
            others_len = len(self._messages) + len(self._left_out)
            is_new = message.channel not in self._left_out
            return others_len < self._limit_len + (not is_new) and self._memory.take(
                size_of(message)
            )
        grown_bytes = size_of(message) - size_of(before)
        if grown_bytes > 0:
            return self._memory.take(grown_bytes)
        self._memory.give(-grown_bytes)
        return True

    def _drop_expired(self, look_len: int) -> None:
        """Look at some, in turn: whoever retains on ever new channels does not fill the memory with what
        nobody is given any more."""
        for _ in range(min(look_len, len(self._messages))):
            channel = next(iter(self._messages))
            if self._live(self._messages[channel]):
                self._messages.move_to_end(channel)
            else:
                self.remove(channel)
        for _ in range(min(look_len, len(self._left_out))):
            channel = next(iter(self._left_out))
            if self._is_to_come(self._left_out[channel]):
                self._left_out.move_to_end(channel)
            else:
                del self._left_out[channel]  # the store forgets it by itself

    def _mark(self, channel: str) -> None:
        self._dirty[channel] = None
        if self._timer is None and not self._is_closed:
            self._timer = self._env.clock.call_later(_FLUSH_S, self._flush_soon)

    def _flush_soon(self) -> None:
        self._timer = None
        self._env.tasks.spawn(self.flush())
