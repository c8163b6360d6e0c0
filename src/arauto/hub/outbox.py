"""The bounded buffer between the hub and one connection, and what happens when it is full.

While the connection keeps up, a flush is one join and one write. When the transport says stop, items wait
in a backlog bounded in bytes; over the bound the policy of the channel concerned decides: disconnect, drop
its oldest messages, or keep only its latest message per key. Whatever is dropped leaves a gap marker
that reaches the client before the channel's next message, so that it can see and fill the hole.
"""

from collections import deque
from typing import Protocol

from arauto.codec.events import Event, Gap
from arauto.errors import Code
from arauto.hub.fanout import Batch, Format, Turn
from arauto.model import Message, Serial, SlowPolicy
from arauto.telemetry.metrics import Counters

__all__ = ["Outbox", "Sink"]

#: A backlog is written to the transport in pieces of about this size as it drains.
_DRAIN_BYTES = 65_536


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
        self.pending: list[bytes | Batch] = []
        """This turn's items. Public for the fan-out's inner loop, which appends in place."""
        self._backlog: deque[bytes | Batch] | None = None
        self._backlog_bytes = 0
        self._gaps: dict[str, Gap] | None = None
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

    def put(self, item: bytes | Batch) -> None:
        """Queue an encoded frame or a shared batch."""
        if self.closed:
            return
        if not self.pending:
            self._turn.add_outbox(self)
        self.pending.append(item)

    def flush(self) -> None:
        """Write what the turn produced, or move it to the backlog if the transport is full."""
        pending = self.pending
        if not pending:
            return
        if not self.is_clear:
            self.pending = []
            self._enqueue(pending)
            return
        if len(pending) == 1:
            item = pending[0]
            data = item if type(item) is bytes else item.data  # type: ignore[union-attr]
            pending.clear()
        else:
            self.pending = []
            data = b"".join([item if type(item) is bytes else item.data for item in pending])  # type: ignore[union-attr]
        self.write(data)

    def pause(self) -> None:
        """The transport is full: keep what comes."""
        self.is_clear = False

    def resume(self) -> None:
        """The transport is empty: write the backlog until it is full again."""
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
        self.pending = []
        self._backlog = None
        self._backlog_bytes = 0
        self._gaps = None

    # --- the slow path -----------------------------------------------------------------------------

    def _enqueue(self, items: list[bytes | Batch]) -> None:
        if self._backlog is None:
            self._backlog = deque()
        for item in items:
            if self.closed:
                return
            self._backlog.append(item)
            self._backlog_bytes += len(item)
            if self._backlog_bytes > self._limit_bytes:
                self._relieve(item)

    def _relieve(self, newest: bytes | Batch) -> None:
        """Bring the backlog back under its bound, by the policy of the batches in it."""
        if type(newest) is Batch and newest.policy is SlowPolicy.KEEP_LATEST:
            self._keep_latest(newest.channel)
        if self._backlog_bytes > self._limit_bytes:
            self._drop_oldest()
        if self._backlog_bytes > self._limit_bytes:
            self._counters.slow_disconnects += 1
            sink = self.sink
            self.close()
            sink.close_slow(Code.SLOW_CONSUMER, "the connection does not read fast enough")

    def _keep_latest(self, channel: str) -> None:
        """Replace the channel's waiting batches by one that holds the last frame of each key."""
        assert self._backlog is not None
        kept: deque[bytes | Batch] = deque()
        latest: dict[str, tuple[bytes, Message]] = {}
        others: list[bytes] = []
        policy = SlowPolicy.KEEP_LATEST
        for item in self._backlog:
            if type(item) is not Batch or item.channel != channel:
                kept.append(item)
                continue
            for frame, message in zip(item.frames, item.messages, strict=True):
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
        kept.append(Batch(channel, policy, frames, messages))
        self._backlog = kept
        self._backlog_bytes = sum(len(item) for item in kept)

    def _drop_oldest(self) -> None:
        """Drop the oldest batches whose channels allow it until the backlog fits."""
        assert self._backlog is not None
        kept: deque[bytes | Batch] = deque()
        excess = self._backlog_bytes - self._limit_bytes
        for item in self._backlog:
            droppable = type(item) is Batch and item.policy is not SlowPolicy.DISCONNECT
            if excess <= 0 or not droppable:
                kept.append(item)
                continue
            assert type(item) is Batch
            others = [f for f, m in zip(item.frames, item.messages, strict=True) if m is None]
            for message in item.messages:
                if message is not None:
                    self._note_gap(message)
            excess -= len(item) - sum(map(len, others))
            if others:
                kept.append(Batch(item.channel, item.policy, others, [None] * len(others)))
        self._backlog = kept
        self._backlog_bytes = sum(len(item) for item in kept)

    def _note_gap(self, message: Message) -> None:
        self._counters.dropped += 1
        if self._gaps is None:
            self._gaps = {}
        here = Serial(message.epoch, message.offset)
        gap = self._gaps.get(message.channel)
        if gap is None:
            before = Serial(message.epoch, message.offset - 1)
            self._gaps[message.channel] = Gap(
                channel=message.channel, after=before, upto=here, reason="slow_consumer"
            )
        else:
            self._gaps[message.channel] = Gap(
                channel=message.channel,
                after=min(gap.after, Serial(message.epoch, message.offset - 1)),
                upto=max(gap.upto, here),
                reason="slow_consumer",
            )

    def _take_gap(self, channel: str) -> bytes:
        if self._gaps is None or channel not in self._gaps:
            return b""
        self._counters.gaps += 1
        return self.format.encode(self._gaps.pop(channel))

    def _drain_piece(self) -> None:
        assert self._backlog is not None
        piece: list[bytes] = []
        size_bytes = 0
        while self._backlog and size_bytes < _DRAIN_BYTES:
            item = self._backlog.popleft()
            self._backlog_bytes -= len(item)
            if type(item) is Batch:
                gap = self._take_gap(item.channel)
                if gap:
                    piece.append(gap)
                    size_bytes += len(gap)
                piece.append(item.data)
            else:
                assert isinstance(item, bytes)
                piece.append(item)
            size_bytes += len(item)
        self.write(b"".join(piece))
