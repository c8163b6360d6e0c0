"""How long to wait before the next connection attempt. Pure: chance comes in as an argument.

The first attempt after a loss is immediate, because most losses are short. Those after it wait a random
time between 0 and a ceiling that doubles up to a cap ("full jitter"), so that clients which lost the
same node do not return in step.
"""

from collections.abc import Callable

import msgspec

from arauto.errors import Code

__all__ = ["Backoff", "attempt_after", "ceiling_s", "delay_s"]

#: Losses the node announced to everybody at once: coming back at once would make them a storm.
_ANNOUNCED = frozenset({Code.GOING_AWAY, Code.OVERLOADED, Code.HUB_CLOSED})

#: Doublings beyond this change nothing for any sensible cap, and would only make huge numbers.
_DOUBLINGS_MAX = 40


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers behind the waiting times."""

    base_s: float = 0.5
    """Ceiling of the second attempt; each further one doubles it."""
    cap_s: float = 30.0
    """No attempt waits longer than this."""
    stable_s: float = 5.0
    """A connection that lived this long was a success: counting starts again."""


def ceiling_s(policy: Backoff, attempt: int) -> float:
    """The longest wait before an attempt; attempt 0 is the first after a loss."""
    if attempt <= 0:
        return 0.0
    doublings = min(attempt - 1, _DOUBLINGS_MAX)
    return min(policy.cap_s, policy.base_s * float(2**doublings))


def delay_s(policy: Backoff, attempt: int, uniform: Callable[[float, float], float]) -> float:
    """The wait before an attempt, drawn evenly between 0 and its ceiling."""
    ceiling = ceiling_s(policy, attempt)
    return uniform(0.0, ceiling) if ceiling > 0 else 0.0


def attempt_after(policy: Backoff, attempt: int, lived_s: float, code: Code) -> int:
    """The number of the next attempt, after a connection that was made by `attempt` has ended.

    A connection that broke soon after it was made does not reset the count: a node that accepts and
    then drops everybody would be asked at full speed otherwise.
    """
    following = 0 if lived_s >= policy.stable_s else attempt + 1
    return max(following, 1) if code in _ANNOUNCED else following
