"""How fast to publish: when each message is due, and how much the node can take beside its live traffic.

Pure: times come in as arguments. The rate grows steadily while the node answers quickly, and falls by a
factor when it refuses or slows down: live traffic, which does not give way, wins.
"""

__all__ = ["RATE_MIN", "Pace", "Schedule"]

RATE_MIN = 1.0

#: Answers quicker than this are never called slow.
_QUICK_S = 0.05
#: How many times slower than the best an answer may be.
_SLOW_FACTOR = 3.0
#: The best answer counts as twice as slow after this time, so that a node that has become slower is not
#: punished for ever.
_FORGET_S = 60.0
#: Weight of the newest answer: one hiccup is no trend.
_NEWEST = 0.3
_CUT_SLOW, _CUT_REFUSED = 0.7, 0.5
#: Answers to what was sent before a cut say nothing about the rate after it.
_CUT_PAUSE_S = 1.0
#: Of the largest rate, per second.
_GROWTH = 0.05
_START = 0.25
#: How much of a second's messages may go at once.
_BURST_S = 0.2
_HOLD_FIRST_S, _HOLD_MOST_S = 0.1, 5.0


class Schedule:
    """When messages are due: as far apart as they were, divided by the speed.

    Args:
        speed: how many times as fast; 0 = everything is due at once.
        first_ms: when the first message was published.
        start_s: when it is published again.
    """

    __slots__ = ("_first_ms", "_speed", "_start_s")

    def __init__(self, speed: float, first_ms: int, start_s: float) -> None:
        self._speed = speed
        self._first_ms = first_ms
        self._start_s = start_s

    def due_s(self, ts_ms: int) -> float:
        """When a message of `ts_ms` is due."""
        if not self._speed:
            return self._start_s
        return self._start_s + (ts_ms - self._first_ms) / 1000 / self._speed


class Pace:
    """A token bucket whose rate follows what the node can take.

    Args:
        rate_max: messages a second, at most.
        now_s: the time.
    """

    def __init__(self, rate_max: float, now_s: float) -> None:
        self.rate_max = max(RATE_MIN, rate_max)
        self.rate_per_s = max(RATE_MIN, self.rate_max * _START)
        self._tokens = 1.0
        self._tokens_s = self._answered_s = now_s
        self._cut_s = now_s - _CUT_PAUSE_S
        self._best_s = self._smooth_s = 0.0
        self._holds = 0
        self._hold_s = now_s

    @property
    def burst(self) -> int:
        """How many messages may go at once."""
        return max(1, int(self.rate_per_s * _BURST_S))

    def wait_s(self, count: int, now_s: float) -> float:
        """How long to wait before `count` messages may go; 0 = now."""
        self._refill(now_s)
        missing = min(count, self.burst) - self._tokens
        wait_s = max(0.0, missing / self.rate_per_s, self._hold_s - now_s)
        # Less than this is rounding; asking again for it could go on for ever.
        return wait_s if wait_s > 1e-6 else 0.0

    def take(self, count: int, now_s: float) -> None:
        """`count` messages go now. More than a burst makes a debt, which the next ones wait for."""
        self._refill(now_s)
        self._tokens -= count

    def answered(self, latency_s: float, now_s: float) -> None:
        """The node took what was sent."""
        elapsed_s = now_s - self._answered_s
        self._answered_s = now_s
        self._holds = 0
        if not self._best_s:
            self._best_s = self._smooth_s = latency_s
        else:
            faded_s = self._best_s * 2.0 ** min(elapsed_s / _FORGET_S, 10.0)
            self._best_s = min(latency_s, faded_s)
            self._smooth_s += _NEWEST * (latency_s - self._smooth_s)
        if self._smooth_s > max(_QUICK_S, _SLOW_FACTOR * self._best_s):
            self._cut(_CUT_SLOW, now_s)
        else:
            more = self.rate_max * _GROWTH * min(1.0, elapsed_s)
            self.rate_per_s = min(self.rate_max, self.rate_per_s + more)

    def refused(self, now_s: float) -> None:
        """The node had no room for some of it, or could not be reached: wait, longer each time."""
        self._cut(_CUT_REFUSED, now_s)
        self._hold_s = now_s + min(_HOLD_MOST_S, _HOLD_FIRST_S * 2.0 ** min(self._holds, 10))
        self._holds += 1

    def _cut(self, factor: float, now_s: float) -> None:
        if now_s - self._cut_s < _CUT_PAUSE_S:
            return
        self._refill(now_s)
        self._cut_s = now_s
        self.rate_per_s = max(RATE_MIN, self.rate_per_s * factor)

    def _refill(self, now_s: float) -> None:
        tokens = self._tokens + (now_s - self._tokens_s) * self.rate_per_s
        self._tokens = min(float(self.burst), tokens)
        self._tokens_s = now_s
