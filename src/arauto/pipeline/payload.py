"""What a payload is, in SQL: text, JSON, or only bytes. Archive and rules mean the same by it."""

from pyspark.sql import Column
from pyspark.sql import functions as F

__all__ = ["is_json", "text_of"]


def text_of(payload: Column) -> Column:
    """The payload as text, or null where it is not UTF-8."""
    return F.try_validate_utf8(payload.cast("string"))


def is_json(text: Column) -> Column:
    """Whether a text is one JSON value, with no name twice in an object; false for null.

    Spark's parsers stop after the first value and do not look at what follows. Whatever follows cannot go on
    well both inside a list and inside an object.
    """
    in_object = F.try_parse_json(F.concat(F.lit('{"":'), text, F.lit("}")))
    in_list = F.json_array_length(F.concat(F.lit("["), text, F.lit("]")))
    return in_object.isNotNull() & F.coalesce(in_list == 1, F.lit(False))
