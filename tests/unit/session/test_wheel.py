"""The timer wheel looks at everything in time, and one item's mistake costs nobody else theirs."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.session.wheel import TimerWheel
from arauto.testing.clock import FakeClock


class Item:
    """Notes when it was looked at; asks for the next looks it was told to ask for."""

    def __init__(self, clock: FakeClock, *again_s: float) -> None:
        self.clock = clock
        self.again_s = list(again_s)
        self.seen_s: list[float] = []

    def on_timer(self, now_s: float) -> float:
        assert now_s == self.clock.monotonic_s()
        self.seen_s.append(now_s)
        return self.again_s.pop(0) if self.again_s else 0


class Broken(Item):
    def on_timer(self, now_s: float) -> float:
        super().on_timer(now_s)
        raise RuntimeError("a planted mistake")


def started(clock: FakeClock) -> TimerWheel:
    wheel = TimerWheel(clock)
    wheel.start()
    return wheel


delays = st.floats(0.001, 50, allow_nan=False)


@given(st.floats(0, 3), st.lists(st.tuples(st.floats(0, 5), delays), min_size=1, max_size=20))
def test_nothing_is_looked_at_early_or_more_than_two_ticks_late(
    start_s: float, asked: list[tuple[float, float]]
) -> None:
    clock = FakeClock()
    clock.advance(start_s)
    wheel = started(clock)
    items = []
    for pause_s, delay_s in asked:
        clock.advance(pause_s)
        items.append((Item(clock), clock.monotonic_s() + delay_s))
        wheel.schedule(items[-1][0], delay_s)
    clock.advance(60)
    for item, due_s in items:
        [seen_s] = item.seen_s
        assert due_s - 1e-6 <= seen_s <= due_s + 2.0 + 1e-6


@given(st.lists(delays, max_size=6))
def test_an_item_is_looked_at_once_for_every_time_it_asked(again_s: list[float]) -> None:
    clock = FakeClock()
    wheel = started(clock)
    item = Item(clock, *again_s)
    wheel.schedule(item, 1)
    clock.advance(500)
    assert len(item.seen_s) == len(again_s) + 1
    assert item.seen_s == sorted(item.seen_s)


def test_an_item_that_wants_to_be_left_alone_is_let_go() -> None:
    clock = FakeClock()
    wheel = started(clock)
    for _ in range(100):
        wheel.schedule(Item(clock), 5)
    clock.advance(10)
    assert not wheel._slots


def test_one_items_mistake_costs_nobody_else_their_look(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    wheel = started(clock)
    before, broken, after, later = Item(clock, 5), Broken(clock), Item(clock, 5), Item(clock)
    for item in (before, broken, after):
        wheel.schedule(item, 1)
    wheel.schedule(later, 20)
    with caplog.at_level(logging.CRITICAL):
        clock.advance(30)
    assert [len(item.seen_s) for item in (before, broken, after, later)] == [2, 1, 2, 1]


def test_a_late_tick_looks_at_everything_that_was_due_meanwhile() -> None:
    clock = FakeClock()
    wheel = TimerWheel(clock)
    items = [Item(clock) for _ in range(30)]
    for second, item in enumerate(items):
        wheel.schedule(item, second)
    clock.advance(40)  # the loop was busy: no tick came in all this time
    wheel.start()
    clock.advance(1)
    assert all(len(item.seen_s) == 1 for item in items)


def test_a_stopped_wheel_looks_at_nothing_more() -> None:
    clock = FakeClock()
    wheel = started(clock)
    item = Item(clock, 1, 1, 1)
    wheel.schedule(item, 1)
    clock.advance(3)
    wheel.stop()
    looks = len(item.seen_s)
    clock.advance(30)
    assert len(item.seen_s) == looks
    assert clock.pending_timers == 0


def test_an_item_that_asks_again_is_looked_at_once_when_it_asked_for_first() -> None:
    clock = FakeClock()
    wheel = started(clock)
    item = Item(clock)
    for delay_s in (20, 5, 30):
        wheel.schedule(item, delay_s)
    clock.advance(60)
    [seen_s] = item.seen_s
    assert 5 <= seen_s <= 7


def test_a_forgotten_item_is_looked_at_no_more_and_not_held() -> None:
    clock = FakeClock()
    wheel = started(clock)
    item = Item(clock)
    wheel.schedule(item, 5)
    wheel.forget(item)
    wheel.forget(item)
    assert not wheel._slots
    assert not wheel._slot_of
    clock.advance(60)
    assert item.seen_s == []


def test_an_item_may_be_forgotten_by_the_look_at_another() -> None:
    clock = FakeClock()
    wheel = started(clock)
    gone, again = Item(clock), Item(clock)

    class Forgets(Item):
        def on_timer(self, now_s: float) -> float:
            wheel.forget(gone)
            wheel.forget(again)
            wheel.schedule(again, 10)
            return super().on_timer(now_s)

    for item in (Forgets(clock), gone, again):
        wheel.schedule(item, 1)
    clock.advance(60)
    assert gone.seen_s == []
    [seen_s] = again.seen_s
    assert seen_s >= 11
