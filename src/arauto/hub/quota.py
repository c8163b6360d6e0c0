"""A token bucket. Pure: the time comes in as an argument."""

__all__ = ["TokenBucket"]


class TokenBucket:
    """Allows `rate_per_s` on average and bursts of one second's worth. A rate of 0 allows everything."""

    __slots__ = ("_at_s", "_tokens", "rate_per_s")

    def __init__(self, rate_per_s: float, now_s: float) -> None:
        self.rate_per_s = rate_per_s
        self._tokens = rate_per_s
        self._at_s = now_s

    def take(self, now_s: float, count: int = 1) -> bool:
        """Whether `count` more are allowed now."""
        rate = self.rate_per_s
        if not rate:
            return True
        tokens = self._tokens + (now_s - self._at_s) * rate
        self._at_s = now_s
        if tokens > rate:
            tokens = rate
        if tokens < count:
            self._tokens = tokens
            return False
        self._tokens = tokens - count
        return True

    def set_rate(self, rate_per_s: float) -> None:
        """Change the limit live; what was saved up is kept as far as the new limit allows."""
        grew_from_none = not self.rate_per_s
        self.rate_per_s = rate_per_s
        self._tokens = rate_per_s if grew_from_none else min(self._tokens, rate_per_s)
