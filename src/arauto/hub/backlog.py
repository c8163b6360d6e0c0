"""What waits for a connection that does not keep up, and what has to go when it becomes too much.

Bounded in bytes, each by itself and all of a hub, and of the node, in sum. What a channel's policy allows
to drop is kept message by message, in lines of its own: those that a later one of the same key has
superseded, and all of them by age. So making room costs what goes, never a walk over what stays, however
many readers stand still. Whatever is dropped leaves a gap marker that reaches the client before the
channel's next message. Neighbour: `outbox.py`, which has one of these only while its connection is behind.
"""

from collections import deque

from arauto.codec.events import Gap
from arauto.hub.fanout import Format, Item, Lane
from arauto.hub.share import Share
from arauto.model import Message, Serial, SlowPolicy
from arauto.telemetry.counters import Counters

__all__ = ["Backlog"]

#: What a gap marker counts beside its channel's name; a reader of a pattern may be owed very many.
_GAP_BYTES = 64
#: What an entry takes in memory beside its bytes; counts in the sum only.
_ENTRY_BYTES = 256
#: So much may wait for every connection, whatever waits for others: who pauses for a moment must not pay
#: for those that stand still.
_FLOOR_BYTES = 4_096
#: A line is swept when it has this many more entries than twice those that still wait.
_SWEEP_LEN = 64


class _Entry:
    """Bytes that wait. One that is gone, sent or dropped, is passed over wherever it still stands in line."""

    __slots__ = ("is_gone", "item", "message")

    def __init__(self, item: Item, message: Message | None) -> None:
        self.item = item
        self.message = message
        """What it can be dropped as; None if it must not be."""
        self.is_gone = False


class _Gaps:
    """What was dropped and the client has not been told yet: one range per channel."""

    __slots__ = ("_by_channel", "_counters", "_format", "size_bytes")

    def __init__(self, format: Format, counters: Counters) -> None:
        self._by_channel: dict[str, Gap] = {}
        self._format = format
        self._counters = counters
        self.size_bytes = 0

    def __contains__(self, channel: str) -> bool:
        return channel in self._by_channel

    def note(self, message: Message) -> None:
        """The message was dropped."""
        self._counters.dropped += 1
        channel = message.channel
        before, here = Serial(message.epoch, message.offset - 1), message.serial
        gap = self._by_channel.get(channel)
        if gap is None:
            self.size_bytes += _GAP_BYTES + len(channel)
            self._by_channel[channel] = _gap(channel, before, here)
        else:
            self._by_channel[channel] = _gap(channel, min(gap.after, before), max(gap.upto, here))

    def take_all(self) -> bytes:
        return b"".join([self._take(channel) for channel in list(self._by_channel)])

    def take_before(self, message: Message) -> bytes:
        """The marker of what was dropped right before a message; b"" if nothing was."""
        gap = self._by_channel.get(message.channel)
        here = message.serial
        if gap is None or here <= gap.after:
            # Older than what was dropped: a client that saw the marker first would refuse it.
            return b""
        before = Serial(here.epoch, here.offset - 1)
        if before >= gap.upto:
            return self._take(message.channel)
        # It was kept out of the middle: the marker ends before it, and another one follows.
        self._by_channel[message.channel] = _gap(message.channel, here, gap.upto)
        if before <= gap.after:
            return b""
        self._counters.gaps += 1
        return self._format.encode(_gap(message.channel, gap.after, before))

    def _take(self, channel: str) -> bytes:
        self._counters.gaps += 1
        self.size_bytes -= _GAP_BYTES + len(channel)
        return self._format.encode(self._by_channel.pop(channel))


