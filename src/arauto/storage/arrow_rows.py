"""Journal rows as Arrow columns, the same in a segment and in what Spark reads from the journal itself."""

from typing import Any

import pyarrow  # type: ignore[import-untyped]

from arauto.storage.base import JournalEntry
from arauto.storage.segment_schema import COLUMNS

__all__ = ["SCHEMA", "Rows", "columns_of"]

#: (seq, entry), in order.
Rows = list[tuple[int, JournalEntry]]

_TYPES = {
    "string": pyarrow.string(),
    "int32": pyarrow.int32(),
    "int64": pyarrow.int64(),
    "binary": pyarrow.binary(),
    "timestamp[ms, tz=UTC]": pyarrow.timestamp("ms", tz="UTC"),
    "map<string, string>": pyarrow.map_(pyarrow.string(), pyarrow.string()),
}

SCHEMA = pyarrow.schema([(name, _TYPES[kind]) for name, kind in COLUMNS])


def columns_of(node: str, rows: Rows) -> list[list[Any]]:
    """The rows' values, column by column, in the order of the schema."""
    return [_column(node, rows, name) for name, _ in COLUMNS]


def _column(node: str, rows: Rows, name: str) -> list[Any]:
    match name:
        case "node":
            return [node] * len(rows)
        case "seq":
            return [seq for seq, _ in rows]
        case "kind":
            return [int(entry.kind) for _, entry in rows]
        case "ts":
            return [entry.ts_ms for _, entry in rows]
        case "headers":
            return [list((entry.headers or {}).items()) for _, entry in rows]
        case _:
            return [getattr(entry, name) for _, entry in rows]
