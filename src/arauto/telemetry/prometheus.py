"""Shows the counters to a Prometheus scraper. Nothing is kept here but which hubs have a series.

Two families per counter: `arauto_…_total` for the whole node, and `arauto_hub_…_total{hub="…"}` for a
bounded number of hubs, all others together being `hub="_other"` (no hub can be called that). A tenant who
makes a thousand hubs thus adds nothing to the monitoring system. What a hub did while it was counted in
`_other` stays there when it gets a series of its own, so that no series goes down while it lives.

There may be ten thousand hubs: they are read in turns of the event loop, before the families are made of
what was read. Each hub is read once, for its own series and for the sums, so that these add up.
"""

import asyncio
import heapq
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from arauto.errors import Code
from arauto.tasks import at_once, in_turns
from arauto.telemetry.counters import COUNTER_FIELDS, TIMING_BOUNDS_NS, Counters, read_counters
from arauto.telemetry.metrics import SLICE_LEN, HubGauges, Metrics, Sums, TimingTotals, Totals

__all__ = ["OTHER_HUBS", "MetricsCollector", "PrometheusExporter", "ValueCollector"]

OTHER_HUBS = "_other"

#: (field of Counters, name, help); a second family with `hub_` in its name is made of each.
_COUNTERS: tuple[tuple[str, str, str], ...] = (
    ("messages_in", "messages_in", "Requests read, heartbeats and HTTP publish included"),
    ("messages_out", "messages_out", "Frames written to clients"),
    ("bytes_in", "received_bytes", "Bytes of these requests"),
    ("bytes_out", "sent_bytes", "Bytes written to clients"),
    ("publishes", "publications", "Publications accepted"),
    ("deliveries", "deliveries", "Publications handed to subscribers"),
    ("stored", "stored_publications", "Publications that became durable"),
    ("dropped", "dropped_deliveries", "Deliveries given up for slow consumers"),
    ("gaps", "gap_markers", "Gap markers sent to slow consumers"),
    ("slow_disconnects", "slow_disconnects", "Connections ended because they read too slowly"),
    (
        "backlogs_refused",
        "backlogs_refused",
        "Times a slow reader was treated as full, for the hub or the node held too many bytes",
    ),
    ("keys_evicted", "idempotency_keys_evicted", "Idempotency keys forgotten before their time"),
    (
        "history_evicted",
        "live_history_evicted",
        "Messages that left live history early, for the hub or the node held too many bytes",
    ),
    ("retained_refused", "retained_refused", "Messages not retained for lack of room"),
    (
        "retained_failures",
        "retained_failures",
        "Failed writes of retained messages, to be repeated",
    ),
    (
        "snapshot_failures",
        "document_snapshot_failures",
        "Failed snapshots of documents, to be repeated",
    ),
    (
        "unknown_fields",
        "requests_with_unknown_fields",
        "Requests carried out without fields that this version does not know",
    ),
    ("sessions_started", "sessions_started", "Sessions begun"),
    ("sessions_restored", "sessions_restored", "Sessions that came back after a lost connection"),
    ("sessions_ended", "sessions_ended", "Sessions ended"),
    ("session_duration_ms", "session_duration_seconds", "Summed duration of ended sessions"),
)
_HUB_GAUGES: tuple[tuple[str, str], ...] = (
    ("channels", "Channels open now"),
    ("sessions", "Sessions connected now"),
    ("subscriptions", "Subscriptions held now"),
    ("live_history_bytes", "Memory that live history takes now"),
    ("idempotency_bytes", "Memory that idempotency keys take now"),
    ("retained_bytes", "Memory that retained messages take now"),
    ("backlogs_bytes", "Memory that what waits for slow readers takes now"),
    ("documents_bytes", "Memory that open documents take now"),
)

_read_gauges: Callable[[object], tuple[int, ...]] = attrgetter(*(name for name, _ in _HUB_GAUGES))

#: How much busier than a hub with a series another must be to take its place; keeps series from flapping.
_TAKEOVER_FACTOR = 2

_CODE_NAMES: Mapping[int, str] = {int(code): code.name for code in Code}


class _Series:
    """A hub that has a series of its own."""

    __slots__ = ("base", "counters")

    def __init__(self, counters: Counters, base: Totals) -> None:
        self.counters = counters
        self.base = base

    def growth(self, sums: Sums) -> Totals:
        row = sums.rows.get(self.counters)
        # Whoever was let go of is in the sums as it was then, and counts no more.
        return Totals.of_row(row or read_counters(self.counters)).since(self.base)


