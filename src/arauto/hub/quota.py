"""A token bucket. Pure: the time comes in as an argument."""

__all__ = ["TokenBucket"]

#: The most a bucket owes, in seconds of its rate: with a low one, a single large thing must not be the last.
_DEBT_MAX_S = 10.0


class TokenBucket:
    """Allows `rate_per_s` on average and bursts of one second's worth. A rate of 0 allows everything.

    What costs more than there is left is allowed all the same, and what is lacking is owed: nothing more is
    allowed until it has come in. So a thing may be dearer than any burst, and still has its turn.
    """

    __slots__ = ("_at_s", "_tokens", "rate_per_s")

    def __init__(self, rate_per_s: float, now_s: float) -> None:
        self.rate_per_s = rate_per_s
        self._tokens = rate_per_s
        self._at_s = now_s

    def take(self, now_s: float, count: int = 1) -> bool:
        """Whether there is a token now; if so, `count` go."""
        rate = self.rate_per_s
        if not rate:
            return True
        tokens = self._tokens + (now_s - self._at_s) * rate
        self._at_s = now_s
        if tokens > rate:
            tokens = rate
        if tokens < 1:
            self._tokens = tokens
            return False
        self._tokens = tokens - count
        if count > 1:
            self.owe(0)
        return True

    def owe(self, count: float) -> None:
        """Take what it turned out to cost, whether it is there or not."""
        self._tokens = max(self._tokens - count, -_DEBT_MAX_S * self.rate_per_s)

    def lacks(self, now_s: float, count: int = 1) -> bool:
        """Whether there are fewer tokens than that now. Takes none."""
        return self.wait_s(now_s, count) > 0

    def wait_s(self, now_s: float, count: int = 1) -> float:
        """How long until there are so many tokens, if nobody takes any."""
        rate = self.rate_per_s
        if not rate:
            return 0.0
        return max(0.0, (count - self._tokens) / rate - (now_s - self._at_s))

    def set_rate(self, rate_per_s: float) -> None:
        """Change the limit live; what was saved up is kept as far as the new limit allows."""
        grew_from_none = not self.rate_per_s
        self.rate_per_s = rate_per_s
        self._tokens = rate_per_s if grew_from_none else min(self._tokens, rate_per_s)
