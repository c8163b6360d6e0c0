"""The rate of those who come without a session: one bucket per caller, in a table with a bound.

A caller is the user of a token, in each hub; or for strangers the address (of IPv6 the network): in each hub
that an administrator has set up, and once for all that are made up on use, whose names cost nothing. The
rate is the hub's `sessionMessagesPerS`, and requests cost what they cost a session (`cost.py`).
"""

from collections import OrderedDict
from math import ceil

from arauto.errors import ArautoError
from arauto.hub.made_on_use import network_of
from arauto.hub.quota import TokenBucket
from arauto.session.cost import rate_error
from arauto.settings import Quotas

__all__ = ["CallerKey", "Callers", "TooFastError", "caller_key"]

CallerKey = tuple[str, str, str]
"""(hub, user, ""), or of strangers (hub, "", network) where the hub is set up, else ("", "", network)."""

#: After so long a bucket is full again whatever it owed: then it says nothing and is let go.
_REST_S = 11.0


class TooFastError(ArautoError):
    """RATE_LIMITED, with the time after which the same caller may come again."""

    retry_after_s: int = 1


def caller_key(hub: str, user: str, address: str, *, is_set_up: bool) -> CallerKey:
    """Whose bucket a request takes from."""
    if user:
        return hub, user, ""
    return (hub if is_set_up else ""), "", network_of(address)


class Callers:
    """One per node."""

    __slots__ = ("_buckets", "_len_max", "evicted")

    def __init__(self, len_max: int = 10_000) -> None:
        self._buckets: OrderedDict[CallerKey, tuple[TokenBucket, float]] = OrderedDict()
        """With the time of the last request; the longest silent first."""
        self._len_max = len_max
        self.evicted = 0
        """Buckets given up for want of room while they still counted."""

    def __len__(self) -> int:
        return len(self._buckets)

    def admit(self, key: CallerKey, quotas: Quotas, now_s: float, cost: int = 1) -> TokenBucket:
        """Take what a request costs; the bucket is for what it turns out to cost above that.

        Raises:
            TooFastError: RATE_LIMITED.
        """
        rate = quotas.session_messages_per_s
        if not rate:
            return TokenBucket(0, now_s)
        found = self._buckets.pop(key, None)
        bucket = found[0] if found is not None else TokenBucket(rate, now_s)
        if bucket.rate_per_s != rate:
            bucket.set_rate(rate)
        if found is None:
            self._make_room(now_s)
        self._buckets[key] = (bucket, now_s)
        if not bucket.take(now_s, cost):
            like = rate_error(quotas)
            error = TooFastError(like.code, like.message)
            error.retry_after_s = max(1, ceil(bucket.wait_s(now_s)))
            raise error
        return bucket

    def _make_room(self, now_s: float) -> None:
        while self._buckets:
            key = next(iter(self._buckets))
            rests = now_s - self._buckets[key][1] >= _REST_S
            if not rests and len(self._buckets) < self._len_max:
                return
            self.evicted += not rests
            del self._buckets[key]
