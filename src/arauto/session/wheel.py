"""One timer for all sessions: heartbeats, authentication deadlines and expiries.

Sessions sit in slots of one second; each tick looks at one slot only. A session says when it wants to be
looked at again, and leaves when it ends. Ten thousand idle sessions cost a few hundred look-ups per second
and no timers.
"""

from collections import deque
from typing import Protocol

import structlog

from arauto.clock import Clock, Timer

__all__ = ["Timed", "TimerWheel"]

_TICK_S = 1.0
#: So many are looked at in one turn of the loop: those that came together are due together.
_SLICE_LEN = 200

_log = structlog.get_logger("arauto.session")


class Timed(Protocol):
    """Something to be looked at now and then."""

    def on_timer(self, now_s: float) -> float:
        """Do what is due; return the seconds until the next look, or 0 to be left alone."""


class TimerWheel:
    """Looks at each item about when it asked for it: never early, and at most two ticks late while the loop
    keeps up.

    An item has one appointment, the earliest it asked for.
    """

    __slots__ = ("_clock", "_due", "_slot_of", "_slots", "_tick", "_timer")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._slots: dict[int, dict[Timed, None]] = {}
        self._slot_of: dict[Timed, int] = {}
        self._due: deque[tuple[int, Timed]] = deque()
        """Whose tick has come, with it, and who have not been looked at yet."""
        self._tick = int(clock.monotonic_s() / _TICK_S)
        self._timer: Timer | None = None

    def start(self) -> None:
        self._timer = self._clock.call_later(_TICK_S, self._on_tick)

    def stop(self) -> None:
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def schedule(self, item: Timed, delay_s: float) -> None:
        """Look at an item after at least `delay_s`, unless it asked for an earlier look."""
        slot = int((self._clock.monotonic_s() + delay_s) / _TICK_S) + 1
        slot = max(slot, self._tick + 1)
        if self._slot_of.get(item, slot + 1) <= slot:
            return
        self.forget(item)
        self._slot_of[item] = slot
        self._slots.setdefault(slot, {})[item] = None

    def forget(self, item: Timed) -> None:
        """Look at an item no more, and do not hold it."""
        slot = self._slot_of.pop(item, 0)
        items = self._slots.get(slot)
        if items is not None:
            del items[item]
            if not items:
                del self._slots[slot]

    def _on_tick(self) -> None:
        until = int(self._clock.monotonic_s() / _TICK_S)
        was_done = not self._due
        while self._tick < until:
            self._tick += 1
            self._due.extend((self._tick, item) for item in self._slots.pop(self._tick, ()))
        if was_done:
            self._look_at_some()
        self._timer = self._clock.call_later(_TICK_S, self._on_tick)

    def _look_at_some(self) -> None:
        now_s = self._clock.monotonic_s()
        for _ in range(min(len(self._due), _SLICE_LEN)):
            tick, item = self._due.popleft()
            if self._slot_of.get(item) != tick:
                continue  # forgotten meanwhile, or by another's look
            del self._slot_of[item]
            try:
                delay_s = item.on_timer(now_s)
            except Exception:
                # Ours to mend; it must not stop the heartbeats of everyone else.
                _log.exception("a timed item failed")
                continue
            if delay_s > 0:
                self.schedule(item, delay_s)
        if self._due:
            self._clock.call_soon(self._look_at_some)
