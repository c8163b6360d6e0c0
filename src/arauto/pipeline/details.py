"""Numbers in the details of a journal row: which can be meant, and which only break what adds them up.

One row with an absurd number must cost nobody but itself: it is set aside before anything is computed
from it, by archive and roll-ups alike.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

from arauto.storage.base import Kind

__all__ = ["is_odd"]

#: The last millisecond of the year 9999: what is later is no time that anybody can read.
_TIME_MAX_MS = 253_402_300_799_999
#: More than any node counts in an interval, and so little that sums of thousands of them still fit.
_COUNT_MAX = 10**15

_COUNTS = "map<string, string>"
_SHAPE = (
    "durationMs string, startMs string, endMs string, leftOut string, sessionsPeak string, "
    f"gauges {_COUNTS}, total {_COUNTS}"
)
#: Numbers of one level further down.
_INNER = "refused map<string, string>"


def is_odd(kind: Column, ts: Column, text: Column) -> Column:
    """Whether the details (JSON text) of a row hold a number that cannot be meant. Never null.

    Fields of another type are not odd: they read as null, and the row is good for the rest.
    """
    details = F.from_json(text, _SHAPE)
    refused = F.from_json(F.get_json_object(text, "$.total"), _INNER)
    now_ms = F.unix_millis(ts)
    began_odd = _outside(details.durationMs, now_ms - _TIME_MAX_MS, now_ms)
    times_odd = _outside(details.startMs, F.lit(0), F.lit(_TIME_MAX_MS)) | _outside(
        details.endMs, F.lit(0), F.lit(_TIME_MAX_MS)
    )
    counts_odd = (
        _uncountable(details.sessionsPeak)
        | _any_uncountable(details.gauges)
        | _any_uncountable(details.total)
        | _any_uncountable(refused.refused)
    )
    return F.coalesce(
        F.when(kind == int(Kind.SESSION_END), began_odd)
        .when(kind == int(Kind.ERROR), _uncountable(details.leftOut))
        .when(kind == int(Kind.COUNTERS), times_odd | counts_odd),
        F.lit(False),
    )


def _any_uncountable(counts: Column) -> Column:
    odd = F.exists(F.map_values(counts), _uncountable)
    return F.coalesce(odd, F.lit(False))


def _uncountable(value: Column) -> Column:
    return _outside(value, F.lit(-_COUNT_MAX), F.lit(_COUNT_MAX))


def _outside(value: Column, low: Column, high: Column) -> Column:
    """Whether a text is a number outside of a range. What no column could hold reads as null anyway."""
    number = value.try_cast("long")
    return F.coalesce((number < low) | (number > high), F.lit(False))
