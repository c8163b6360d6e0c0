"""Fan-out: encode once per wire format, join once per loop turn, write once per subscriber.

A channel keeps one `Lane` per wire format. Publishing appends an encoded frame to each lane; nothing is
done per subscriber. When the event loop's turn ends, `Turn.flush` joins each dirty lane's frames into one
`Item` and hands that same object to every subscriber's outbox, and then each dirty outbox writes once.
So the work per delivery is a share of one list append and one write, whatever the number of messages.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from arauto.clock import Clock
from arauto.codec.base import Codec
from arauto.codec.events import Event
from arauto.model import Message, SlowPolicy
from arauto.telemetry.counters import Counters

if TYPE_CHECKING:
    from arauto.hub.outbox import Outbox

__all__ = ["Format", "Item", "Lane", "Turn"]


class Format:
    """A wire format: a codec and the framing of its transport. One object per format and node.

    Lanes are kept per `Format` by identity, so a gateway creates its formats once.
    """

    __slots__ = ("_encode_event", "_encode_message", "_frame", "codec", "name")

    def __init__(self, name: str, codec: Codec, frame: Callable[[bytes], bytes]) -> None:
        self.name = name
        self.codec = codec
        self._encode_event = codec.encode_event
        self._encode_message = codec.encode_message
        self._frame = frame

    def encode(self, event: Event) -> bytes:
        """Return the event as it goes on the wire, framing included."""
        return self._frame(self._encode_event(event))

    def encode_message(self, message: Message) -> bytes:
        """Return a publication as it goes on the wire."""
        return self._frame(self._encode_message(message))


class Lane:
    """The subscribers of one channel that share a wire format, and what this turn owes them."""

    __slots__ = (
        "_only",
        "channel",
        "counters",
        "format",
        "frames",
        "messages",
        "outboxes",
        "policy",
        "turn",
    )

    def __init__(
        self, channel: str, format: Format, policy: SlowPolicy, turn: "Turn", counters: Counters
    ) -> None:
        self.channel = channel
        self.format = format
        self.policy = policy
        self.turn = turn
        self.counters = counters
        self.outboxes: dict[Outbox, None] = {}
        self._only: Outbox | None = None
        """The subscriber, if there is just one: then frames need not wait here to be shared."""
        self.frames: list[bytes] = []
        self.messages: list[Message | None] = []

    def put(self, frame: bytes, message: Message | None) -> None:
        """Owe a frame to everyone in the lane at this moment."""
        only = self._only
        if only is not None:
            self.counters.bytes_out += len(frame)
            only.put_item((frame, self, (frame,), (message,)))
            return
        frames = self.frames
        if not frames:
            self.turn.add_lane(self)
        frames.append(frame)
        self.messages.append(message)

    def put_except(self, frame: bytes, message: Message | None, excluded: "set[Outbox]") -> None:
        """Owe a frame to everyone but a few. Costs one append per subscriber, so it is the rare path."""
        self.spill()
        item: Item = (frame, self, (frame,), (message,))
        for outbox in self.outboxes:
            if outbox not in excluded:
                outbox.put_item(item)
                self.counters.bytes_out += len(frame)

    def add(self, outbox: "Outbox") -> None:
        """Let an outbox in; it receives what is put from now on, nothing that was put before."""
        self.spill()
        self.outboxes[outbox] = None
        self._only = outbox if len(self.outboxes) == 1 else None

    def remove(self, outbox: "Outbox") -> None:
        """Let an outbox out; it still receives what was put while it was in."""
        self.spill()
        self.outboxes.pop(outbox, None)
        self._only = next(iter(self.outboxes)) if len(self.outboxes) == 1 else None

    def spill(self) -> None:
        """Hand the turn's frames, joined, to every outbox."""
        frames = self.frames
        if not frames:
            return
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        item: Item = (data, self, frames, self.messages)
        self.frames = []
        self.messages = []
        outboxes = self.outboxes
        self.counters.bytes_out += len(data) * len(outboxes)
        dirty = self.turn.outboxes
        for outbox in outboxes:
            pending = outbox.pending
            if not pending:
                dirty.append(outbox)
            pending.append(item)

    def write_through(self) -> None:
        """Write the turn's frames to every outbox at once; for a turn in which nothing else is owed."""
        frames, messages = self.frames, self.messages
        self.frames = []
        self.messages = []
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        outboxes = self.outboxes
        self.counters.bytes_out += len(data) * len(outboxes)
        blocked = []
        # A copy, since an outbox that fails leaves the lane.
        waiting = iter(list(outboxes))
        while True:
            try:
                for outbox in waiting:
                    if outbox.is_clear:
                        outbox.write(data)
                    else:
                        blocked.append(outbox)
                break
            except Exception:
                outbox.fail()
        if blocked:
            # Afterwards, since a full outbox may leave the lane.
            item: Item = (data, self, frames, messages)
            for outbox in blocked:
                outbox.put_item(item)


Item = tuple[bytes, Lane | None, Sequence[bytes], Sequence[Message | None]]
"""What waits for one connection: the bytes; the lane they came through (None: private), and for a lane's
bytes the single frames and their messages (None for frames that are not publications). A plain tuple, shared
by all subscribers of a lane, because one is made per turn and channel."""


class Turn:
    """What the current turn of the event loop still has to write. One per node."""

    __slots__ = ("_clock", "_lanes", "_scheduled", "flushes", "outboxes")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lanes: list[Lane] = []
        self.outboxes: list[Outbox] = []
        self._scheduled = False
        self.flushes = 0

    def add_lane(self, lane: Lane) -> None:
        self._lanes.append(lane)
        if not self._scheduled:
            self._scheduled = True
            self._clock.call_soon(self.flush)

    def add_outbox(self, outbox: "Outbox") -> None:
        self.outboxes.append(outbox)
        if not self._scheduled:
            self._scheduled = True
            self._clock.call_soon(self.flush)

    def soon(self, act: Callable[[], None]) -> None:
        """Call it after this turn's writes."""
        self._clock.call_soon(act)

    def flush(self) -> None:
        """Spill every dirty lane, then write every dirty outbox once."""
        self._scheduled = False
        self.flushes += 1
        lanes, self._lanes = self._lanes, []
        if len(lanes) == 1 and not self.outboxes and lanes[0].frames:
            lanes[0].write_through()
            return
        for lane in lanes:
            lane.spill()
        outboxes, self.outboxes = self.outboxes, []
        waiting = iter(outboxes)
        while True:
            try:
                # The common case is written out: one item, a transport that keeps up, one write.
                for outbox in waiting:
                    pending = outbox.pending
                    if len(pending) == 1 and outbox.is_clear:
                        data = pending[0][0]
                        pending.clear()
                        outbox.write(data)
                    else:
                        outbox.flush()
                return
            except Exception:
                # Ours to mend; it must not cost the connections behind it their turn.
                outbox.fail()
