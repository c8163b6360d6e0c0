"""The bounded buffer between the hub and one connection, and what happens when it is full.

While the connection keeps up, a flush is one join and one write. When the transport says stop, items wait
in a backlog bounded in bytes; over the bound the policy of the channel concerned decides: disconnect, drop
its oldest messages, or keep only its latest message per key. Whatever is dropped leaves a gap marker
that reaches the client before the channel's next message, so that it can see and fill the hole.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import structlog

from arauto.codec.events import Event, Gap
from arauto.errors import Code
from arauto.hub.fanout import Format, Item, Lane, Turn
from arauto.model import Message, Serial, SlowPolicy
from arauto.telemetry.counters import Counters

__all__ = ["Outbox", "Sink"]

#: A backlog is written to the transport in pieces of about this size as it drains.
_DRAIN_BYTES = 65_536

#: What a gap marker counts beside its channel's name; a reader of a pattern may be owed very many.
_GAP_BYTES = 64

_log = structlog.get_logger("arauto.hub")


class Sink(Protocol):
    """The connection's write side, implemented by a gateway. Owned by this layer.

    `write` never blocks and takes everything; if it could not be sent at once the gateway calls
    `Outbox.pause` before it returns or soon after, and `Outbox.resume` once its buffer is empty.
    """

    def write(self, data: bytes) -> None: ...

    def close_slow(self, code: Code, reason: str) -> None:
        """End the connection; the outbox is of no more use."""


class Outbox:
    """One connection's outgoing frames, in order."""

    __slots__ = (
        "_backlog",
        "_backlog_bytes",
        "_counters",
        "_gap_bytes",
        "_gaps",
        "_limit_bytes",
        "_turn",
        "closed",
        "format",
        "is_clear",
        "pending",
        "sink",
        "write",
    )

    def __init__(
        self, sink: Sink, format: Format, turn: Turn, counters: Counters, limit_bytes: int
    ) -> None:
        self.sink = sink
        self.format = format
        self._turn = turn
        self._counters = counters
        self._limit_bytes = limit_bytes
        self.pending: list[Item] = []
        """This turn's items. Public for the fan-out's inner loop, which appends in place."""
        self._backlog: deque[Item] | None = None
        self._backlog_bytes = 0
        self._gaps: dict[str, Gap] | None = None
        self._gap_bytes = 0
        self.is_clear = True
        """Whether nothing stands between this turn's items and the transport."""
        self.write = sink.write
        self.closed = False

    @property
    def backlog_bytes(self) -> int:
        return self._backlog_bytes

    def send(self, event: Event) -> None:
        """Queue an event for this connection alone."""
        counters = self._counters
        counters.messages_out += 1
        data = self.format.encode(event)
        counters.bytes_out += len(data)
        self.put(data)

    def put(self, data: bytes) -> None:
        """Queue encoded frames for this connection alone."""
        self.put_item((data, None, (), ()))

    def put_item(self, item: Item) -> None:
        """Queue what a lane owes."""
        pending = self.pending
        if not pending:
            if self.closed:
                return
            self._turn.add_outbox(self)
        pending.append(item)

    def flush(self) -> None:
        """Write what the turn produced, or move it to the backlog if the transport is full."""
        pending = self.pending
        if not pending:
            return
        if not self.is_clear:
            self.pending = []
            self._enqueue(pending)
            return
        self.pending = []
        self.write(b"".join([item[0] for item in pending]))

    def pause(self) -> None:
        """The transport is full: keep what comes."""
        self.is_clear = False

    def resume(self) -> None:
        """The transport is empty: write the backlog until it is full again."""
        if self.closed:
            return
        self.is_clear = True
        while self._backlog and self.is_clear and not self.closed:
            self._drain_piece()
        if not self._backlog and self._gaps and not self.closed:
            # Whole batches were dropped and nothing of theirs follows: say so now, not with the next one.
            for channel in list(self._gaps):
                self.write(self._take_gap(channel))
        if self._backlog:
            self.is_clear = False

    def close(self) -> None:
        """Forget everything; later puts are ignored."""
        self.closed = True
        self.is_clear = False
        self.pending = []
        self._backlog = None
        self._backlog_bytes = 0
        self._gaps = None
        self._gap_bytes = 0

    def fail(self) -> None:
        """Writing raised, and the exception is being handled: end this connection."""
        _log.exception("a connection could not be written to")
        self.close()
        with suppress(Exception):
            self.sink.close_slow(Code.SERVER_ERROR, "the server failed to send a message")

    # --- the slow path -----------------------------------------------------------------------------

    def _enqueue(self, items: list[Item]) -> None:
        if self._backlog is None:
            self._backlog = deque()
        for item in items:
            if self.closed:
                return
            self._backlog.append(item)
            self._backlog_bytes += len(item[0])
            if self._is_full():
                self._relieve(item[1])

    def _is_full(self) -> bool:
        return self._backlog_bytes + self._gap_bytes > self._limit_bytes

    def _relieve(self, newest: Lane | None) -> None:
        """Bring the backlog back under its bound, by the policies of the lanes in it."""
        if newest is not None and newest.policy is SlowPolicy.KEEP_LATEST:
            self._keep_latest(newest)
        if self._is_full():
            self._drop_oldest()
        if self._is_full():
            self._counters.slow_disconnects += 1
            sink = self.sink
            self.close()
            sink.close_slow(Code.SLOW_CONSUMER, "the connection does not read fast enough")

    def _keep_latest(self, lane: Lane) -> None:
        """Replace the channel's waiting items by one that holds the last frame of each key."""
        kept: deque[Item] = deque()
        latest: dict[str, tuple[bytes, Message]] = {}
        others: list[bytes] = []
        for item in self._backlog or ():
            if item[1] is None or item[1].channel != lane.channel:
                kept.append(item)
                continue
            for frame, message in zip(item[2], item[3], strict=True):
                if message is None:
                    others.append(frame)
                    continue
                superseded = latest.pop(message.key, None)
                if superseded is not None:
                    self._note_gap(superseded[1])
                latest[message.key] = (frame, message)
        frames = others + [frame for frame, _ in latest.values()]
        messages: list[Message | None] = [None] * len(others)
        messages += [message for _, message in latest.values()]
        kept.append((b"".join(frames), lane, frames, messages))
        self._replace_backlog(kept)

    def _drop_oldest(self) -> None:
        """Drop the oldest items whose channels allow it until the backlog fits."""
        kept: deque[Item] = deque()
        gone = 0
        excess = self._backlog_bytes - self._limit_bytes
        for item in self._backlog or ():
            data, lane, frames, messages = item
            fits = gone >= excess + self._gap_bytes
            if fits or lane is None or lane.policy is SlowPolicy.DISCONNECT:
                kept.append(item)
                continue
            others = [f for f, m in zip(frames, messages, strict=True) if m is None]
            for message in messages:
                if message is not None:
                    self._note_gap(message)
            rest = b"".join(others)
            gone += len(data) - len(rest)
            if others:
                kept.append((rest, lane, others, [None] * len(others)))
        self._replace_backlog(kept)

    def _replace_backlog(self, items: deque[Item]) -> None:
        self._backlog = items
        self._backlog_bytes = sum(len(item[0]) for item in items)

    def _note_gap(self, message: Message) -> None:
        self._counters.dropped += 1
        if self._gaps is None:
            self._gaps = {}
        before, here = Serial(message.epoch, message.offset - 1), message.serial
        gap = self._gaps.get(message.channel)
        if gap is None:
            self._gap_bytes += _GAP_BYTES + len(message.channel)
            self._gaps[message.channel] = _gap(message.channel, before, here)
        else:
            self._gaps[message.channel] = _gap(
                message.channel, min(gap.after, before), max(gap.upto, here)
            )

    def _take_gap(self, channel: str) -> bytes:
        if self._gaps is None or channel not in self._gaps:
            return b""
        self._counters.gaps += 1
        self._gap_bytes -= _GAP_BYTES + len(channel)
        return self.format.encode(self._gaps.pop(channel))

    def _with_gaps(self, frames: Sequence[bytes], messages: Sequence[Message | None]) -> bytes:
        """The frames, each behind the marker of what was dropped right before it."""
        pieces: list[bytes] = []
        for frame, message in zip(frames, messages, strict=True):
            if message is not None:
                pieces.append(self._take_gap_before(message))
            pieces.append(frame)
        return b"".join(pieces)

    def _take_gap_before(self, message: Message) -> bytes:
        gap = self._gaps.get(message.channel) if self._gaps is not None else None
        here = message.serial
        if self._gaps is None or gap is None or here <= gap.after:
            # Older than what was dropped: a client that saw the marker first would refuse it.
            return b""
        before = Serial(here.epoch, here.offset - 1)
        if before >= gap.upto:
            return self._take_gap(message.channel)
        # It was kept out of the middle: the marker ends before it, and another one follows.
        self._gaps[message.channel] = _gap(message.channel, here, gap.upto)
        if before <= gap.after:
            return b""
        self._counters.gaps += 1
        return self.format.encode(_gap(message.channel, gap.after, before))

    def _drain_piece(self) -> None:
        assert self._backlog is not None
        piece: list[bytes] = []
        size_bytes = 0
        while self._backlog and size_bytes < _DRAIN_BYTES:
            data, lane, frames, messages = self._backlog.popleft()
            self._backlog_bytes -= len(data)
            if lane is not None and self._gaps and lane.channel in self._gaps:
                data = self._with_gaps(frames, messages)
            piece.append(data)
            size_bytes += len(data)
        self.write(b"".join(piece))


def _gap(channel: str, after: Serial, upto: Serial) -> Gap:
    return Gap(channel=channel, after=after, upto=upto, reason="slow_consumer")
