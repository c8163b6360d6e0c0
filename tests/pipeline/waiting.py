"""Waiting for what other processes and Spark do: for as long as it takes, and not a moment longer.

How long something takes says nothing while other work keeps the machine busy. So a test looks until it is
so, fails at once when it cannot become so any more, and has a limit only for what hangs.
"""

import time
from collections.abc import Callable

__all__ = ["LAST_RESORT_S", "until"]

#: Nothing here takes a fifth of this on a machine of its own.
LAST_RESORT_S = 900.0
_LOOK_S = 0.02


def until(
    condition: Callable[[], object],
    what: str,
    *,
    is_over: Callable[[], object] = lambda: False,
    said: Callable[[], str] = str,
) -> None:
    """Look again and again until it is so.

    Args:
        condition: whether it is.
        what: what is waited for, for people.
        is_over: whether it cannot become so any more, because who does it has ended.
        said: what to show if it does not become so.
    """
    end_s = time.monotonic() + LAST_RESORT_S
    while not condition():
        # Once more after the end: it may have done it just before.
        if is_over() and not condition():
            raise AssertionError(f"it ended before: {what}\n{said()}")
        if time.monotonic() > end_s:
            raise AssertionError(f"not in {LAST_RESORT_S:g} s: {what}\n{said()}")
        time.sleep(_LOOK_S)
