"""Time enters Arauto here and nowhere else, so that tests and the simulated cluster can own it."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["Clock", "SystemClock", "Timer"]


class Timer(Protocol):
    """A pending call; cancelling twice or after it ran does nothing."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Wall time, monotonic time and deferred calls. Single-threaded: callbacks run on the event loop.

    `call_soon` callbacks run in order, after the caller returns and before any timer due later.
    """

    def wall_ms(self) -> int:
        """Milliseconds since 1970, UTC. May jump."""

    def monotonic_s(self) -> float:
        """Seconds from some start. Never goes back. As the event loop counts, in steps of a millisecond."""

    def fine_ns(self) -> int:
        """Nanoseconds from some other start, as finely as the machine tells. For measuring what is short."""

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer: ...

    def call_soon(self, callback: Callable[[], object], /) -> object: ...


class SystemClock:
    """The real clock of the running event loop."""

    __slots__ = ("_loop", "call_soon", "fine_ns", "monotonic_s")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self.monotonic_s: Callable[[], float] = self._loop.time
        self.fine_ns: Callable[[], int] = time.perf_counter_ns
        self.call_soon: Callable[[Callable[[], object]], object] = self._loop.call_soon

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        return self._loop.call_later(delay_s, callback)
