"""Cuts the counters into intervals: how much happened in each, on the node and per hub.

Intervals end where the wall clock is a multiple of their length (:00, :05 … for five minutes), so that
those of all nodes and all runs lie upon each other; the first and the last of a run are shorter.

The last intervals stay in memory for the admin API; each one is also handed to a callback, which writes
it to the journal, where the pipeline makes charts over months of it.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import msgspec

from arauto.clock import Clock, Timer
from arauto.telemetry.counters import Counters
from arauto.telemetry.metrics import HubGauges, Metrics, NodeGauges, Totals

__all__ = ["HubLevels", "Interval", "Intervals"]

#: Hubs remembered by name in each interval that stays in memory; the callback gets all of them.
_HUBS_KEPT_MAX = 100

#: A timer that comes this close to its moment (or a tenth of an interval) counts as having met it.
_NEAR_MS = 1_000


class HubLevels(msgspec.Struct, frozen=True, gc=False):
    """How much of everything a hub has when an interval ends."""

    channels: int = 0
    sessions: int = 0
    subscriptions: int = 0
    sessions_peak: int = 0
    """The most sessions seen by any sample in the interval."""


class Interval(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What happened between two moments."""

    start_ms: int
    end_ms: int
    total: Totals
    hubs: dict[str, Totals]
    """Hubs in which something happened."""
    levels: dict[str, HubLevels]
    """The same hubs, and those that hold something though nothing happened there."""
    gauges: NodeGauges
    """At the end of the interval."""
    sessions_peak: int
    """The most sessions seen by any sample in the interval."""


class _Mark:
    """How far one hub's counters had come at the last cut."""

    __slots__ = ("_at", "_signature", "counters")

    def __init__(self, counters: Counters) -> None:
        self.counters = counters
        self._at = Totals()
        self._signature: tuple[object, ...] = Counters().signature

    def advance(self) -> Totals | None:
        """Return what was counted since the last call; None if nothing was."""
        signature = self.counters.signature
        if signature == self._signature:
            return None
        now = Totals.of(self.counters)
        growth = now.since(self._at)
        self._at, self._signature = now, signature
        return growth


