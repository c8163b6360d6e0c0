"""Cuts the counters into intervals: how much happened in each, on the node and per hub.

Intervals end where the wall clock is a multiple of their length (:00, :05 … for five minutes), so that
those of all nodes and all runs lie upon each other; the first and the last of a run are shorter.

The last intervals stay in memory for the admin API; each one is also handed to a callback, which writes
it to the journal, where the pipeline makes charts over months of it.

There may be ten thousand hubs, so a cut looks at some in each turn of the event loop. What a hub counts
before its turn is in the interval that ends, what it counts after it in the next; the sum over the node is
that of what was found in the hubs, so nothing is lost and nothing is there twice.
"""

import heapq
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice

import msgspec

from arauto.clock import Clock, Timer
from arauto.tasks import at_once
from arauto.telemetry.counters import Counters
from arauto.telemetry.metrics import SLICE_LEN, HubGauges, Metrics, NodeGauges, Totals

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

    __slots__ = ("_at", "_signature", "counters", "is_gone")

    def __init__(self, counters: Counters) -> None:
        self.counters = counters
        self.is_gone = False
        """Whether the counters are not to be looked at again."""
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
        on_interval: receives each one as it ends. What it raises is its own affair: it must not raise. If it
            has much to do it returns the steps to it, of which one is taken in each turn.
        sample_interval_s: how often the number of sessions is looked at for the peak; 0 = only at the end.
    """

    __slots__ = (
        "_clock",
        "_due_ms",
        "_forgotten",
        "_gone",
        "_hub_peaks",
        "_hubs_at",
        "_interval_ms",
        "_jobs",
        "_kept",
        "_metrics",
        "_near_ms",
        "_node_at",
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
        self._node_at = _Mark(metrics.node)
        self._hubs_at: dict[Counters, _Mark] = {}
        self._gone: list[Counters] | None = None
        """What was let go of during the cut that is under way."""
        self._forgotten = Totals()
        """What was counted in hubs that were let go of before a cut could look at them."""
        metrics.on_forget = self._forget
        self._jobs: deque[Generator[None, None, object]] = deque()
        """What is done in turns, one after another."""
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
        """End the running interval now, at once, and begin the next."""
        while self._jobs:
            at_once(self._jobs.popleft())
        return at_once(self._cutting(self._clock.wall_ms()))

    def _soon(self, job: Generator[None, None, object]) -> None:
        self._jobs.append(job)
        if len(self._jobs) == 1:
            self._clock.call_soon(self._turn)

    def _turn(self) -> None:
        if not self._jobs:
            return  # all was done at once meanwhile
        is_done = True
        try:
            is_done = next(self._jobs[0], self) is self
        finally:
            if is_done:
                self._jobs.popleft()
            if self._jobs:
                self._clock.call_soon(self._turn)

    def _cutting(self, end_ms: int) -> Generator[None, None, Interval]:
        start_ms, self._start_ms = self._start_ms, end_ms
        growth: dict[str, Totals] = {}
        total = yield from self._growing(growth)
        peaks, self._hub_peaks = self._hub_peaks, {}
        # A hub that has closed since holds nothing, but may have had sessions.
        levels = {name: HubLevels(sessions_peak=peaks.get(name, 0)) for name in growth}
        gauges = NodeGauges()
        for hubs in self._metrics.gauges_in_slices():
            gauges = gauges.plus(hubs)
            self._level(hubs, peaks, levels)
            yield
        interval = Interval(
            start_ms=start_ms,
            end_ms=end_ms,
            total=total,
            hubs=growth,
            levels=levels,
            gauges=gauges,
            sessions_peak=max(self._peak, gauges.sessions),
        )
        self._peak = gauges.sessions
        self._kept.append((yield from _trimmed(interval)))
        if self._on_interval is not None:
            steps = self._on_interval(interval)
            if isinstance(steps, Iterator):
                for _ in steps:
                    yield
        return interval

    def _growing(self, growth: dict[str, Totals]) -> Generator[None, None, Totals]:
        """What was counted since the last cut: in each hub where anything was, and in all."""
        metrics, marks = self._metrics, self._hubs_at
        total, self._forgotten = self._forgotten, Totals()
        node = self._node_at.advance()
        if node is not None:
            total.add(node)
        closed = metrics.begin_retiring()
        everything = [*closed.items(), *metrics.open_hubs]
        self._gone = []
        for start in range(0, len(everything), SLICE_LEN):
            for index, (name, counters) in enumerate(everything[start : start + SLICE_LEN], start):
                mark = self._mark(counters)
                since = None if mark.is_gone else mark.advance()
                if since is not None:
                    total.add(since)
                    # A hub may have closed, and one of that name have opened.
                    growth[name] = since.plus(growth.get(name))
                if index < len(closed):
                    metrics.retire(name)
                    del marks[counters]
            yield
        for counters in self._gone:
            marks.pop(counters, None)
        self._gone = None
        return total

    def _mark(self, counters: Counters) -> _Mark:
        mark = self._hubs_at.get(counters)
        if mark is None:
            mark = self._hubs_at[counters] = _Mark(counters)
        return mark

    def _forget(self, counters: Counters) -> None:
        """A hub's counters go before the next cut looks at them, or while one does."""
        mark = self._mark(counters)
        since = mark.advance()
        if since is not None:
            self._forgotten.add(since)
        mark.is_gone = True
        if self._gone is None:
            del self._hubs_at[counters]
        else:
            self._gone.append(counters)

    def _level(
        self, hubs: Sequence[HubGauges], peaks: dict[str, int], levels: dict[str, HubLevels]
    ) -> None:
        for hub in hubs:
            if hub.sessions:
                self._hub_peaks[hub.hub] = hub.sessions
            if hub.channels or hub.sessions or hub.subscriptions or hub.hub in levels:
                peak = max(peaks.get(hub.hub, 0), hub.sessions)
                levels[hub.hub] = HubLevels(hub.channels, hub.sessions, hub.subscriptions, peak)

    def _schedule(self) -> None:
        now_ms = self._clock.wall_ms()
        # Timers may come a moment early; then the moment just ahead is the one that was meant.
        self._due_ms = ((now_ms + self._near_ms) // self._interval_ms + 1) * self._interval_ms
        self._timer = self._clock.call_later((self._due_ms - now_ms) / 1000, self._tick)

    def _tick(self) -> None:
        due_ms, now_ms = self._due_ms, self._clock.wall_ms()
        self._schedule()
        end_ms = due_ms if abs(now_ms - due_ms) <= self._near_ms else now_ms
        self._soon(self._cutting(end_ms))

    def _sample(self) -> None:
        self._sampler = self._clock.call_later(self._sample_interval_s, self._sample)
        self._soon(self._sampling())

    def _sampling(self) -> Generator[None, None, None]:
        sessions, peaks = 0, self._hub_peaks
        for hubs in self._metrics.gauges_in_slices():
            for hub in hubs:
                sessions += hub.sessions
                if hub.sessions > peaks.get(hub.hub, 0):
                    peaks[hub.hub] = hub.sessions
            yield
        self._peak = max(self._peak, sessions)


def _trimmed(interval: Interval) -> Generator[None, None, Interval]:
    if len(interval.levels) <= _HUBS_KEPT_MAX:
        return interval
    hubs = interval.hubs

    def rank(name: str) -> tuple[int, str]:
        total = hubs.get(name)
        return (-total.messages_in - total.messages_out if total is not None else 0, name)

    kept: list[str] = []
    names = iter(interval.levels)
    while some := list(islice(names, SLICE_LEN)):
        kept = heapq.nsmallest(_HUBS_KEPT_MAX, kept + some, key=rank)
        yield
    return msgspec.structs.replace(
        interval,
        hubs={name: hubs[name] for name in kept if name in hubs},
        levels={name: interval.levels[name] for name in kept},
    )