class _Seen:
    """What one scrape shows."""

    __slots__ = ("gauges", "hub_count", "shown", "sums")

    def __init__(self, sums: Sums) -> None:
        self.sums = sums
        self.hub_count = 0
        self.gauges = [0] * len(_HUB_GAUGES)
        """Over all hubs."""
        self.shown: list[HubGauges] = []
        """Of those that have a series."""


class MetricsCollector(Collector):
    """Makes metric families of a node's counters when scraped.

    Args:
        metrics: the counters.
        hubs_max: how many hubs get a series of their own.
        node: the node's name, shown as `arauto_node_info`.
        version: the node's version, shown beside it.
    """

    def __init__(
        self, metrics: Metrics, *, hubs_max: int = 50, node: str = "", version: str = ""
    ) -> None:
        self._metrics = metrics
        self._hubs_max = hubs_max
        self._info = {"node": node, "version": version}
        self._series: dict[str, _Series] = {}
        self._gone = Totals()  # what series showed that have ended
        self._activity: dict[str, int] = {}
        self._seen: _Seen | None = None

    def describe(self) -> Iterable[Metric]:
        # Nothing to say before the first scrape; also keeps registration from running collect().
        return ()

    def reading(self) -> Generator[None, None, None]:
        """Read what the next `collect` shows, in steps of `SLICE_LEN` hubs."""
        sums = yield from self._metrics.adding_up()
        yield from self._choosing(sums)
        seen = _Seen(sums)
        for hubs in self._metrics.gauges_in_slices():
            seen.hub_count += len(hubs)
            columns = zip(*map(_read_gauges, hubs), strict=True)
            seen.gauges = [t + sum(c) for t, c in zip(seen.gauges, columns, strict=True)]
            seen.shown += [hub for hub in hubs if hub.hub in self._series]
            yield
        self._seen = seen

    def collect(self) -> Iterator[Metric]:
        if self._seen is None:
            at_once(self.reading())
        seen, self._seen = self._seen, None
        assert seen is not None
        yield InfoMetricFamily("arauto_node", "The node", value=self._info)
        yield from _node_counters(seen.sums.total)
        yield from _timings(seen.sums.total)
        yield from self._hub_counters(seen.sums)
        yield from _gauges(seen)

    def _choosing(self, sums: Sums) -> Generator[None, None, None]:
        """Decide which hubs have a series, by what they did since the last scrape."""
        before = self._activity
        now: dict[str, int] = {}
        open_hubs = sums.open_hubs

        def rank(name: str) -> tuple[int, bool, str]:
            recent = now[name] - before.get(name, 0)
            shown = name in self._series
            return (-recent * (_TAKEOVER_FACTOR if shown else 1), not shown, name)

        for name, series in list(self._series.items()):
            if open_hubs.get(name) is not series.counters:
                self._end(name, sums)
        for start in range(0, len(sums.closed), SLICE_LEN):
            for name, counters in sums.closed[start : start + SLICE_LEN]:
                now[name] = _activity(sums.rows[counters])
            yield
        chosen: list[str] = []
        names = iter(open_hubs)
        while some := list(islice(names, SLICE_LEN)):
            for name in some:
                now[name] = _activity(sums.rows[open_hubs[name]])
            chosen = heapq.nsmallest(self._hubs_max, chosen + some, key=rank)
            yield
        for name in sorted(set(self._series).difference(chosen)):
            self._end(name, sums)
        for name in chosen:
            if name not in self._series:
                counters = open_hubs[name]
                base = Totals.of_row(sums.rows[counters]) if name in before else Totals()
                self._series[name] = _Series(counters, base)
        self._activity = now

    def _end(self, name: str, sums: Sums) -> None:
        self._gone.add(self._series.pop(name).growth(sums))

    def _hub_counters(self, sums: Sums) -> Iterator[Metric]:
        growth = {name: series.growth(sums) for name, series in sorted(self._series.items())}
        other = sums.total.since(sums.node)
        other.add(self._gone, sign=-1)
        for shown in growth.values():
            other.add(shown, sign=-1)
        growth[OTHER_HUBS] = other
        for field, name, text in _COUNTERS:
            family = CounterMetricFamily(f"arauto_hub_{name}", f"{text}, by hub", labels=["hub"])
            for hub, totals in growth.items():
                family.add_metric([hub], _value(totals, field))
            yield family


