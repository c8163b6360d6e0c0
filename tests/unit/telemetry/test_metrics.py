"""Counting, summing and cutting into intervals."""

from collections.abc import Callable, Iterator
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.errors import Code
from arauto.telemetry.counters import COUNTER_FIELDS, TIMING_BOUNDS_NS, Counters, Timing
from arauto.telemetry.intervals import HubLevels, Interval, Intervals
from arauto.telemetry.metrics import SLICE_LEN, HubGauges, Metrics, Totals
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


# Ten thousand hubs: a little in each turn, and the sums are whole all the same.


class _Turns(FakeClock):
    """A clock that does something between any two turns."""

    __slots__ = ("between", "count")

    def __init__(self, between: Callable[[], object]) -> None:
        super().__init__(start_wall_ms=0)
        self.between = between
        self.count = 0

    def call_soon(self, callback: Callable[[], object], /) -> None:
        def turn() -> None:
            self.between()
            self.count += 1
            callback()

        super().call_soon(turn)


def _watched(metrics: Metrics, hubs_len: int) -> list[int]:
    """Hubs looked at, one entry per turn; the last is the one under way."""
    looks = [0]

    class Watched(Counters):
        __slots__ = ()

        @property
        def signature(self) -> tuple[object, ...]:
            looks[-1] += 1
            return super().signature

    def gauges() -> Iterator[HubGauges]:
        for number in range(hubs_len):
            looks[-1] += 1
            yield HubGauges(f"h{number}", 1, 1, 1)

    metrics.set_gauges(gauges)
    for number in range(hubs_len):
        metrics._hubs[f"h{number}"] = Watched()
        metrics.hub(f"h{number}").publishes += 1
    return looks


def test_a_cut_and_a_sample_look_at_few_hubs_in_each_turn() -> None:
    metrics = Metrics()
    looks = _watched(metrics, 2_000)
    clock = _Turns(lambda: looks.append(0))
    _, seen = _collect(metrics, clock, sample_interval_s=100)
    clock.advance(300)
    assert max(looks) <= SLICE_LEN
    assert sum(looks) == 2_000 * (1 + 1 + 3), "each counted once, each gauge once per look"
    assert seen[0].total.publishes == len(seen[0].hubs) == 2_000
    assert seen[0].gauges.hubs == 2_000


def test_the_steps_of_who_receives_an_interval_are_taken_in_turns_too() -> None:
    taken: list[int] = []
    clock = _Turns(lambda: None)

    def receive(interval: Interval) -> Iterator[None]:
        for _ in range(5):
            taken.append(clock.count)
            yield

    intervals = Intervals(Metrics(), clock, on_interval=receive)
    intervals.start()
    clock.advance(300)
    assert len(set(taken)) == 5
    intervals.cut()
    assert len(taken) == 10, "or at once"


def test_an_interval_whose_receiver_fails_holds_up_no_later_one() -> None:
    seen: list[Interval] = []
    clock = FakeClock(start_wall_ms=0)

    def receive(interval: Interval) -> None:
        seen.append(interval)
        if len(seen) == 1:
            raise RuntimeError("made up")

    intervals = Intervals(Metrics(), clock, on_interval=receive)
    intervals.start()
    with pytest.raises(RuntimeError):
        clock.advance(300)
    clock.advance(300)
    assert len(seen) == 2


_moves = st.lists(
    st.tuples(st.sampled_from(["count", "close", "reopen", "nothing"]), st.integers(0, 7)),
    max_size=40,
)


@given(_moves, st.integers(0, 3))
def test_what_happens_between_the_turns_of_a_cut_is_counted_once(
    moves: list[tuple[str, int]], closed_max: int
) -> None:
    metrics = Metrics(closed_max=closed_max)
    left = list(moves)

    def between() -> None:
        for _ in range(3):
            if not left:
                return
            what, number = left.pop()
            metrics.node.publishes += 1
            if what == "count":
                metrics.hub(f"h{number}").publishes += 10 + number
            elif what == "close":
                metrics.close_hub(f"h{number}")
            elif what == "reopen":
                metrics.close_hub(f"h{number}")
                metrics.hub(f"h{number}").publishes += 100

    clock = _Turns(between)
    with patch("arauto.telemetry.intervals.SLICE_LEN", 1):
        intervals, seen = _collect(metrics, clock)
        for number in range(0, 8, 2):
            metrics.hub(f"h{number}").publishes += 1
        clock.advance(300 * 6)
        between()
        intervals.stop()
    assert sum(each.total.publishes for each in seen) == metrics.total().publishes
    in_hubs = sum(hub.publishes for each in seen for hub in each.hubs.values())
    assert in_hubs <= metrics.total().publishes - metrics.node.publishes
    if closed_max == 3 and not any(what != "count" for what, _ in moves):
        assert in_hubs == metrics.total().publishes - metrics.node.publishes
    assert all(hub.publishes >= 0 for each in seen for hub in each.hubs.values())
    assert set(intervals._hubs_at) <= {*dict(metrics.hubs()).values()}, "nothing else is remembered"
