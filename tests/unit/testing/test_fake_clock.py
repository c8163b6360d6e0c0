"""The fake clock obeys the port, or every test that leans on it is worthless."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.clock import Clock
from arauto.testing import FakeClock


def test_it_fits_the_clock_port() -> None:
    clock: Clock = FakeClock(start_wall_ms=5_000)
    assert clock.wall_ms() == 5_000
    assert clock.monotonic_s() == 0.0


def test_advance_moves_wall_and_monotonic_together() -> None:
    clock = FakeClock(start_wall_ms=1_000)
    clock.advance(2.5)
    assert clock.wall_ms() == 3_500
    assert clock.monotonic_s() == 2.5


def test_jump_wall_leaves_monotonic_and_timers_alone() -> None:
    clock = FakeClock(start_wall_ms=10_000)
    ran: list[str] = []
    clock.call_later(1, lambda: ran.append("timer"))
    clock.jump_wall(-9_000)
    assert clock.wall_ms() == 1_000
    assert clock.monotonic_s() == 0.0
    clock.advance(0.999)
    assert ran == []
    clock.advance(0.001)
    assert ran == ["timer"]


def test_timers_run_in_due_order_and_see_their_own_time() -> None:
    clock = FakeClock()
    seen: list[tuple[str, float]] = []
    clock.call_later(2, lambda: seen.append(("b", clock.monotonic_s())))
    clock.call_later(1, lambda: seen.append(("a", clock.monotonic_s())))
    clock.call_later(3, lambda: seen.append(("c", clock.monotonic_s())))
    assert clock.advance(2) == 2
    assert seen == [("a", 1.0), ("b", 2.0)]
    assert clock.pending_timers == 1


def test_equal_due_times_run_in_order_of_creation() -> None:
    clock = FakeClock()
    ran: list[int] = []
    for i in range(50):
        clock.call_later(1, lambda i=i: ran.append(i))  # type: ignore[misc]
    clock.advance(1)
    assert ran == list(range(50))


def test_a_timer_set_by_a_timer_runs_in_the_same_advance_if_due() -> None:
    clock = FakeClock()
    seen: list[float] = []

    def tick() -> None:
        seen.append(clock.monotonic_s())
        clock.call_later(1, tick)

    clock.call_later(1, tick)
    clock.advance(3.5)
    assert seen == [1.0, 2.0, 3.0]


def test_call_soon_waits_for_run_soon_and_keeps_order() -> None:
    clock = FakeClock()
    ran: list[str] = []

    def first() -> None:
        ran.append("a")
        clock.call_soon(lambda: ran.append("c"))

    clock.call_soon(first)
    clock.call_soon(lambda: ran.append("b"))
    assert ran == []
    assert clock.pending_soon == 2
    assert clock.run_soon() == 3
    assert ran == ["a", "b", "c"]


def test_call_soon_from_a_timer_runs_before_the_next_timer() -> None:
    clock = FakeClock()
    ran: list[str] = []
    clock.call_later(1, lambda: clock.call_soon(lambda: ran.append("soon")))
    clock.call_later(2, lambda: ran.append("late"))
    clock.advance(5)
    assert ran == ["soon", "late"]


def test_a_cancelled_timer_never_runs_and_cancelling_again_is_harmless() -> None:
    clock = FakeClock()
    ran: list[str] = []
    timer = clock.call_later(1, lambda: ran.append("x"))
    timer.cancel()
    timer.cancel()
    clock.advance(2)
    assert ran == []
    assert clock.pending_timers == 0


def test_cancelling_after_the_run_or_inside_the_callback_is_harmless() -> None:
    clock = FakeClock()
    timer = clock.call_later(1, lambda: timer.cancel())
    clock.advance(1)
    timer.cancel()
    assert clock.pending_timers == 0


def test_a_timer_may_cancel_one_due_at_the_same_instant() -> None:
    clock = FakeClock()
    ran: list[str] = []
    clock.call_later(1, lambda: second.cancel())
    second = clock.call_later(1, lambda: ran.append("second"))
    clock.advance(1)
    assert ran == []


def test_zero_and_negative_delays_run_at_the_next_advance() -> None:
    clock = FakeClock()
    ran: list[str] = []
    clock.call_later(0, lambda: ran.append("zero"))
    clock.call_later(-5, lambda: ran.append("past"))
    clock.advance(0)
    assert ran == ["zero", "past"]
    assert clock.monotonic_s() == 0.0


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="forward"):
        FakeClock().advance(-1)


def test_a_runaway_soon_loop_is_stopped() -> None:
    clock = FakeClock(calls_max=100)

    def again() -> None:
        clock.call_soon(again)

    clock.call_soon(again)
    with pytest.raises(RuntimeError, match="runaway"):
        clock.run_soon()


def test_a_runaway_zero_delay_timer_is_stopped() -> None:
    clock = FakeClock(calls_max=100)

    def again() -> None:
        clock.call_later(0, again)

    again()
    with pytest.raises(RuntimeError, match="runaway"):
        clock.advance(1)


def test_what_a_callback_raises_reaches_the_test_and_the_clock_goes_on() -> None:
    clock = FakeClock()
    ran: list[str] = []

    def broken() -> None:
        raise LookupError("planted")

    clock.call_later(1, broken)
    clock.call_later(2, lambda: ran.append("after"))
    with pytest.raises(LookupError, match="planted"):
        clock.advance(5)
    assert clock.monotonic_s() == 1.0
    clock.advance(4)
    assert ran == ["after"]


def test_many_small_steps_add_up_exactly() -> None:
    clock = FakeClock(start_wall_ms=0)
    for _ in range(1_000):
        clock.advance(0.1)
    assert clock.wall_ms() == 100_000
    assert clock.monotonic_s() == 100.0


@given(
    delays=st.lists(st.integers(0, 50), max_size=30),
    steps=st.lists(st.integers(0, 20), max_size=20),
)
def test_any_split_of_the_same_time_runs_the_same_timers(
    delays: list[int], steps: list[int]
) -> None:
    def run(clock: FakeClock) -> list[tuple[int, float]]:
        seen: list[tuple[int, float]] = []
        for i, delay in enumerate(delays):
            clock.call_later(delay, lambda i=i: seen.append((i, clock.monotonic_s())))  # type: ignore[misc]
        return seen

    whole, split = FakeClock(), FakeClock()
    seen_whole, seen_split = run(whole), run(split)
    whole.advance(sum(steps))
    for step in steps:
        split.advance(step)
    if not steps:
        split.advance(0)
    assert seen_whole == seen_split
    assert seen_whole == sorted(seen_whole, key=lambda item: (item[1], item[0]))
    assert whole.pending_timers == split.pending_timers == sum(d > sum(steps) for d in delays)
