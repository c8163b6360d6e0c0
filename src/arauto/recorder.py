"""What a node writes to the journal about itself: its counters per interval, and signs of life."""

import msgspec

from arauto.admin.operations.stats import hub_interval, node_interval
from arauto.clock import Clock, Timer
from arauto.model import JSON
from arauto.storage.base import Journal, JournalEntry, Kind
from arauto.telemetry.intervals import Interval

__all__ = ["Recorder"]


class Recorder:
    """Best effort: the store counts and reports its own failures."""

    def __init__(self, journal: Journal, clock: Clock, heartbeat_interval_s: float) -> None:
        self._append = journal.append
        self._clock = clock
        self._heartbeat_interval_s = heartbeat_interval_s
        self._timer: Timer | None = None

    def start(self) -> None:
        """Write a row now and then, so that readers know that time has passed on this node."""
        self._write(Kind.HEARTBEAT, b"{}")
        self._timer = self._clock.call_later(self._heartbeat_interval_s, self.start)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def record(self, interval: Interval) -> None:
        """One row for the node and one for each hub in which something happened, or that holds something."""
        self._write(Kind.COUNTERS, msgspec.json.encode(node_interval(interval)))
        for hub in interval.levels:
            self._write(Kind.COUNTERS, msgspec.json.encode(hub_interval(interval, hub)), hub)

    def _write(self, kind: Kind, payload: bytes, hub: str = "") -> None:
        ts_ms = self._clock.wall_ms()
        entry = JournalEntry(kind=kind, ts_ms=ts_ms, hub=hub, content_type=JSON, payload=payload)
        self._append(entry, lambda error: None)
