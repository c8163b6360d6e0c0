"""One timer for all sessions: heartbeats, authentication deadlines and expiries.

Sessions sit in slots of one second; each tick looks at one slot only. A session says when it wants to be
looked at again. Ten thousand idle sessions cost a few hundred look-ups per second and no timers.
"""

from typing import Protocol

import structlog

from arauto.clock import Clock, Timer

__all__ = ["Timed", "TimerWheel"]

_TICK_S = 1.0

_log = structlog.get_logger("arauto.session")


class Timed(Protocol):
    """Something to be looked at now and then."""

    def on_timer(self, now_s: float) -> float:
        """Do what is due; return the seconds until the next look, or 0 to be left alone."""


class TimerWheel:
    """Looks at each item about when it asked for it: never early, at most two ticks late."""

    __slots__ = ("_clock", "_slots", "_tick", "_timer")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._slots: dict[int, list[Timed]] = {}
        self._tick = int(clock.monotonic_s() / _TICK_S)
        self._timer: Timer | None = None

    def start(self) -> None:
        self._timer = self._clock.call_later(_TICK_S, self._on_tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def schedule(self, item: Timed, delay_s: float) -> None:
        """Look at an item after at least `delay_s`. An item scheduled twice is looked at twice."""
        slot = int((self._clock.monotonic_s() + delay_s) / _TICK_S) + 1
        self._slots.setdefault(max(slot, self._tick + 1), []).append(item)

    def _on_tick(self) -> None:
        now_s = self._clock.monotonic_s()
        until = int(now_s / _TICK_S)
        while self._tick < until:
            self._tick += 1
            for item in self._slots.pop(self._tick, ()):
                try:
                    delay_s = item.on_timer(now_s)
                except Exception:
                    # Ours to mend; it must not stop the heartbeats of everyone else.
                    _log.exception("a timed item failed")
                    continue
                if delay_s > 0:
                    self.schedule(item, delay_s)
        self._timer = self._clock.call_later(_TICK_S, self._on_tick)
