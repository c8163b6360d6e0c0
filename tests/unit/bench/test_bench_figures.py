"""Medians, ratios, goals and tables say what was measured."""

import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.bench.fallback import percentile
from arauto.bench.generator import Latency, Load, Sample
from arauto.bench.goals import check_idle, check_latency, check_rate, check_ratio
from arauto.bench.machine import describe_machine
from arauto.bench.page import page, write_report
from arauto.bench.procfs import Memory, parse_smaps_rollup
from arauto.bench.results import (
    Check,
    Comparison,
    IdleResult,
    IdleRow,
    LatencyResult,
    LatencyRow,
    Report,
    Row,
)
from arauto.bench.stats import best_of, ratio, spread_of
from arauto.bench.tables import comparison_table, count_text, markdown

_LOAD = Load(mode="fanout", subscribers=1000, in_flight=64)


def _row(label: str, *per_s: float, is_exact: bool = True) -> Row:
    return Row(
        label=label,
        is_arauto=label.startswith("arauto"),
        per_s=spread_of(per_s),
        publishes_per_s=spread_of([value / 1000 for value in per_s]),
        server_cpu_us=spread_of([0.5]),
        generator_share=0.4,
        is_exact=is_exact,
        rounds=(),
    )


def _comparison(*rows: Row, **left_out: str) -> Comparison:
    return Comparison(name="fan-out", load=_LOAD, rows=rows, left_out=left_out)


def _latency(p99_ms: float) -> Latency:
    return Latency(samples=10, mean_ms=1, p50_ms=1, p90_ms=2, p99_ms=p99_ms, p999_ms=9, max_ms=10)


def _sample(**changes: int | float) -> Sample:
    sample = Sample(
        generator="c",
        seconds=2.0,
        deliveries=1000,
        publishes=10,
        acks=20,
        server_cpu_s=0.5,
        generator_cpu_s=1.0,
        published_total=12,
        delivered_total=1200,
        acked_total=0,
        refused_total=0,
        lost=0,
        uneven_subscribers=0,
        gaps=0,
    )
    return msgspec.structs.replace(sample, **changes)


def test_a_sample_knows_its_rates() -> None:
    sample = _sample()
    assert (sample.deliveries_per_s, sample.publishes_per_s, sample.acks_per_s) == (500, 5, 10)
    assert sample.server_cpu_us_per(sample.deliveries) == 500
    assert sample.server_cpu_us_per(0) == 0
    assert sample.generator_share == 0.5


@pytest.mark.parametrize("field", ["lost", "uneven_subscribers", "refused_total", "gaps"])
def test_a_sample_with_anything_missing_is_not_exact(field: str) -> None:
    assert _sample().is_exact
    assert not _sample(**{field: 1}).is_exact


@given(st.lists(st.floats(min_value=0.001, max_value=1e9), min_size=1))
def test_the_median_lies_within_the_spread(values: list[float]) -> None:
    spread = spread_of(values)
    assert spread.low <= spread.median <= spread.high
    assert spread.width >= 0


def test_the_spread_is_half_the_range_as_a_share_of_the_median() -> None:
    assert spread_of([90, 100, 130]).width == pytest.approx(0.2)
    assert spread_of([0, 0]).width == 0


@given(st.lists(st.integers(min_value=0, max_value=10**9), min_size=1), st.floats(0, 1))
def test_a_percentile_is_a_sample_with_that_share_at_or_below(
    samples: list[int], share: float
) -> None:
    ordered = sorted(samples)
    found = percentile(ordered, share)
    assert found in ordered
    at_or_below = sum(value <= found for value in ordered)
    assert at_or_below >= math.floor(share * len(ordered))
    assert percentile(ordered, 1) == ordered[-1]


def test_a_ratio_to_nothing_is_no_number() -> None:
    assert ratio(10, 4) == 2.5
    assert ratio(10, 0) is None


def test_the_best_peer_is_chosen_among_those_measured() -> None:
    assert best_of({"nats": 2.0, "redis": 3.0, "mosquitto": 9.0}, ["nats", "redis"]) == ("redis", 3)
    assert best_of({"nats": 2.0}, ["nats", "redis"]) == ("nats", 2)
    assert best_of({}, ["nats"]) is None


def test_a_ratio_goal_compares_medians_with_the_best_named_peer() -> None:
    comparison = _comparison(
        _row("arauto proto", 290, 300, 900),
        _row("nats", 100),
        _row("redis", 200),
        _row("mqtt", 999),
    )
    check = check_ratio(comparison, "arauto proto", ["nats", "redis"], 1.5)
    assert (check.reached, check.is_met) == ("1.50 × redis", True)
    assert check_ratio(comparison, "arauto proto", ["redis"], 1.6).is_met is False


