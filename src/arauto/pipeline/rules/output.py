"""A match as a row of the table `matches`, and as a message."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from arauto.correlation.program import Match, Program
from arauto.pipeline.schemas import TABLES

__all__ = ["MATCHES", "arrow_matches", "dropped_row", "match_row"]

#: What every branch of the plan ends in.
MATCHES: StructType = TABLES["matches"].columns
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


def dropped_row(program: Program, key: str, dropped: int, at_ms: int) -> Mapping[str, Any]:
    """Not a match: how many events of a key were left out, because they came late or there was no room.

    It travels with the matches, since a stateful operator has no other way out, and has no id.
    """
    row: dict[str, Any] = dict.fromkeys(MATCHES.names)
    return row | {
        "ts": datetime.fromtimestamp(at_ms / 1_000, UTC),
        "hub": program.hub,
        "rule": program.rule,
        "version": program.version,
        "key": key,
        "payload": str(dropped),
    }


def arrow_matches(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Rows of matches as Spark takes them from Python."""
    return pa.RecordBatch.from_pylist(list(rows), schema=_ARROW)