class Backlog:
    """One slow connection's waiting bytes, in order."""

    __slots__ = (
        "_by_age",
        "_counters",
        "_gaps",
        "_held_bytes",
        "_latest",
        "_len",
        "_limit_bytes",
        "_line",
        "_memory",
        "_superseded",
        "size_bytes",
    )

    def __init__(self, format: Format, counters: Counters, limit_bytes: int, memory: Share) -> None:
        self._limit_bytes = limit_bytes
        self._counters = counters
        self._memory = memory
        self._held_bytes = 0
        """What was counted in `memory`."""
        self._gaps = _Gaps(format, counters)
        self._line: deque[_Entry] = deque()
        """All, in the order they are sent in."""
        self._by_age: deque[_Entry] = deque()
        """Those that may be dropped, oldest first."""
        self._superseded: deque[_Entry] = deque()
        """Those that go first, since the client will get a later one of their key."""
        self._latest: dict[tuple[str, str], _Entry] = {}
        """By channel and key: what the next message supersedes."""
        self._len = 0
        """How many wait; the lines may hold more, of which the rest are gone."""
        self.size_bytes = 0
        """Of what waits, without the markers."""

    def __len__(self) -> int:
        return self._len

    def add(self, item: Item) -> bool:
        """Keep what a turn produced; whether it could be brought within the bound."""
        lane = item[1]
        if lane is None or lane.policy is SlowPolicy.DISCONNECT:
            self._append(_Entry(item, None))
            return self._make_room()
        for frame, message in zip(item[2], item[3], strict=True):
            entry = _Entry((frame, lane, (frame,), (message,)), message)
            self._append(entry)
            if message is not None:
                self._line_up(entry, message, lane)
            if not self._make_room():
                return False
        return True

    def take(self, size_bytes: int) -> bytes:
        """What comes next, about that much of it, with the markers that belong before it."""
        pieces: list[bytes] = []
        taken_bytes = 0
        while self._line and taken_bytes < size_bytes:
            entry = self._line.popleft()
            if entry.is_gone:
                continue
            data = self._with_markers(entry.item)
            self._forget(entry)
            pieces.append(data)
            taken_bytes += len(data)
        self._sweep()
        self._give_back()
        return b"".join(pieces)

    def take_markers(self) -> bytes:
        """The markers of channels of which nothing follows."""
        markers = self._gaps.take_all()
        self._give_back()
        return markers

    def close(self) -> None:
        """The connection is over, and nothing waits for it any more."""
        self._memory.give(self._held_bytes)
        self._held_bytes = 0

    def _append(self, entry: _Entry) -> None:
        self._line.append(entry)
        self._len += 1
        self.size_bytes += len(entry.item[0])

    def _line_up(self, entry: _Entry, message: Message, lane: Lane) -> None:
        self._by_age.append(entry)
        if lane.policy is SlowPolicy.KEEP_LATEST:
            name = (message.channel, message.key)
            before = self._latest.get(name)
            if before is not None:
                self._superseded.append(before)
            self._latest[name] = entry

    def _make_room(self) -> bool:
        """Drop what may be dropped until the rest fits; whether it does."""
        if not self._is_full():
            return True
        if self.size_bytes + self._gaps.size_bytes <= self._limit_bytes:
            self._counters.backlogs_refused += 1
        newest = self._by_age[-1] if self._by_age else None
        if newest is not None and newest.message is not None and not newest.is_gone:
            # One that will never fit must not take the others with it.
            size_bytes = len(newest.item[0])
            if size_bytes > self._limit_bytes - self._gaps.size_bytes:
                self._drop(newest)
        for line in (self._superseded, self._by_age):
            while line and self._is_full():
                entry = line.popleft()
                if not entry.is_gone:
                    self._drop(entry)
        self._sweep()
        return not self._is_full()

    def _is_full(self) -> bool:
        """Whether too much waits here, or in the whole hub; counts what waits here by the way."""
        waiting_bytes = self.size_bytes + self._gaps.size_bytes
        held_bytes = waiting_bytes + _ENTRY_BYTES * self._len
        memory = self._memory
        memory.used_bytes += held_bytes - self._held_bytes
        self._held_bytes = held_bytes
        if waiting_bytes > self._limit_bytes:
            return True
        return (
            memory.used_bytes > memory.granted_bytes
            and held_bytes > _FLOOR_BYTES
            and not memory.fits()
        )

    def _give_back(self) -> None:
        held_bytes = self.size_bytes + self._gaps.size_bytes + _ENTRY_BYTES * self._len
        self._memory.give(self._held_bytes - held_bytes)
        self._held_bytes = held_bytes

    def _drop(self, entry: _Entry) -> None:
        message = entry.message
        assert message is not None
        self._gaps.note(message)
        self._forget(entry)

    def _forget(self, entry: _Entry) -> None:
        """It is gone: let its bytes go, wherever it still stands in line."""
        message = entry.message
        if message is not None:
            name = (message.channel, message.key)
            if self._latest.get(name) is entry:
                del self._latest[name]
        self.size_bytes -= len(entry.item[0])
        self._len -= 1
        entry.is_gone = True
        entry.item = _NOTHING
        entry.message = None

    def _sweep(self) -> None:
        # What goes away is at least as much as what stays, so a message pays for its own removal only.
        limit_len = 2 * self._len + _SWEEP_LEN
        if len(self._line) > limit_len:
            self._line = _waiting(self._line)
        if len(self._by_age) > limit_len:
            self._by_age = _waiting(self._by_age)
        if len(self._superseded) > limit_len:
            self._superseded = _waiting(self._superseded)

    def _with_markers(self, item: Item) -> bytes:
        data, lane, frames, messages = item
        if lane is None or lane.channel not in self._gaps:
            return data
        pieces: list[bytes] = []
        for frame, message in zip(frames, messages, strict=True):
            if message is not None:
                pieces.append(self._gaps.take_before(message))
            pieces.append(frame)
        return b"".join(pieces)


_NOTHING: Item = (b"", None, (), ())


def _waiting(line: deque[_Entry]) -> deque[_Entry]:
    return deque([entry for entry in line if not entry.is_gone])


def _gap(channel: str, after: Serial, upto: Serial) -> Gap:
    return Gap(channel=channel, after=after, upto=upto, reason="slow_consumer")
