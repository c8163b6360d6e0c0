"""What a scraper sees, read back with Prometheus' own parser."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from arauto.errors import Code
from arauto.telemetry.metrics import SLICE_LEN, HubGauges, Metrics
from arauto.telemetry.prometheus import OTHER_HUBS, MetricsCollector, PrometheusExporter


class Scraper:
    """Scrapes and answers questions about what it saw."""

    def __init__(self, metrics: Metrics, hubs_max: int = 50) -> None:
        collector = MetricsCollector(metrics, hubs_max=hubs_max, node="node-7", version="1.2")
        self._exporter = PrometheusExporter(collector, process=False)

    def samples(self) -> Iterator[Sample]:
        for family in text_string_to_metric_families(self._exporter.render().decode()):
            yield from family.samples

    def value(self, name: str, **labels: str) -> float:
        found = [s.value for s in self.samples() if s.name == name and s.labels == labels]
        assert len(found) == 1, (name, labels, found)
        return found[0]

    def hubs(self, name: str) -> dict[str, float]:
        return {s.labels["hub"]: s.value for s in self.samples() if s.name == name}


def test_counters_appear_for_the_node_and_for_each_hub() -> None:
    metrics = Metrics()
    scraper = Scraper(metrics)
    metrics.hub("shop").messages_in += 3
    metrics.hub("bank").messages_in += 4
    metrics.node.messages_in += 1
    assert scraper.value("arauto_messages_in_total") == 8
    assert scraper.hubs("arauto_hub_messages_in_total") == {"shop": 3, "bank": 4, OTHER_HUBS: 0}


def test_durations_are_shown_in_seconds() -> None:
    metrics = Metrics()
    metrics.hub("a").session_duration_ms += 2_500
    assert Scraper(metrics).value("arauto_session_duration_seconds_total") == 2.5


def test_refusals_are_labelled_with_the_name_of_their_code() -> None:
    metrics = Metrics()
    metrics.hub("a").refuse(Code.RATE_LIMITED)
    metrics.node.refuse(Code.RATE_LIMITED)
    metrics.node.refuse(123_456)
    scraper = Scraper(metrics)
    assert scraper.value("arauto_refused_total", code="RATE_LIMITED") == 2
    assert scraper.value("arauto_refused_total", code="UNKNOWN") == 1


def test_gauges_are_read_at_scrape_time() -> None:
    metrics = Metrics()
    scraper = Scraper(metrics, hubs_max=1)
    metrics.hub("a").messages_in += 5
    metrics.hub("b").messages_in += 1
    metrics.set_gauges(lambda: [HubGauges("a", 2, 10, 20), HubGauges("b", 1, 5, 6)])
    assert scraper.value("arauto_hubs") == 2
    assert scraper.value("arauto_sessions") == 15
    assert scraper.hubs("arauto_hub_subscriptions") == {"a": 20, OTHER_HUBS: 6}


def test_a_timing_is_a_cumulative_histogram() -> None:
    metrics = Metrics()
    for duration_ns in (10_000, 60_000, 70_000, 5_000_000_000):
        metrics.hub("a").publish_time.observe(duration_ns)
    scraper = Scraper(metrics)
    name = "arauto_publish_processing_seconds"
    assert scraper.value(f"{name}_bucket", le="5e-05") == 1
    assert scraper.value(f"{name}_bucket", le="0.0001") == 3
    assert scraper.value(f"{name}_bucket", le="1.0") == 3
    assert scraper.value(f"{name}_bucket", le="+Inf") == 4
    assert scraper.value(f"{name}_count") == 4
    assert scraper.value(f"{name}_sum") == pytest.approx(5.00014)


def test_the_node_is_named() -> None:
    assert Scraper(Metrics()).value("arauto_node_info", node="node-7", version="1.2") == 1


def test_process_figures_are_there_and_two_nodes_can_live_in_one_process() -> None:
    texts = [PrometheusExporter(MetricsCollector(Metrics())).render().decode() for _ in range(2)]
    for text in texts:
        names = {family.name for family in text_string_to_metric_families(text)}
        assert {"process_resident_memory_bytes", "python_info", "python_gc_collections"} <= names


def test_a_thousand_hubs_cannot_explode_the_number_of_series() -> None:
    """Threats T2 and T28: tenants choose hub names, so names must not decide the cost of monitoring."""
    metrics = Metrics()
    scraper = Scraper(metrics, hubs_max=5)
    few = len(list(scraper.samples()))
    for i in range(1_000):
        metrics.hub(f"hub-{i}").messages_in += i
    metrics.set_gauges(lambda: [HubGauges(f"hub-{i}", 1, 1, 1) for i in range(1_000)])
    for _ in range(3):
        shown = scraper.hubs("arauto_hub_messages_in_total")
        assert len(shown) == 6
        assert sum(shown.values()) == 499_500
    # 21 counters and 8 gauges, one more series for each of the 5 hubs.
    assert len(list(scraper.samples())) - few <= 5 * 29


def test_the_busiest_hubs_get_the_series() -> None:
    metrics = Metrics()
    for i in range(100):
        metrics.hub(f"hub-{i:02}").messages_in += i
    shown = Scraper(metrics, hubs_max=3).hubs("arauto_hub_messages_in_total")
    assert set(shown) == {"hub-99", "hub-98", "hub-97", OTHER_HUBS}


def test_idle_squatters_lose_their_series_to_a_busy_hub() -> None:
    metrics = Metrics()
    scraper = Scraper(metrics, hubs_max=2)
    for name in ("squat-1", "squat-2"):
        metrics.hub(name).messages_in += 1_000
    assert set(scraper.hubs("arauto_hub_messages_in_total")) == {"squat-1", "squat-2", OTHER_HUBS}
    metrics.hub("tenant").messages_in += 50
    shown = scraper.hubs("arauto_hub_messages_in_total")
    assert shown["tenant"] == 50
    assert shown[OTHER_HUBS] == 0  # the evicted hub's count left with its series: no jump elsewhere
    assert scraper.value("arauto_messages_in_total") == 2_050


def test_what_a_hub_did_among_the_others_stays_there_when_it_gets_a_series() -> None:
    metrics = Metrics()
    scraper = Scraper(metrics, hubs_max=1)
    metrics.hub("first").messages_in += 100
    metrics.hub("late").messages_in += 10
    assert scraper.hubs("arauto_hub_messages_in_total") == {"first": 100, OTHER_HUBS: 10}
    metrics.hub("late").messages_in += 500
    assert set(scraper.hubs("arauto_hub_messages_in_total")) == {"late", OTHER_HUBS}
    metrics.hub("late").messages_in += 7
    assert scraper.hubs("arauto_hub_messages_in_total") == {"late": 7, OTHER_HUBS: 510}


def test_hubs_of_equal_traffic_do_not_take_turns() -> None:
    metrics = Metrics()
    scraper = Scraper(metrics, hubs_max=2)
    names = [f"h{i}" for i in range(6)]
    chosen = set()
    for turn in range(5):
        for name in names:
            metrics.hub(name).messages_in += 10 + (turn + len(name)) % 3
        chosen.add(frozenset(scraper.hubs("arauto_hub_messages_in_total")))
    assert len(chosen) == 1


def test_a_hub_named_other_is_an_ordinary_hub() -> None:
    metrics = Metrics()
    metrics.hub("other").messages_in += 2
    assert Scraper(metrics).hubs("arauto_hub_messages_in_total") == {"other": 2, OTHER_HUBS: 0}


def test_a_scrape_reads_few_hubs_in_each_turn_and_each_once() -> None:
    metrics = Metrics()
    looks = 0

    def gauges() -> Iterator[HubGauges]:
        nonlocal looks
        for number in range(2_000):
            looks += 1
            yield HubGauges(f"hub-{number}", 1, 1, 1)

    metrics.set_gauges(gauges)
    for number in range(2_000):
        metrics.hub(f"hub-{number}").messages_in += 1
    collector = MetricsCollector(metrics, hubs_max=5)
    turns = [looks for _ in collector.reading()]
    assert max(later - one for one, later in pairwise(turns)) <= SLICE_LEN
    assert (len(turns), looks) == (3 * 2_000 // SLICE_LEN, 2_000), "three times through them"
    assert sum(1 for _ in collector.collect()) > 0
    assert looks == 2_000, "what is shown was read before"


async def test_scrapes_at_the_same_time_show_whole_figures() -> None:
    metrics = Metrics()
    for number in range(1_000):
        metrics.hub(f"hub-{number}").messages_in += 1
    exporter = PrometheusExporter(MetricsCollector(metrics, hubs_max=5), process=False)
    for text in await asyncio.gather(exporter.rendered(), exporter.rendered()):
        assert b"arauto_messages_in_total 1000.0" in text


_step = st.tuples(
    st.sampled_from(["publish", "publish", "close", "scrape", "scrape", "interval"]),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from([1, 10, 1_000]),
)


@given(st.lists(_step, min_size=5, max_size=40))
def test_no_series_goes_down_while_it_lives(steps: list[tuple[str, str, int]]) -> None:
    metrics = Metrics()
    scraper = Scraper(metrics, hubs_max=1)
    last: dict[str, float] = {}
    for action, hub, count in steps:
        if action == "publish":
            metrics.hub(hub).messages_in += count
        elif action == "close":
            metrics.close_hub(hub)
        elif action == "interval":
            metrics.retire_closed()
        else:
            shown = scraper.hubs("arauto_hub_messages_in_total")
            assert len(shown) <= 2
            assert shown[OTHER_HUBS] >= last.get(OTHER_HUBS, 0)
            last = shown


@given(st.lists(_step, min_size=5, max_size=40), st.integers(0, 2))
def test_no_series_goes_down_though_hubs_count_and_close_while_they_are_read(
    steps: list[tuple[str, str, int]], closed_max: int
) -> None:
    metrics = Metrics(closed_max=closed_max)
    exporter = PrometheusExporter(collector := MetricsCollector(metrics, hubs_max=1), process=False)
    left = list(steps)
    last: dict[str, float] = {}
    with patch("arauto.telemetry.metrics.SLICE_LEN", 1):
        while left:
            for _ in collector.reading():
                if left:
                    _act(metrics, *left.pop())
            families = text_string_to_metric_families(exporter.render().decode())
            shown = {
                sample.labels.get("hub", ""): sample.value
                for family in families
                for sample in family.samples
                if sample.name in ("arauto_hub_messages_in_total", "arauto_messages_in_total")
            }
            assert sum(shown.values()) <= 2 * shown[""], "less what left with a series that ended"
            assert shown[""] >= last.get("", 0)
            assert shown[OTHER_HUBS] >= last.get(OTHER_HUBS, 0)
            last = shown
            if left:
                _act(metrics, *left.pop())


def _act(metrics: Metrics, action: str, hub: str, count: int) -> None:
    if action == "publish":
        metrics.hub(hub).messages_in += count
    elif action == "close":
        metrics.close_hub(hub)
    elif action == "interval":
        metrics.retire_closed()
