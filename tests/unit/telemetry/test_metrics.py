"""Counting, summing and cutting into intervals."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from arauto.errors import Code
from arauto.telemetry.counters import COUNTER_FIELDS, TIMING_BOUNDS_NS, Counters, Timing
from arauto.telemetry.intervals import HubLevels, Interval, Intervals
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
    metrics, clock = Metrics(), FakeClock(start_wall_ms=0)
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
    metrics, clock = Metrics(closed_max=0), FakeClock(start_wall_ms=0)
    _, seen = _collect(metrics, clock)
    metrics.hub("a").deliveries += 100
    clock.advance(300)
    metrics.close_hub("a")
    metrics.hub("a").deliveries += 1
    clock.advance(300)
    assert seen[1].hubs["a"].deliveries == 1
    assert seen[1].total.deliveries == 1


def test_only_the_last_intervals_are_kept() -> None:
    metrics, clock = Metrics(), FakeClock(start_wall_ms=0)
    intervals, seen = _collect(metrics, clock, keep_len=3)
    clock.advance(300 * 10)
    assert len(seen) == 10
    assert list(intervals.kept) == seen[-3:]


def test_the_kept_intervals_name_a_bounded_number_of_hubs_and_the_callback_gets_all() -> None:
    metrics, clock = Metrics(), FakeClock(start_wall_ms=0)
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
    metrics, clock = Metrics(), FakeClock(start_wall_ms=0)
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
    metrics, clock = Metrics(), FakeClock(start_wall_ms=0)
    intervals, seen = _collect(metrics, clock, sample_interval_s=10)
    metrics.hub("a").bytes_in += 9
    clock.advance(5)
    intervals.stop()
    intervals.stop()
    assert [i.total.bytes_in for i in seen] == [9]
    assert clock.pending_timers == 0


def test_intervals_end_on_multiples_of_their_length_and_the_first_is_shorter() -> None:
    metrics, clock = Metrics(), FakeClock(start_wall_ms=1_000_000)
    _, seen = _collect(metrics, clock)
    clock.advance(800)
    assert [(i.start_ms, i.end_ms) for i in seen] == [
        (1_000_000, 1_200_000),
        (1_200_000, 1_500_000),
        (1_500_000, 1_800_000),
    ]


def test_a_timer_that_comes_a_little_early_or_late_still_ends_its_interval_on_the_multiple() -> (
    None
):
    metrics, clock = Metrics(), FakeClock(start_wall_ms=0)
    _, seen = _collect(metrics, clock)
    clock.jump_wall(-400)
    clock.advance(300)
    clock.jump_wall(800)
    clock.advance(300.4)
    clock.advance(299.6)
    assert [i.end_ms for i in seen] == [300_000, 600_000, 900_000]


def test_after_a_clock_jump_the_running_interval_keeps_its_length_and_the_next_is_aligned() -> None:
    metrics, clock = Metrics(), FakeClock(start_wall_ms=1_000_000)
    _, seen = _collect(metrics, clock)
    clock.jump_wall(-450_000)
    clock.advance(200)
    assert [i.end_ms for i in seen] == [750_000]
    clock.advance(150)
    assert [i.end_ms for i in seen] == [750_000, 900_000]


def test_an_idle_hub_is_in_an_interval_while_it_holds_something_and_in_none_after() -> None:
    metrics, clock = Metrics(), FakeClock(start_wall_ms=0)
    now = [HubGauges("busy", 1, 0, 0), HubGauges("idle", 2, 3, 4), HubGauges("empty", 0, 0, 0)]
    metrics.set_gauges(lambda: now)
    metrics.hub("busy").publishes += 1
    _, seen = _collect(metrics, clock)
    clock.advance(300)
    assert seen[0].levels == {"busy": HubLevels(1, 0, 0, 0), "idle": HubLevels(2, 3, 4, 3)}
    assert list(seen[0].hubs) == ["busy"]
    now = []
    clock.advance(300)
    assert seen[1].levels == {}


def test_a_hub_has_its_own_peak_of_sessions_also_when_it_closed_in_the_interval() -> None:
    metrics, clock = Metrics(), FakeClock(start_wall_ms=0)
    now = [HubGauges("a", 1, 7, 7), HubGauges("b", 1, 2, 2)]
    metrics.set_gauges(lambda: now)
    _, seen = _collect(metrics, clock, sample_interval_s=10)
    clock.advance(10)
    metrics.hub("a").sessions_ended += 7
    metrics.close_hub("a")
    now = [HubGauges("b", 1, 1, 1)]
    clock.advance(590)
    assert seen[0].levels == {"a": HubLevels(sessions_peak=7), "b": HubLevels(1, 1, 1, 2)}
    assert seen[1].levels == {"b": HubLevels(1, 1, 1, 1)}


def test_the_kept_intervals_prefer_busy_hubs_to_idle_ones() -> None:
    metrics, clock = Metrics(), FakeClock(start_wall_ms=0)
    metrics.set_gauges(lambda: [HubGauges(f"h{i:03}", 1, 1, 1) for i in range(300)])
    metrics.hub("h299").messages_in += 1
    intervals, seen = _collect(metrics, clock)
    clock.advance(300)
    assert len(seen[0].levels) == 300
    kept = intervals.kept[0]
    assert len(kept.levels) == 100
    assert "h299" in kept.levels
    assert list(kept.hubs) == ["h299"]
