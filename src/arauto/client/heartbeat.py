"""Notices a connection that died in silence. One timer, no task.

Twice per interval it looks at what was heard and said since the last look. Whoever said nothing for an
interval says Ping, so that the node hears something; who heard nothing for two and a half intervals, in
which a Ping must have been answered, takes the connection for lost.
"""

from collections.abc import Callable

from arauto.client.wire import Wire
from arauto.clock import Clock, Timer

__all__ = ["Heartbeat"]

_LOOKS_PER_INTERVAL = 2
_SILENT_LOOKS_MAX = 5


class Heartbeat:
    """Watches one wire until stopped."""

    __slots__ = ("_clock", "_look_s", "_lost", "_ping", "_quiet", "_silent", "_timer", "_wire")

    def __init__(
        self,
        clock: Clock,
        wire: Wire,
        interval_s: float,
        *,
        ping: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._wire = wire
        self._look_s = interval_s / _LOOKS_PER_INTERVAL
        self._ping = ping
        self._lost = lost
        self._silent = 0
        self._quiet = 0
        self._timer: Timer = clock.call_later(self._look_s, self._look)

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        wire = self._wire
        self._silent = 0 if wire.heard else self._silent + 1
        self._quiet = 0 if wire.spoke else self._quiet + 1
        wire.heard = wire.spoke = False
        if self._silent >= _SILENT_LOOKS_MAX:
            self._lost()
            return
        if max(self._silent, self._quiet) >= _LOOKS_PER_INTERVAL:
            self._ping()
        self._timer = self._clock.call_later(self._look_s, self._look)
