"""Replays come on time, and give way to live traffic. All on a clock of the test's own."""

import pytest

from arauto.pipeline.replay.pace import RATE_MIN, Pace, Schedule


@pytest.mark.parametrize(
    ("speed", "due_s"), [(1.0, 110.0), (2.0, 105.0), (0.5, 120.0), (10.0, 101.0), (0.0, 100.0)]
)
def test_messages_are_due_as_far_apart_as_they_were_divided_by_the_speed(
    speed: float, due_s: float
) -> None:
    schedule = Schedule(speed, first_ms=50_000, start_s=100.0)
    assert schedule.due_s(50_000) == 100.0
    assert schedule.due_s(60_000) == due_s


class Driver:
    """Publishes as fast as a pace lets it, to a node that answers as the test says."""

    def __init__(self, rate_max: float) -> None:
        self.now_s = 1_000.0
        self.pace = Pace(rate_max, self.now_s)
        self.sent = 0

    def send(self, count: int = 1, latency_s: float = 0.005, *, refused: bool = False) -> None:
        while (wait_s := self.pace.wait_s(count, self.now_s)) > 0:
            self.now_s += wait_s
        self.pace.take(count, self.now_s)
        self.now_s += latency_s
        if refused:
            self.pace.refused(self.now_s)
        else:
            self.sent += count
            self.pace.answered(latency_s, self.now_s)

    def send_for(self, seconds: float, latency_s: float = 0.005, count: int = 1) -> float:
        """Messages a second over some time."""
        end_s, sent, start_s = self.now_s + seconds, self.sent, self.now_s
        while self.now_s < end_s:
            self.send(count, latency_s)
        return (self.sent - sent) / (self.now_s - start_s)


def test_it_starts_gently_and_reaches_its_largest_rate() -> None:
    driver = Driver(100)
    assert driver.pace.rate_per_s == 25
    driver.send_for(30)
    assert driver.pace.rate_per_s == 100


@pytest.mark.parametrize("count", [1, 7, 20, 100])
def test_the_largest_rate_is_kept_and_used_whatever_the_batches(count: int) -> None:
    driver = Driver(100)
    driver.send_for(60, count=count)
    assert driver.send_for(60, count=count) == pytest.approx(100, rel=0.05)


def test_silence_saves_up_no_more_than_a_small_burst() -> None:
    driver = Driver(100)
    driver.send_for(30)
    driver.now_s += 3_600
    start_s = driver.now_s
    for _ in range(100):
        driver.send(latency_s=0.0)
    assert driver.now_s - start_s == pytest.approx(0.8, abs=0.05)


def test_a_refusal_halves_the_rate_and_waits() -> None:
    driver = Driver(100)
    driver.send_for(30)
    driver.send(refused=True)
    assert driver.pace.rate_per_s == 50
    assert driver.pace.wait_s(1, driver.now_s) >= 0.099


def test_refusals_in_a_row_wait_longer_each_time_up_to_a_bound() -> None:
    driver = Driver(100)
    waits = []
    for _ in range(10):
        driver.send(refused=True)
        waits.append(driver.pace.wait_s(1, driver.now_s))
    assert waits[:6] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2])
    assert waits[-1] == pytest.approx(5.0)


def test_several_answers_to_one_trouble_cut_once() -> None:
    driver = Driver(100)
    driver.send_for(30)
    for _ in range(3):
        driver.pace.refused(driver.now_s)
    assert driver.pace.rate_per_s == 50


def test_one_slow_answer_is_no_trend() -> None:
    driver = Driver(100)
    driver.send_for(30)
    driver.send(latency_s=0.12)
    assert driver.pace.rate_per_s == 100


def test_a_node_that_slows_down_is_given_room_and_used_again_when_it_recovers() -> None:
    driver = Driver(400)
    driver.send_for(60)
    slow = driver.send_for(8, latency_s=0.3)
    assert driver.pace.rate_per_s < 100
    assert slow < 100
    driver.send_for(60)
    assert driver.pace.rate_per_s == 400


def test_a_node_that_stays_slower_is_not_punished_for_ever() -> None:
    driver = Driver(400)
    driver.send_for(60)
    driver.send_for(600, latency_s=0.2, count=20)
    assert driver.pace.rate_per_s > 200


def test_trouble_never_stops_it_altogether() -> None:
    driver = Driver(100)
    for _ in range(100):
        driver.send(refused=True)
    assert driver.pace.rate_per_s == RATE_MIN


def test_a_rate_below_one_a_second_is_not_possible() -> None:
    assert Pace(0.0, 0.0).rate_per_s == RATE_MIN
