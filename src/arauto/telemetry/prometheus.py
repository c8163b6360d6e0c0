"""Shows the counters to a Prometheus scraper. Nothing is kept here but which hubs have a series.

Two families per counter: `arauto_…_total` for the whole node, and `arauto_hub_…_total{hub="…"}` for a
bounded number of hubs, all others together being `hub="_other"` (no hub can be called that). A tenant who
makes a thousand hubs thus adds nothing to the monitoring system. What a hub did while it was counted in
`_other` stays there when it gets a series of its own, so that no series goes down while it lives.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from arauto.telemetry.counters import TIMING_BOUNDS_NS, Counters
from arauto.telemetry.metrics import HubGauges, Metrics, TimingTotals, Totals

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

    def __init__(self, counters: Counters, *, was_in_other: bool) -> None:
        self.counters = counters
        self.base = Totals.of(counters) if was_in_other else Totals()

    def growth(self) -> Totals:
        return Totals.of(self.counters).since(self.base)


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

    def describe(self) -> Iterable[Metric]:
        # Nothing to say before the first scrape; also keeps registration from running collect().
        return ()

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("arauto_node", "The node", value=self._info)
        total = self._metrics.total()
        yield from _node_counters(total)
        yield from _timings(total)
        self._choose()
        yield from self._hub_counters(total)
        yield from self._gauges()

    def _choose(self) -> None:
        """Decide which hubs have a series, by what they did since the last scrape."""
        before = self._activity
        self._activity = {name: _activity(counters) for name, counters in self._metrics.hubs()}
        open_hubs = dict(self._metrics.open_hubs)
        for name, series in list(self._series.items()):
            if open_hubs.get(name) is not series.counters:
                self._end(name)

        def rank(name: str) -> tuple[int, bool, str]:
            recent = self._activity[name] - before.get(name, 0)
            shown = name in self._series
            return (-recent * (_TAKEOVER_FACTOR if shown else 1), not shown, name)

        chosen = sorted(open_hubs, key=rank)[: self._hubs_max]
        for name in sorted(set(self._series).difference(chosen)):
            self._end(name)
        for name in chosen:
            if name not in self._series:
                self._series[name] = _Series(open_hubs[name], was_in_other=name in before)

    def _end(self, name: str) -> None:
        self._gone.add(self._series.pop(name).growth())

    def _hub_counters(self, total: Totals) -> Iterator[Metric]:
        growth = {name: series.growth() for name, series in sorted(self._series.items())}
        other = total.since(Totals.of(self._metrics.node))
        other.add(self._gone, sign=-1)
        for shown in growth.values():
            other.add(shown, sign=-1)
        growth[OTHER_HUBS] = other
        for field, name, text in _COUNTERS:
            family = CounterMetricFamily(f"arauto_hub_{name}", f"{text}, by hub", labels=["hub"])
            for hub, totals in growth.items():
                family.add_metric([hub], _value(totals, field))
            yield family

    def _gauges(self) -> Iterator[Metric]:
        hubs = self._metrics.hub_gauges()
        yield GaugeMetricFamily("arauto_hubs", "Hubs open now", value=len(hubs))
        # There may be ten thousand hubs, so each is looked at once, and by name only those that are shown.
        totals = [sum(column) for column in zip(*map(_read_gauges, hubs), strict=True)]
        totals = totals or [0] * len(_HUB_GAUGES)
        for (field, text), total in zip(_HUB_GAUGES, totals, strict=True):
            yield GaugeMetricFamily(f"arauto_{field}", text, value=total)
        shown = [hub for hub in hubs if hub.hub in self._series]
        for (field, text), total in zip(_HUB_GAUGES, totals, strict=True):
            yield _hub_gauge(field, text, total, shown)


def _hub_gauge(field: str, text: str, total: int, shown: Sequence[HubGauges]) -> Metric:
    family = GaugeMetricFamily(f"arauto_hub_{field}", f"{text}, by hub", labels=["hub"])
    other = total
    for hub in shown:
        value = getattr(hub, field)
        other -= value
        family.add_metric([hub.hub], value)
    family.add_metric([OTHER_HUBS], other)
    return family


def _activity(counters: Counters) -> int:
    return counters.messages_in + counters.messages_out + counters.publishes


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
    """

    def __init__(self, values: Iterable[tuple[str, str, Callable[[], int]]]) -> None:
        self._values = tuple(values)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        for name, text, read in self._values:
            yield CounterMetricFamily(f"arauto_{name}", text, value=read())


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
        return generate_latest(self._registry)
