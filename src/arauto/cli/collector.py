"""The garbage collector of a process that serves: rarely, on a timer, and never over what is there to stay.

What closes in a node is freed by counting references. The collector is for what was overlooked, here or in a
library; `python_gc_objects_collected_total` tells how much that is.
"""

import gc

from arauto.clock import Clock, Timer

__all__ = ["Collector"]

#: New container objects between two young collections. A message makes some; at the default of 700 a busy
#: node spends a third of its time looking through what it still needs.
_YOUNG = 50_000
#: A whole collection holds the loop, the longer the more sessions there are. So it comes by the clock, and
#: takes no more than this share of the time.
_INTERVAL_S = 600.0
_SHARE_MAX = 1 / 5_000


class Collector:
    """Collects everything now and then."""

    __slots__ = ("_clock", "_timer")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer: Timer | None = None

    def start(self) -> None:
        """Call once, when everything that lives as long as the process has been made."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(_YOUNG, 20, 50)
        self._timer = self._clock.call_later(_INTERVAL_S, self._collect)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _collect(self) -> None:
        started_s = self._clock.monotonic_s()
        gc.collect()
        took_s = self._clock.monotonic_s() - started_s
        wait_s = max(_INTERVAL_S, took_s / _SHARE_MAX)
        self._timer = self._clock.call_later(wait_s, self._collect)
