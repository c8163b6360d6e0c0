"""Work that fails is started again, ever later, and ends when it is told to."""

from collections.abc import Callable
from threading import Event

import pytest

from arauto.errors import ArautoError, Code
from arauto.pipeline.worker import Worker, lies_in_no_row

#: A run that lasts this long counts as a success.
_STEADY_S = 120.0


class _Moments(Event):
    """Waits take no time and are written down; it is set within the last of them."""

    def __init__(self, waits_max: int) -> None:
        super().__init__()
        self._waits_max = waits_max
        self.waits: list[float | None] = []
        self.on_wait: Callable[[], None] = lambda: None

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        self.on_wait()
        if len(self.waits) >= self._waits_max:
            self.set()
        return self.is_set()


class _Failing:
    """Work whose runs last as long as told and then fail, on a clock that it moves itself."""

    def __init__(self, *lasts_s: float, says: str = "no") -> None:
        self._lasts_s = list(lasts_s)
        self._says = says
        self.now_s = 1_000.0
        self.runs = 0

    def __call__(self) -> None:
        self.runs += 1
        self.now_s += self._lasts_s.pop(0) if self._lasts_s else 0.0
        raise RuntimeError(self._says)


def _worker(
    work: Callable[[], None],
    stop: Event,
    *,
    on_restart: Callable[[str], None] = lambda name: None,
    now_s: Callable[[], float] = lambda: 0.0,
) -> Worker:
    return Worker("archive", work, stop, on_restart, now_s)


def test_waits_double_from_a_second_to_a_minute_and_a_stop_within_one_ends_it() -> None:
    stop, work = _Moments(9), _Failing()
    _worker(work, stop, now_s=lambda: work.now_s).run()
    assert stop.waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert work.runs == 9


@pytest.mark.parametrize(
    ("lasts_s", "waits"),
    [
        (_STEADY_S, [1, 2, 4, 1, 2]),
        (_STEADY_S - 0.5, [1, 2, 4, 8, 16]),
    ],
    ids=["long enough", "too short"],
)
def test_a_run_of_two_minutes_makes_the_next_wait_short_again(
    lasts_s: float, waits: list[float]
) -> None:
    stop, work = _Moments(5), _Failing(0, 0, 0, lasts_s)
    _worker(work, stop, now_s=lambda: work.now_s).run()
    assert stop.waits == waits


@pytest.mark.parametrize(
    ("says", "failure"),
    [
        ("\n  Job aborted.  \n\tat org.apache.spark.Some.thing\n", "Job aborted."),
        (
            "Job aborted.\n  arauto.errors.ArautoError: [LAKE_CORRUPT] no\nArautoError: [X] later",
            "arauto.errors.ArautoError: [LAKE_CORRUPT] no",
        ),
        (
            "Job aborted.\nCaused by: a\n\tat x\nCaused by: disk full\n\tat y",
            "Caused by: disk full",
        ),
        (" \n", "RuntimeError"),
        ("x" * 501, "x" * 500),
    ],
    ids=["first line", "own error", "last cause", "no text", "long"],
)
def test_while_it_waits_the_failure_is_told_in_one_line_our_own_error_before_all(
    says: str, failure: str
) -> None:
    stop, seen = _Moments(1), []
    stop.on_wait = lambda: seen.append(worker.failure)
    worker = _worker(_Failing(says=says), stop)
    worker.run()
    assert seen == [failure]


def test_work_that_runs_again_shows_no_failure_any_more() -> None:
    stop, seen = _Moments(9), []

    def work() -> None:
        seen.append(worker.failure)
        if len(seen) == 1:
            raise RuntimeError("no")
        stop.set()

    worker = _worker(work, stop)
    worker.run()
    assert (seen, worker.failure) == (["", ""], "")


def test_every_restart_is_told_before_the_work_goes_on() -> None:
    stop, told = _Moments(9), []

    def work() -> None:
        told.append("work")
        if told.count("work") == 3:
            stop.set()
            return
        raise RuntimeError("no")

    _worker(work, stop, on_restart=told.append).run()
    assert told == ["work", "archive", "work", "archive", "work"]


def test_work_that_returns_early_is_called_again_without_a_wait_or_a_restart() -> None:
    stop, told = _Moments(9), []

    def work() -> None:
        told.append("work")
        if len(told) == 3:
            stop.set()

    _worker(work, stop, on_restart=told.append).run()
    assert (told, stop.waits) == (["work"] * 3, [])


def test_a_failure_while_it_stops_is_no_failure_and_no_restart() -> None:
    stop = _Moments(9)
    told: list[str] = []

    def work() -> None:
        stop.set()
        raise RuntimeError("the query was cut off")

    worker = _worker(work, stop, on_restart=told.append)
    worker.run()
    assert (worker.failure, told, stop.waits) == ("", [], [])


def test_a_worker_stopped_before_it_began_does_nothing() -> None:
    stop, work = _Moments(9), _Failing()
    stop.set()
    _worker(work, stop).run()
    assert work.runs == 0


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ("Job aborted.\n  arauto.errors.ArautoError: [NODE_UNREACHABLE] no", True),
        ("Job aborted.\nCaused by: java.io.IOException: No space left on device\n\tat x", True),
        (
            "Task failed.\nCaused by: org.rocksdb.RocksDBException: While appending to file: "
            "/lake/000.sst: No space left on device",
            True,
        ),
        ("OSError: [Errno 30] Read-only file system: '/lake/_checkpoints'", True),
        ("OSError: [Errno 122] Disk quota exceeded", True),
        ("Job aborted.\nCaused by: java.lang.OutOfMemoryError: Java heap space", False),
        ("Python worker exited unexpectedly (crashed)", False),
        ("a row says: No space left on device", False),
    ],
)
def test_a_failure_that_says_what_is_wrong_lies_in_no_row(says: str, expected: bool) -> None:
    assert lies_in_no_row(RuntimeError(says)) is expected
    assert lies_in_no_row(ArautoError(Code.LAKE_BUSY, says))
