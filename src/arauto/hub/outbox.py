"""The bounded buffer between the hub and one connection, and what happens when it is full.

While the connection keeps up, a flush is one join and one write. When the transport says stop, items wait
in a backlog (`backlog.py`) bounded in bytes, which makes room by the policies of the channels concerned;
where it cannot, the connection ends. What waits for all slow readers of a hub is bounded in sum as well.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

import structlog

from arauto.codec.events import Event
from arauto.errors import Code
from arauto.hub.backlog import Backlog
from arauto.hub.fanout import Format, Item, Turn
from arauto.hub.owed import Debtor, Owed
from arauto.hub.share import Share
from arauto.telemetry.counters import Counters

__all__ = ["Outbox", "Sink"]

#: A backlog is written to the transport in pieces of about this size as it drains.
_DRAIN_BYTES = 65_536

_log = structlog.get_logger("arauto.hub")


class Sink(Protocol):
    """The connection's write side, implemented by a gateway. Owned by this layer.

    `write` never blocks and takes everything; if it could not be sent at once the gateway calls
    `Outbox.pause` before it returns or soon after, and `Outbox.resume` once its buffer is empty.
    """

    def write(self, data: bytes) -> None: ...

    def close_slow(self, code: Code, reason: str) -> None:
        """End the connection; the outbox is of no more use."""


class _Nowhere:
    """Where a connection was. Implements `Sink`."""

    __slots__ = ()

    def write(self, data: bytes) -> None:
        """Nobody is there to read it."""

    def close_slow(self, code: Code, reason: str) -> None:
        """It is closed."""


_NOWHERE: Final = _Nowhere()


class Outbox:
    """One connection's outgoing frames, in order."""

    __slots__ = (
        "_backlog",
        "_counters",
        "_limit_bytes",
        "_memory",
        "_owed",
        "_turn",
        "closed",
        "format",
        "is_clear",
        "on_clear",
        "pending",
        "sink",
        "write",
    )

    def __init__(
        self,
        sink: Sink,
        format: Format,
        turn: Turn,
        counters: Counters,
        limit_bytes: int,
        memory: Share,
    ) -> None:
        self.sink: Sink = sink
        self.format = format
        self._turn = turn
        self._counters = counters
        self._limit_bytes = limit_bytes
        self._memory = memory
        """Of the hub, for all its backlogs."""
        self.pending: list[Item] = []
        """This turn's items. Public for the fan-out's inner loop, which appends in place."""
        self._backlog: Backlog | None = None
        self._owed: Owed | None = None
        self.is_clear = True
        """Whether nothing stands between this turn's items and the transport."""
        self.on_clear: Callable[[], None] | None = None
        """Called once when it is clear again; set by who has more to send then."""
        self.write = sink.write
        self.closed = False

    @property
    def backlog_bytes(self) -> int:
        return self._backlog.size_bytes if self._backlog is not None else 0

    def send(self, event: Event) -> None:
        """Queue an event for this connection alone."""
        self.send_frame(self.format.encode(event))

    def send_frame(self, data: bytes) -> None:
        """Queue an encoded event for this connection alone, and count it."""
        counters = self._counters
        counters.messages_out += 1
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

    def owe(self, debtor: Debtor, *, at_once: bool = False) -> None:
        """Have this connection told what it should know, no faster than it takes that: in the next turn,
        when others that come in this one have come too, or at once.
        """
        if self.closed:
            return
        if self._owed is None:
            self._owed = Owed(self, self._turn)
        self._owed.add(debtor, at_once=at_once)

    def forgive(self, debtor: object) -> None:
        """It has nothing more to tell here, and is not to be held for it."""
        if self._owed is not None:
            self._owed.forgive(debtor)

    def owes_nothing(self, owed: Owed) -> None:
        """All of it went out."""
        if self._owed is owed:
            self._owed = None

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
        if self._backlog is not None:
            self._drain(self._backlog)
        waiting = self.on_clear
        if self.is_clear and waiting is not None:
            self.on_clear = None
            waiting()
        if self._owed is not None:
            self._owed.resume()

    def _drain(self, backlog: Backlog) -> None:
        while len(backlog) and self.is_clear:
            self.write(backlog.take(_DRAIN_BYTES))
        if self._backlog is not backlog:
            return  # closed meanwhile
        if len(backlog):
            self.is_clear = False
            return
        self._backlog = None
        # Whole batches may be gone with nothing of theirs to follow: say so now, not with the next one.
        markers = backlog.take_markers()
        if markers:
            self.write(markers)

    def close(self) -> None:
        """Forget everything, the connection too, which holds its session and so this; later puts are
        ignored."""
        self.closed = True
        self.is_clear = False
        self.on_clear = None
        self._owed = None
        self.pending = []
        backlog, self._backlog = self._backlog, None
        if backlog is not None:
            backlog.close()
        self.sink = _NOWHERE
        self.write = _NOWHERE.write

    def fail(self) -> None:
        """Writing raised, and the exception is being handled: end this connection."""
        _log.exception("a connection could not be written to")
        sink = self.sink
        self.close()
        with suppress(Exception):
            sink.close_slow(Code.SERVER_ERROR, "the server failed to send a message")

    # --- the slow path -----------------------------------------------------------------------------

    def _enqueue(self, items: list[Item]) -> None:
        if self.closed:
            return
        if self._backlog is None:
            self._backlog = Backlog(self.format, self._counters, self._limit_bytes, self._memory)
        for item in items:
            if not self._backlog.add(item):
                self._counters.slow_disconnects += 1
                sink = self.sink
                self.close()
                sink.close_slow(Code.SLOW_CONSUMER, "the connection does not read fast enough")
                return
