"""Cuts the counters into intervals: how much happened in each, on the node and per hub.

The last intervals stay in memory for the admin API; each one is also handed to a callback, which writes
it to the journal, where the pipeline makes charts over months of it.
"""

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from arauto.clock import Clock, Timer
from arauto.telemetry.counters import Counters
from arauto.telemetry.metrics import Metrics, NodeGauges, Totals

__all__ = ["Interval", "Intervals"]

#: Hubs remembered by name in each interval that stays in memory; the callback gets all of them.
_HUBS_KEPT_MAX = 100


class Interval(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What happened between two moments. Hubs in which nothing happened are left out."""

    start_ms: int
    end_ms: int
    total: Totals
    hubs: dict[str, Totals]
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
    """Collects an `Interval` every `interval_s` seconds from `start` to `stop`.

    Args:
        metrics: what to cut up.
        clock: times the intervals; they are labelled with wall time.
        interval_s: how long one is.
        keep_len: how many past ones stay in memory.
        on_interval: receives each one as it ends. What it raises is its own affair: it must not raise.
        sample_interval_s: how often the number of sessions is looked at for the peak; 0 = only at the end.
    """

    __slots__ = (
        "_at",
        "_clock",
        "_hubs_at",
        "_interval_s",
        "_kept",
        "_metrics",
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
        self._interval_s = interval_s
        self._on_interval = on_interval
        self._sample_interval_s = sample_interval_s
        self._kept: deque[Interval] = deque(maxlen=keep_len)
        self._at = Totals()
        self._hubs_at: dict[str, _Mark] = {}
        self._peak = 0
        self._start_ms = clock.wall_ms()
        self._timer: Timer | None = None
        self._sampler: Timer | None = None

    @property
    def kept(self) -> Sequence[Interval]:
        """The last intervals, oldest first. Only the busiest hubs of each are kept by name."""
        return tuple(self._kept)

    def start(self) -> None:
        """Begin the first interval now."""
        self._start_ms = self._clock.wall_ms()
        self._timer = self._clock.call_later(self._interval_s, self._tick)
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
        metrics = self._metrics
        end_ms = self._clock.wall_ms()
        at = metrics.total()
        growth: dict[str, Totals] = {}
        marks: dict[str, _Mark] = {}
        for name, counters in metrics.hubs():
            mark = self._hubs_at.get(name)
            if mark is None or mark.counters is not counters:
                mark = _Mark(counters)
            since = mark.advance()
            if since is not None:
                growth[name] = since
            marks[name] = mark
        metrics.retire_closed()
        gauges = metrics.gauges()
        interval = Interval(
            start_ms=self._start_ms,
            end_ms=end_ms,
            total=at.since(self._at),
            hubs=growth,
            gauges=gauges,
            sessions_peak=max(self._peak, gauges.sessions),
        )
        self._at = at
        self._hubs_at = {name: marks[name] for name, _ in metrics.open_hubs}
        self._peak = gauges.sessions
        self._start_ms = end_ms
        self._kept.append(_trimmed(interval))
        if self._on_interval is not None:
            self._on_interval(interval)
        return interval

    def _tick(self) -> None:
        self._timer = self._clock.call_later(self._interval_s, self._tick)
        self.cut()

    def _sample(self) -> None:
        self._sampler = self._clock.call_later(self._sample_interval_s, self._sample)
        self._peak = max(self._peak, self._metrics.gauges().sessions)


def _trimmed(interval: Interval) -> Interval:
    if len(interval.hubs) <= _HUBS_KEPT_MAX:
        return interval
    busiest = sorted(
        interval.hubs.items(),
        key=lambda item: (-item[1].messages_in - item[1].messages_out, item[0]),
    )
    return msgspec.structs.replace(interval, hubs=dict(busiest[:_HUBS_KEPT_MAX]))