def test_a_goal_without_a_figure_is_neither_met_nor_missed() -> None:
    alone = _comparison(_row("arauto proto", 300), nats="not installed")
    failed = Comparison(name="x", load=_LOAD, rows=(), left_out={"arauto proto": "it broke"})
    assert check_ratio(alone, "arauto proto", ["nats"], 1.0).is_met is None
    broken = check_ratio(failed, "arauto proto", ["nats"], 1.0)
    assert (broken.is_met, broken.reached) == (None, "not measured: it broke")
    assert check_rate(failed, "arauto proto", 50_000).is_met is None
    latency = LatencyResult(name="latency", load=_LOAD, rows=())
    assert [c.is_met for c in check_latency(latency, "arauto proto", 10, 0.1)] == [None, None]
    assert check_idle(IdleResult(name="idle", rows=()), "arauto proto", 20, 512).is_met is None


def test_a_rate_goal_compares_with_a_number() -> None:
    comparison = _comparison(_row("arauto proto", 50_000))
    assert check_rate(comparison, "arauto proto", 50_000).is_met is True
    assert check_rate(comparison, "arauto proto", 50_001).is_met is False


@pytest.mark.parametrize(
    ("alone_ms", "stalled_ms", "met"),
    [(10.0, 11.0, [True, True]), (10.1, 9.0, [False, True]), (5.0, 5.6, [True, False])],
)
def test_a_latency_goal_looks_at_p99_and_how_stalled_readers_move_it(
    alone_ms: float, stalled_ms: float, met: list[bool]
) -> None:
    row = LatencyRow(
        label="arauto proto",
        is_arauto=True,
        rate=100,
        alone=_latency(alone_ms),
        with_stalled=_latency(stalled_ms),
        is_exact=True,
    )
    result = LatencyResult(name="latency", load=_LOAD, rows=(row,))
    assert [c.is_met for c in check_latency(result, "arauto proto", 10, 0.1 + 1e-9)] == met


@pytest.mark.parametrize(("after_mib", "is_met"), [(300, True), (400, False)])
def test_an_idle_goal_counts_what_sessions_added(after_mib: int, is_met: bool) -> None:
    row = IdleRow(
        label="arauto proto",
        is_arauto=True,
        sessions=15_000,
        before=Memory(rss_bytes=50 << 20, pss_bytes=0),
        after=Memory(rss_bytes=after_mib << 20, pss_bytes=0),
        connect_s=1,
    )
    result = IdleResult(name="idle", rows=(row,))
    assert row.bytes_per_session == pytest.approx((after_mib - 50) * 2**20 / 15_000)
    assert check_idle(result, "arauto proto", 20, 512).is_met is is_met


def test_a_comparison_shows_ratios_to_the_best_peer_and_who_was_left_out() -> None:
    comparison = _comparison(
        _row("arauto proto", 300e3), _row("redis", 200e3, is_exact=False), nats="not installed"
    )
    table = comparison_table(comparison)
    assert table.rows[0][:3] == ("arauto proto", "300.0 k ±0%", "1.50 ×")
    assert table.rows[1][2] == "1.00 ×"
    assert [row[-1] for row in table.rows] == ["yes", "NO"]
    assert table.notes == ("nats: not installed",)
    assert "| **arauto proto** | **300.0 k ±0%** |" in markdown(table)


@pytest.mark.parametrize(
    ("value", "text"), [(8_812_345, "8.81 M"), (62_000, "62.0 k"), (9_500, "9,500"), (0, "0")]
)
def test_rates_are_written_as_people_read_them(value: float, text: str) -> None:
    assert count_text(value) == text


def test_memory_is_read_from_the_kernels_text() -> None:
    text = "559e-7ffd ---p 00000000 00:00 0 [rollup]\nRss:  1234 kB\nPss:  1000 kB\nSwap: 0 kB\n"
    assert parse_smaps_rollup(text) == Memory(rss_bytes=1234 * 1024, pss_bytes=1000 * 1024)


def test_a_report_is_written_as_data_and_as_a_page(tmp_path: Path) -> None:
    report = Report(
        date="2026-01-31",
        commit="abc1234+",
        machine=describe_machine(),
        versions={"arauto": "0.1.0", "redis": "7.0.15"},
        generator="python",
        notes=("slow generator",),
        comparisons=(_comparison(_row("arauto proto", 1.0)),),
        latencies=(),
        idle=(),
        checks=(Check(what="fan-out", goal="≥ 1", reached="2", is_met=True),),
    )
    data_path, page_path = write_report(report, tmp_path / "results")
    assert data_path.name == "2026-01-31-abc1234.json"
    assert msgspec.json.decode(data_path.read_bytes(), type=Report) == report
    text = page_path.read_text()
    assert text == page(report)
    for part in ("abc1234 with uncommitted changes", "redis 7.0.15", "slow generator", "met"):
        assert part in text
