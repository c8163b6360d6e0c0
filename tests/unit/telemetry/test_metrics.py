"""Counting, summing and cutting into intervals."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from arauto.errors import Code
from arauto.telemetry.counters import COUNTER_FIELDS, TIMING_BOUNDS_NS, Counters, Timing
from arauto.telemetry.intervals import Interval, Intervals
from arauto.telemetry.metrics import HubGauges, Metrics, Totals
from arauto.testing import FakeClock


def test_a_hub_keeps_its_counters_object_while_it_is_open() -> None:
    metrics = Metrics()
    assert metrics.hub("a") is metrics.hub("a")
    assert metrics.hub("a") is not metrics.hub("b")


def test_the_same_name_of_counter_in_two_hubs_never_mixes() -> None:
    metrics = Metrics()
    metrics.hub("a").messages_in += 3
    metrics.hub("b").messages_in += 4
    assert metrics.hub("a").messages_in == 3
    assert metrics.total().messages_in == 7


def test_the_total_holds_the_node_open_hubs_and_closed_hubs() -> None:
    metrics = Metrics()
    metrics.node.refuse(Code.HANDSHAKE_REFUSED)
    metrics.hub("a").refuse(Code.RATE_LIMITED)
    metrics.hub("b").refuse(Code.RATE_LIMITED)
    metrics.close_hub("b")
    metrics.close_hub("never opened")
    metrics.retire_closed()
    assert metrics.total().refused == {Code.HANDSHAKE_REFUSED: 1, Code.RATE_LIMITED: 2}


def test_a_hub_that_reopens_in_the_same_interval_goes_on_counting() -> None:
    metrics = Metrics()
    first = metrics.hub("a")
    metrics.close_hub("a")
    assert metrics.hub("a") is first


def test_names_of_closed_hubs_are_bounded_and_their_counts_are_not_lost() -> None:
    metrics = Metrics(closed_max=3)
    for i in range(10):
        metrics.hub(f"h{i}").publishes += 1
        metrics.close_hub(f"h{i}")
    assert len(list(metrics.hubs())) == 3
    assert metrics.total().publishes == 10


def test_every_plain_counter_is_summed() -> None:
    metrics = Metrics()
    for i, name in enumerate(COUNTER_FIELDS):
        setattr(metrics.hub("a"), name, i + 1)
        setattr(metrics.node, name, 100)
    total = metrics.total()
    assert [getattr(total, name) for name in COUNTER_FIELDS] == [
        101 + i for i in range(len(COUNTER_FIELDS))
    ]


def test_timings_fall_into_the_bucket_whose_bound_they_do_not_exceed() -> None:
    timing = Timing()
    timing.observe(TIMING_BOUNDS_NS[0])
    timing.observe(TIMING_BOUNDS_NS[0] + 1)
    timing.observe(TIMING_BOUNDS_NS[-1] + 1)
    assert timing.buckets[:2] == [1, 1]
    assert timing.buckets[-1] == 1
    assert timing.count == sum(timing.buckets) == 3


def test_totals_are_json_with_outside_names() -> None:
    counters = Counters()
    counters.messages_in = 2
    counters.refuse(3000)
    encoded = msgspec.json.decode(msgspec.json.encode(Totals.of(counters)))
    assert encoded["messagesIn"] == 2
    assert encoded["refused"] == {"3000": 1}
    assert "messagesOut" not in encoded


_counts = st.lists(st.integers(0, 1_000), min_size=3, max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), _counts), max_size=20))
def test_growths_between_moments_add_up_to_the_total(steps: list[tuple[str, list[int]]]) -> None:
    metrics = Metrics()
    whole = Totals()
    before = metrics.total()
    for hub, (received, delivered, code) in steps:
        counters = metrics.hub(hub)
        counters.messages_in += received
        counters.deliveries += delivered
        counters.refuse(code)
        counters.publish_time.observe(received)
        now = metrics.total()
        whole.add(now.since(before))
        before = now
    assert whole == metrics.total()
    assert before.since(before).is_zero


# Intervals.


def _collect(
    metrics: Metrics, clock: FakeClock, **options: float
) -> tuple[Intervals, list[Interval]]:
    seen: list[Interval] = []
    intervals = Intervals(
        metrics,
        clock,
        interval_s=options.get("interval_s", 300),
        keep_len=int(options.get("keep_len", 288)),
        on_interval=seen.append,
        sample_interval_s=options.get("sample_interval_s", 0),
    )
    intervals.start()
    return intervals, seen


def test_an_interval_holds_only_what_happened_in_it() -> None:
    metrics, clock = Metrics(), FakeClock(start_wall_ms=0)
    metrics.hub("a").publishes += 5  # before the first interval begins, and so part of it
    _, seen = _collect(metrics, clock)
    clock.advance(300)
    metrics.hub("a").publishes += 2
    metrics.hub("b").publishes += 1
    clock.advance(300)
    clock.advance(300)
    assert [(i.start_ms, i.end_ms) for i in seen] == [
        (0, 300_000),
        (300_000, 600_000),
        (600_000, 900_000),
    ]
    assert [i.total.publishes for i in seen] == [5, 3, 0]
    assert {name: t.publishes for name, t in seen[1].hubs.items()} == {"a": 2, "b": 1}
    assert seen[2].hubs == {}


def test_a_hub_that_closed_is_in_its_last_interval_and_in_no_later_one() -> None:
    metrics, clock = Metrics(), FakeClock()
    _, seen = _collect(metrics, clock)
    metrics.hub("a").deliveries += 7
    metrics.close_hub("a")
    clock.advance(300)
    metrics.hub("a").deliveries += 1
    clock.advance(300)
    assert seen[0].hubs["a"].deliveries == 7
    assert seen[1].hubs["a"].deliveries == 1
    assert metrics.total().deliveries == 8


def test_a_hub_whose_counters_were_replaced_never_shows_negative_growth() -> None:
    metrics, clock = Metrics(closed_max=0), FakeClock()
    _, seen = _collect(metrics, clock)
    metrics.hub("a").deliveries += 100
    clock.advance(300)
    metrics.close_hub("a")
    metrics.hub("a").deliveries += 1
    clock.advance(300)
    assert seen[1].hubs["a"].deliveries == 1
    assert seen[1].total.deliveries == 1


def test_only_the_last_intervals_are_kept() -> None:
    metrics, clock = Metrics(), FakeClock()
    intervals, seen = _collect(metrics, clock, keep_len=3)
    clock.advance(300 * 10)
    assert len(seen) == 10
    assert list(intervals.kept) == seen[-3:]


def test_the_kept_intervals_name_a_bounded_number_of_hubs_and_the_callback_gets_all() -> None:
    metrics, clock = Metrics(), FakeClock()
    intervals, seen = _collect(metrics, clock)
    for i in range(500):
        metrics.hub(f"h{i}").messages_in += i + 1
    clock.advance(300)
    assert len(seen[0].hubs) == 500
    kept = intervals.kept[0].hubs
    assert len(kept) == 100
    assert "h499" in kept
    assert "h0" not in kept


def test_the_peak_of_sessions_is_seen_by_samples_between_the_ends() -> None:
    metrics, clock = Metrics(), FakeClock()
    sessions = 0
    metrics.set_gauges(lambda: [HubGauges("a", 1, sessions, 2 * sessions)])
    _, seen = _collect(metrics, clock, sample_interval_s=10)
    clock.advance(100)
    sessions = 40
    clock.advance(10)
    sessions = 3
    clock.advance(490)
    assert [i.sessions_peak for i in seen] == [40, 3]
    assert seen[0].gauges.sessions == 3
    assert seen[0].gauges.subscriptions == 6
    assert seen[0].gauges.hubs == 1


def test_stop_ends_the_running_interval_so_that_nothing_is_lost_and_no_timer_stays() -> None:
    metrics, clock = Metrics(), FakeClock()
    intervals, seen = _collect(metrics, clock, sample_interval_s=10)
    metrics.hub("a").bytes_in += 9
    clock.advance(5)
    intervals.stop()
    intervals.stop()
    assert [i.total.bytes_in for i in seen] == [9]
    assert clock.pending_timers == 0


def test_a_clock_jump_changes_labels_but_not_the_length_of_intervals() -> None:
    metrics, clock = Metrics(), FakeClock(start_wall_ms=1_000_000)
    _, seen = _collect(metrics, clock)
    clock.jump_wall(-500_000)
    clock.advance(300)
    assert len(seen) == 1
    assert seen[0].end_ms == 800_000