def _gauges(seen: _Seen) -> Iterator[Metric]:
    yield GaugeMetricFamily("arauto_hubs", "Hubs open now", value=seen.hub_count)
    for (field, text), total in zip(_HUB_GAUGES, seen.gauges, strict=True):
        yield GaugeMetricFamily(f"arauto_{field}", text, value=total)
    for (field, text), total in zip(_HUB_GAUGES, seen.gauges, strict=True):
        yield _hub_gauge(field, text, total, seen.shown)


def _hub_gauge(field: str, text: str, total: int, shown: Sequence[HubGauges]) -> Metric:
    family = GaugeMetricFamily(f"arauto_hub_{field}", f"{text}, by hub", labels=["hub"])
    other = total
    for hub in shown:
        value = getattr(hub, field)
        other -= value
        family.add_metric([hub.hub], value)
    family.add_metric([OTHER_HUBS], other)
    return family


_ACTIVITY = [COUNTER_FIELDS.index(name) for name in ("messages_in", "messages_out", "publishes")]


def _activity(row: Sequence[int]) -> int:
    return sum(row[at] for at in _ACTIVITY)


def _value(totals: Totals, field: str) -> float:
    value: int = getattr(totals, field)
    return value / 1_000 if field == "session_duration_ms" else value


def _node_counters(total: Totals) -> Iterator[Metric]:
    for field, name, text in _COUNTERS:
        yield CounterMetricFamily(f"arauto_{name}", text, value=_value(total, field))
    refused = CounterMetricFamily(
        "arauto_refused", "Requests and connections refused, by error code", labels=["code"]
    )
    unknown = 0
    for code, count in sorted(total.refused.items()):
        if code in _CODE_NAMES:
            refused.add_metric([_CODE_NAMES[code]], count)
        else:
            unknown += count
    if unknown:
        refused.add_metric(["UNKNOWN"], unknown)
    yield refused


def _timings(total: Totals) -> Iterator[Metric]:
    yield _histogram(
        "arauto_publish_processing_seconds",
        "From a publication's arrival to its hand-over to all subscribers",
        total.publish_time,
    )
    yield _histogram(
        "arauto_document_processing_seconds",
        "From a document change's arrival to its broadcast",
        total.document_time,
    )


def _histogram(name: str, text: str, timing: TimingTotals) -> Metric:
    buckets: list[tuple[str, float]] = []
    below = 0
    for bound_ns, count in zip(TIMING_BOUNDS_NS, timing.buckets, strict=False):
        below += count
        buckets.append((str(bound_ns / 1e9), below))
    buckets.append(("+Inf", timing.count))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=timing.sum_ns / 1e9)


class ValueCollector(Collector):
    """Counters that other parts of the node keep, each read when scraped.

    Args:
        values: (name without prefix, help, how to read it).
        gauges: the same, of what goes down too.
    """

    def __init__(
        self,
        values: Iterable[tuple[str, str, Callable[[], int]]],
        gauges: Iterable[tuple[str, str, Callable[[], int]]] = (),
    ) -> None:
        self._values = tuple(values)
        self._gauges = tuple(gauges)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        for name, text, read in self._values:
            yield CounterMetricFamily(f"arauto_{name}", text, value=read())
        for name, text, read in self._gauges:
            yield GaugeMetricFamily(f"arauto_{name}", text, value=read())


class PrometheusExporter:
    """The body of `/metrics`: the node's counters and the process's own figures.

    Args:
        collector: the node's counters.
        extra: further collectors of the composition root's choice.
        process: also show memory, CPU time, open files and garbage collection.
    """

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(
        self,
        collector: MetricsCollector,
        *,
        extra: Iterable[Collector] = (),
        process: bool = True,
    ) -> None:
        # A registry of its own: two nodes in one process, as in tests, must not share one.
        self._registry = CollectorRegistry()
        self._collector = collector
        self._scraping = asyncio.Lock()
        self._registry.register(collector)
        for more in extra:
            self._registry.register(more)
        if process:
            makers: tuple[Callable[..., object], ...] = (
                ProcessCollector,
                PlatformCollector,
                GCCollector,
            )
            for make in makers:
                make(registry=self._registry)

    def render(self) -> bytes:
        """All of it at once."""
        return generate_latest(self._registry)

    async def rendered(self) -> bytes:
        """The same, without holding up anybody; scrapes come one after another."""
        async with self._scraping:
            await in_turns(self._collector.reading())
            return generate_latest(self._registry)
