"""The tables of the lake: their columns, their versions, and what they are sorted by. Pure data.

Columns are only ever added, at the end and nullable; then `version` grows. A reader of today reads tables
of every earlier version (missing columns are null) and refuses later ones. `tests/pipeline/test_schemas.py`
holds this to the schemas that were ever released.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from arauto.storage import segment_schema

__all__ = ["JOURNAL", "TABLES", "Layer", "TableSchema"]

Layer = Literal["bronze", "silver", "gold"]

_TYPES = {
    "string": StringType(),
    "int": IntegerType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "long": LongType(),
    "double": DoubleType(),
    "bool": BooleanType(),
    "binary": BinaryType(),
    "time": TimestampType(),
    "timestamp[ms, tz=UTC]": TimestampType(),
    "map": MapType(StringType(), StringType()),
    "map<string, string>": MapType(StringType(), StringType()),
}


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One table."""

    name: str
    layer: Layer
    version: int
    columns: StructType
    time: str
    """The column that says when; files are chosen by its range."""
    sort: tuple[str, ...]
    """The order of rows within a file."""


def _struct(text: str) -> StructType:
    """Columns from "name type, name type"."""
    pairs = (part.split() for part in text.split(","))
    return StructType([StructField(name, _TYPES[kind]) for name, kind in pairs])


#: Bronze: a segment's columns as they are.
JOURNAL = StructType([StructField(name, _TYPES[kind]) for name, kind in segment_schema.COLUMNS])

_PLACE = "node string, seq long, ts time, hub string, "
_WHO = "session string, user string, "


def _table(
    name: str, layer: Layer, text: str, *, time: str = "ts", version: int = 1
) -> TableSchema:
    columns = _struct(text)
    sort = tuple(n for n in ("hub", "channel", time, "node", "seq") if n in columns.names)
    return TableSchema(name, layer, version, columns, time, sort)


_ALL = (
    TableSchema(
        "journal", "bronze", segment_schema.VERSION, JOURNAL, "ts", ("hub", "channel", "ts", "seq")
    ),
    _table(
        "messages",
        "silver",
        _PLACE
        + "channel string, epoch long, offset long, "
        + _WHO
        + "content_type string, id string, key string, exclude string, headers map, expires_ms long, "
        "origin string, payload binary, text string, is_json bool, size_bytes long",
    ),
    _table(
        "sessions",
        "silver",
        _PLACE
        + _WHO
        + "started time, duration_ms long, code int, transport string, address string",
    ),
    _table("session_starts", "silver", _PLACE + _WHO + "transport string, address string"),
    _table(
        "refusals",
        "silver",
        _PLACE
        + "channel string, "
        + _WHO
        + "code int, name string, message string, field string, request string, transport string, "
        "address string, left_out long",
    ),
    _table(
        "subscriptions", "silver", _PLACE + "channel string, " + _WHO + "begun bool, pattern bool"
    ),
    _table(
        "changes", "silver", _PLACE + "operation string, target string, outcome string, by string"
    ),
    _table(
        "counters",
        "silver",
        _PLACE
        + "started time, ended time, messages_in long, messages_out long, bytes_in long, bytes_out long, "
        "publishes long, deliveries long, dropped long, stored long, refused long, sessions_started long, "
        "sessions_ended long, hubs long, channels long, sessions long, subscriptions long, "
        "sessions_peak long",
    ),
    _table(
        "quarantine",
        "silver",
        _PLACE + "kind int, channel string, " + _WHO + "reason string, payload binary",
    ),
    _table(
        "rollup_5m",
        "gold",
        "start time, hub string, node string, messages_in long, messages_out long, bytes_in long, "
        "bytes_out long, published long, published_bytes long, deliveries long, dropped long, refused long, "
        "hubs long, channels long, sessions long, sessions_peak long, subscriptions long, "
        "sessions_started long, sessions_ended long, duration_sum_ms long, durations binary, "
        "channel_sketch binary, user_sketch binary",
        time="start",
    ),
    _table(
        "matches",
        "gold",
        "id string, ts time, hub string, rule string, version int, key string, first_node string, "
        "first_seq long, last_node string, last_seq long, channel string, payload string",
    ),
    _table(
        "mined",
        "gold",
        "ts time, hub string, run long, kind string, items string, support long, confidence double, "
        "lift double, total long, job string, implies string",
    ),
)

TABLES: Mapping[str, TableSchema] = {table.name: table for table in _ALL}