class Intervals:
    """Collects an `Interval` at each multiple of `interval_s` on the wall clock, from `start` to `stop`.

    Args:
        metrics: what to cut up.
        clock: times the intervals; they are labelled with wall time. After a jump of it the running interval
            keeps its length, and the next one ends on a multiple again.
        interval_s: how long one is.
        keep_len: how many past ones stay in memory.
        on_interval: receives each one as it ends. What it raises is its own affair: it must not raise.
        sample_interval_s: how often the number of sessions is looked at for the peak; 0 = only at the end.
    """

    __slots__ = (
        "_at",
        "_clock",
        "_due_ms",
        "_hub_peaks",
        "_hubs_at",
        "_interval_ms",
        "_kept",
        "_metrics",
        "_near_ms",
        "_on_interval",
        "_peak",
        "_sample_interval_s",
        "_sampler",
        "_start_ms",
        "_timer",
    )

    def __init__(
        self,
        metrics: Metrics,
        clock: Clock,
        *,
        interval_s: float = 300,
        keep_len: int = 288,
        on_interval: Callable[[Interval], object] | None = None,
        sample_interval_s: float = 0,
    ) -> None:
        self._metrics = metrics
        self._clock = clock
        self._interval_ms = max(1, round(interval_s * 1000))
        self._near_ms = min(_NEAR_MS, self._interval_ms // 10)
        self._on_interval = on_interval
        self._sample_interval_s = sample_interval_s
        self._kept: deque[Interval] = deque(maxlen=keep_len)
        self._at = Totals()
        self._hubs_at: dict[str, _Mark] = {}
        self._peak = 0
        self._hub_peaks: dict[str, int] = {}
        self._start_ms = clock.wall_ms()
        self._due_ms = 0
        self._timer: Timer | None = None
        self._sampler: Timer | None = None

    @property
    def kept(self) -> Sequence[Interval]:
        """The last intervals, oldest first. Only the busiest hubs of each are kept by name."""
        return tuple(self._kept)

    def start(self) -> None:
        """Begin the first interval now."""
        self._start_ms = self._clock.wall_ms()
        self._schedule()
        if self._sample_interval_s:
            self._sampler = self._clock.call_later(self._sample_interval_s, self._sample)

    def stop(self) -> None:
        """End the running interval early, so that nothing counted is lost, and start no other."""
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        if self._sampler is not None:
            self._sampler.cancel()
            self._sampler = None
        self.cut()

    def cut(self) -> Interval:
        """End the running interval now and begin the next."""
        return self._cut(self._clock.wall_ms())

    def _cut(self, end_ms: int) -> Interval:
        metrics = self._metrics
        at = metrics.total()
        growth = self._growth()
        metrics.retire_closed()
        now = metrics.hub_gauges()
        gauges = NodeGauges.sum_of(now)
        interval = Interval(
            start_ms=self._start_ms,
            end_ms=end_ms,
            total=at.since(self._at),
            hubs=growth,
            levels=self._levels(now, growth),
            gauges=gauges,
            sessions_peak=max(self._peak, gauges.sessions),
        )
        self._at = at
        self._peak = gauges.sessions
        self._hub_peaks = {hub.hub: hub.sessions for hub in now if hub.sessions}
        self._start_ms = end_ms
        self._kept.append(_trimmed(interval))
        if self._on_interval is not None:
            self._on_interval(interval)
        return interval

    def _growth(self) -> dict[str, Totals]:
        """What was counted in each hub since the last cut, where anything was."""
        growth: dict[str, Totals] = {}
        marks: dict[str, _Mark] = {}
        for name, counters in self._metrics.hubs():
            mark = self._hubs_at.get(name)
            if mark is None or mark.counters is not counters:
                mark = _Mark(counters)
            since = mark.advance()
            if since is not None:
                growth[name] = since
            marks[name] = mark
        self._hubs_at = {name: marks[name] for name, _ in self._metrics.open_hubs}
        return growth

    def _levels(self, now: Iterable[HubGauges], growth: Iterable[str]) -> dict[str, HubLevels]:
        peaks = self._hub_peaks
        # A hub that has closed since holds nothing, but may have had sessions.
        levels = {name: HubLevels(sessions_peak=peaks.get(name, 0)) for name in growth}
        for hub in now:
            if hub.channels or hub.sessions or hub.subscriptions or hub.hub in levels:
                peak = max(peaks.get(hub.hub, 0), hub.sessions)
                levels[hub.hub] = HubLevels(hub.channels, hub.sessions, hub.subscriptions, peak)
        return levels

    def _schedule(self) -> None:
        now_ms = self._clock.wall_ms()
        # Timers may come a moment early; then the moment just ahead is the one that was meant.
        self._due_ms = ((now_ms + self._near_ms) // self._interval_ms + 1) * self._interval_ms
        self._timer = self._clock.call_later((self._due_ms - now_ms) / 1000, self._tick)

    def _tick(self) -> None:
        due_ms, now_ms = self._due_ms, self._clock.wall_ms()
        self._schedule()
        self._cut(due_ms if abs(now_ms - due_ms) <= self._near_ms else now_ms)

    def _sample(self) -> None:
        self._sampler = self._clock.call_later(self._sample_interval_s, self._sample)
        sessions, peaks = 0, self._hub_peaks
        for hub in self._metrics.hub_gauges():
            sessions += hub.sessions
            if hub.sessions > peaks.get(hub.hub, 0):
                peaks[hub.hub] = hub.sessions
        self._peak = max(self._peak, sessions)


def _trimmed(interval: Interval) -> Interval:
    if len(interval.levels) <= _HUBS_KEPT_MAX:
        return interval
    hubs = interval.hubs

    def rank(name: str) -> tuple[int, str]:
        total = hubs.get(name)
        return (-total.messages_in - total.messages_out if total is not None else 0, name)

    kept = heapq.nsmallest(_HUBS_KEPT_MAX, interval.levels, key=rank)
    return msgspec.structs.replace(
        interval,
        hubs={name: hubs[name] for name in kept if name in hubs},
        levels={name: interval.levels[name] for name in kept},
    )
