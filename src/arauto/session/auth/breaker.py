"""Stops asking a service that does not answer, so that a dead one costs its clients no waiting. Pure.

After a run of failures the breaker opens: calls are refused at once for a while. Then one call is let through
as a probe; its outcome closes the breaker or opens it again.
"""

__all__ = ["Breaker"]

FAILURES_MAX = 5
OPEN_S = 5.0


class Breaker:
    """One service's record. Time comes in as an argument."""

    __slots__ = ("_failures", "_open_until_s", "_probing")

    def __init__(self) -> None:
        self._failures = 0
        self._open_until_s = 0.0
        self._probing = False

    def admits(self, now_s: float) -> bool:
        """Whether a call may be made now. If so, its outcome must be reported."""
        if self._failures < FAILURES_MAX:
            return True
        if now_s < self._open_until_s or self._probing:
            return False
        self._probing = True
        return True

    def succeeded(self) -> None:
        """The service answered, whatever it said."""
        self._failures = 0
        self._probing = False

    def failed(self, now_s: float) -> None:
        """The service did not answer, or not sensibly."""
        self._failures += 1
        self._probing = False
        if self._failures >= FAILURES_MAX:
            self._open_until_s = now_s + OPEN_S

    def abandoned(self) -> None:
        """The call ended without an outcome: the caller went away or was turned away."""
        self._probing = False
