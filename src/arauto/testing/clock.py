"""A clock that moves only when a test says so. Fits the `arauto.clock.Clock` port.

Time is kept in whole nanoseconds, so a thousand steps of 0.1 s are exactly 100 s. Callbacks run on the
caller's stack inside `advance` or `run_soon`; what they raise reaches the test.
"""

import heapq
from collections import deque
from collections.abc import Callable

__all__ = ["FakeClock", "FakeTimer"]

_NS = 1_000_000_000
_CALLS_MAX = 1_000_000


class FakeTimer:
    """A pending call of a `FakeClock`."""

    __slots__ = ("_clock", "callback", "due_ns", "order")

    def __init__(
        self, clock: "FakeClock", due_ns: int, order: int, callback: Callable[[], object]
    ) -> None:
        self._clock = clock
        self.due_ns = due_ns
        self.order = order
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self._clock._live -= 1

    def __lt__(self, other: "FakeTimer") -> bool:
        return (self.due_ns, self.order) < (other.due_ns, other.order)


class FakeClock:
    """Wall and monotonic time under a test's control.

    Timers run in order of their due time, and in order of creation where those are equal. Whatever was
    passed to `call_soon` runs before any timer that is due later, as on a real event loop.

    Args:
        start_wall_ms: where the wall clock starts; monotonic time starts at 0.
        calls_max: callbacks one `advance` or `run_soon` may run before it gives up on a runaway loop.
    """

    __slots__ = ("_calls_max", "_live", "_now_ns", "_order", "_soon", "_timers", "_wall_offset_ms")

    def __init__(
        self, start_wall_ms: int = 1_700_000_000_000, *, calls_max: int = _CALLS_MAX
    ) -> None:
        self._now_ns = 0
        self._wall_offset_ms = start_wall_ms
        self._soon: deque[Callable[[], object]] = deque()
        self._timers: list[FakeTimer] = []
        self._order = 0
        self._live = 0
        self._calls_max = calls_max

    # The port.

    def wall_ms(self) -> int:
        return self._wall_offset_ms + self._now_ns // 1_000_000

    def monotonic_s(self) -> float:
        return self._now_ns / _NS

    def fine_ns(self) -> int:
        return self._now_ns

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> FakeTimer:
        due_ns = self._now_ns + max(0, round(delay_s * _NS))
        self._order += 1
        timer = FakeTimer(self, due_ns, self._order, callback)
        heapq.heappush(self._timers, timer)
        self._live += 1
        return timer

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._soon.append(callback)

    # The test's side.

    def advance(self, seconds: float) -> int:
        """Move both clocks forward and run everything due on the way, `call_soon` callbacks included.

        Returns:
            How many callbacks ran.

        Raises:
            ValueError: time does not go back; use `jump_wall` for that.
            RuntimeError: callbacks kept scheduling more work at the same instant.
        """
        if seconds < 0:
            raise ValueError("advance() goes forward only; jump_wall() moves the wall clock back")
        target_ns = self._now_ns + round(seconds * _NS)
        ran = self._drain_soon(0)
        while True:
            timer = self._pop_due(target_ns)
            if timer is None:
                break
            self._now_ns = max(self._now_ns, timer.due_ns)
            callback = timer.callback
            timer.cancel()  # it counts as run from here on: cancelling it again does nothing
            ran = self._count(ran)
            if callback is not None:
                callback()
            ran = self._drain_soon(ran)
        self._now_ns = target_ns
        return ran

    def run_soon(self) -> int:
        """Run the `call_soon` callbacks, and those they add, without moving time.

        Returns:
            How many callbacks ran.

        Raises:
            RuntimeError: callbacks kept adding more.
        """
        return self._drain_soon(0)

    def run_turn(self) -> None:
        """Run the `call_soon` callbacks that are there, as one turn of the loop does: those they add wait."""
        for _ in range(len(self._soon)):
            self._soon.popleft()()

    def jump_wall(self, ms: int) -> None:
        """Move the wall clock alone, in either direction, as a time server's correction would."""
        self._wall_offset_ms += ms

    @property
    def pending_timers(self) -> int:
        """Timers that have neither run nor been cancelled."""
        return self._live

    @property
    def pending_soon(self) -> int:
        """`call_soon` callbacks that have not run."""
        return len(self._soon)

    def _pop_due(self, target_ns: int) -> FakeTimer | None:
        timers = self._timers
        while timers and (timers[0].callback is None or timers[0].due_ns <= target_ns):
            timer = heapq.heappop(timers)
            if timer.callback is not None:
                return timer
        return None

    def _drain_soon(self, ran: int) -> int:
        while self._soon:
            ran = self._count(ran)
            self._soon.popleft()()
        return ran

    def _count(self, ran: int) -> int:
        if ran >= self._calls_max:
            raise RuntimeError(f"more than {self._calls_max} callbacks in one step: a runaway loop")
        return ran + 1
