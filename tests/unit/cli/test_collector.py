"""The collector of a serving process comes by the clock, and takes only a small share of the time."""

import gc
from collections.abc import Iterator

import pytest

from arauto.cli.collector import Collector
from arauto.testing.clock import FakeClock


class Slow(FakeClock):
    """A clock on which each whole collection takes a while."""

    took_s = 0.0

    def advance_by_collecting(self, generation: int = 2) -> int:
        self._now_ns += int(self.took_s * 1e9)
        return 0


@pytest.fixture
def collections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """When whole collections were made; nothing of it reaches the collector of this process."""
    threshold = gc.get_threshold()
    monkeypatch.setattr(gc, "freeze", lambda: None)
    yield []
    gc.set_threshold(*threshold)


def run(
    monkeypatch: pytest.MonkeyPatch, collections: list[float], took_s: float, seconds: float
) -> None:
    clock = Slow()
    clock.took_s = took_s

    def collect() -> None:
        collections.append(clock.monotonic_s())
        clock.advance_by_collecting()

    monkeypatch.setattr(gc, "collect", collect)
    collector = Collector(clock)
    collector.start()
    clock.advance(seconds)
    collector.stop()
    assert clock.pending_timers == 0


def test_what_is_left_is_collected_every_ten_minutes(
    monkeypatch: pytest.MonkeyPatch, collections: list[float]
) -> None:
    run(monkeypatch, collections, took_s=0.01, seconds=3_700)
    assert len(collections) == 1 + 6


def test_a_collection_that_takes_long_comes_less_often(
    monkeypatch: pytest.MonkeyPatch, collections: list[float]
) -> None:
    run(monkeypatch, collections, took_s=0.5, seconds=2_500 * 3)
    at_start, first, *later = collections
    assert first - at_start == pytest.approx(600.5)
    assert [b - a for a, b in zip([first, *later], later, strict=False)] == pytest.approx(
        [2_500.5] * len(later)
    )
    assert later
