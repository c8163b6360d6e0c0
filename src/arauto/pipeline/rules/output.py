"""A match as a row of the table `matches`, and as a message."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from arauto.correlation.program import Match, Program
from arauto.pipeline.rules.left_out import Reason
from arauto.pipeline.schemas import TABLES

__all__ = ["MATCHES", "arrow_matches", "dropped_row", "match_row"]

#: What every branch of the plan ends in.
MATCHES: StructType = TABLES["matches"].columns
#: Rows that leave Python at a time, and characters of their payloads.
_CHUNK_ROWS = 1_000
_CHUNK_LEN = 4_194_304
_ARROW: pa.Schema = to_arrow_schema(MATCHES, timezone="UTC")


def match_row(program: Program, match: Match) -> Mapping[str, Any]:
    """The row of one match, by column name."""
    return {
        "id": match.id,
        "ts": datetime.fromtimestamp(match.ts_ms / 1_000, UTC),
        "hub": match.hub,
        "rule": program.rule,
        "version": program.version,
        "key": match.key,
        "first_node": match.first[0],
        "first_seq": match.first[1],
        "last_node": match.last[0],
        "last_seq": match.last[1],
        "channel": match.channel,
        "payload": msgspec.json.encode(match.payload).decode(),
    }


def dropped_row(
    program: Program, key: str, dropped: int, at_ms: int, reason: Reason = "late_or_no_room"
) -> Mapping[str, Any]:
    """Not a match: how much of a key was left out, and why.

    It travels with the matches, since a stateful operator has no other way out, and has no id.
    """
    row: dict[str, Any] = dict.fromkeys(MATCHES.names)
    return row | {
        "ts": datetime.fromtimestamp(at_ms / 1_000, UTC),
        "hub": program.hub,
        "rule": program.rule,
        "version": program.version,
        "key": key,
        "channel": reason,
        "payload": str(dropped),
    }


def arrow_matches(rows: Iterable[Mapping[str, Any]]) -> Iterator[pa.RecordBatch]:
    """Rows of matches as Spark takes them from Python: not too many at once, and not too many bytes."""
    ready: list[Mapping[str, Any]] = []
    size = 0
    for row in rows:
        ready.append(row)
        size += len(row["payload"])
        if len(ready) >= _CHUNK_ROWS or size >= _CHUNK_LEN:
            yield pa.RecordBatch.from_pylist(ready, schema=_ARROW)
            ready, size = [], 0
    if ready:
        yield pa.RecordBatch.from_pylist(ready, schema=_ARROW)
