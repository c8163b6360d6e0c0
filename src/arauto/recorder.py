"""What a node writes to the journal about itself: its counters per interval, and signs of life."""

from collections.abc import Iterator

import msgspec

from arauto.admin.operations.stats import hub_interval, node_interval
from arauto.clock import Clock, Timer
from arauto.model import JSON
from arauto.storage.base import Journal, JournalEntry, Kind
from arauto.telemetry.intervals import Interval

__all__ = ["Recorder"]

#: Rows of a moment ago are followed by signs of life this far apart: they tell that no more came.
_BUSY_S = 1.0
#: So many of them: a reader lets rows be a second late, and may have read the first together with the rows.
_BUSY_BEATS = 3

#: Rows of counters written in one turn of the event loop.
_ROWS_PER_STEP = 100


class Recorder:
    """Best effort: the store counts and reports its own failures."""

    def __init__(self, journal: Journal, clock: Clock, heartbeat_interval_s: float) -> None:
        self._journal = journal
        self._append = journal.append
        self._clock = clock
        self._heartbeat_interval_s = heartbeat_interval_s
        self._look_s = min(_BUSY_S, heartbeat_interval_s)
        self._beat_s = 0.0
        self._seq_before = 0
        """The newest row when the last sign of life was written."""
        self._beats_due = 0
        """Signs of life that are to follow what was written by others."""
        self._timer: Timer | None = None

    def start(self) -> None:
        """Write a row now and then, so that readers know that time has passed on this node: every
        second while others are written and for some seconds after them, else at the interval.
        """
        self._seq_before = self._journal.last_seq
        self._beat_s = self._clock.monotonic_s()
        self._write(Kind.HEARTBEAT, b"{}")
        self._timer = self._clock.call_later(self._look_s, self._look)

    def _look(self) -> None:
        # Our own row is one of them.
        if self._journal.last_seq > self._seq_before + 1:
            self._beats_due = _BUSY_BEATS
        due_s = self._beat_s + self._heartbeat_interval_s
        if self._beats_due or self._clock.monotonic_s() >= due_s:
            self._beats_due = max(0, self._beats_due - 1)
            self.start()
        else:
            self._timer = self._clock.call_later(self._look_s, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def record(self, interval: Interval) -> Iterator[None]:
        """One row for the node and one for each hub in which something happened, or that holds something.
        In steps, each of which takes a moment."""
        self._write(Kind.COUNTERS, msgspec.json.encode(node_interval(interval)))
        for index, hub in enumerate(interval.levels):
            if index % _ROWS_PER_STEP == _ROWS_PER_STEP - 1:
                yield
            self._write(Kind.COUNTERS, msgspec.json.encode(hub_interval(interval, hub)), hub)

    def _write(self, kind: Kind, payload: bytes, hub: str = "") -> None:
        ts_ms = self._clock.wall_ms()
        entry = JournalEntry(kind=kind, ts_ms=ts_ms, hub=hub, content_type=JSON, payload=payload)
        self._append(entry, lambda error: None)
