"""Waiting for what other processes and Spark do: for as long as it takes, and not a moment longer.

How long something takes says nothing while other work keeps the machine busy. So a test looks until it is
so, fails at once when it cannot become so any more, and has a limit only for what hangs.
"""

import time
from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["LAST_RESORT_S", "finished", "until", "was_too_slow"]

#: Nothing here takes a fifth of this on a machine of its own.
LAST_RESORT_S = 900.0
_LOOK_S = 0.02
#: Spark gives a new Python ten seconds to start, and no more. `pipeline run` starts its queries again, too.
_TOO_SLOW = "Python worker failed to connect back"


def was_too_slow(error: Exception) -> bool:
    """Whether a query failed only because Python did not start soon enough on a busy machine."""
    return _TOO_SLOW in str(error)


def finished(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Start a query that ends by itself, from its checkpoint, and wait for its end."""
    end_s = time.monotonic() + LAST_RESORT_S
    while True:
        query = start()
        try:
            query.awaitTermination()
            return query
        except StreamingQueryException as error:
            if not was_too_slow(error) or time.monotonic() > end_s:
                raise


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
