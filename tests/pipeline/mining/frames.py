"""Messages made by hand, and the naive way to count what the miners count."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from arauto.pipeline.schemas import TABLES

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
COLUMNS = TABLES["messages"].columns


def messages(spark: SparkSession, rows: Iterable[dict[str, Any]]) -> DataFrame:
    """Rows of `messages`: `body` is the payload, `at_s` seconds after noon, the rest as it is named."""
    return spark.createDataFrame([_row(seq, given) for seq, given in enumerate(rows, 1)], COLUMNS)


def _row(seq: int, given: dict[str, Any]) -> tuple[Any, ...]:
    body = given.get("body")
    text = body if isinstance(body, str) else json.dumps(body)
    row: dict[str, Any] = {
        "node": "n1",
        "seq": seq,
        "ts": NOON + timedelta(seconds=given.get("at_s", seq)),
        "hub": "shop",
        "channel": "orders",
        "session": "s1",
        "user": "u1",
        "headers": {},
        "text": text,
        "is_json": not isinstance(body, str),
        "size_bytes": len(text),
    }
    row |= {name: value for name, value in given.items() if name in COLUMNS.names}
    return tuple(row.get(name) for name in COLUMNS.names)


def count_sets(baskets: Sequence[Iterable[str]], count_min: int) -> dict[tuple[str, ...], int]:
    """Every set of two or more items in at least `count_min` baskets, by trying all of them."""
    counts: dict[tuple[str, ...], int] = {}
    for basket in baskets:
        items = sorted(set(basket))
        for size in range(2, len(items) + 1):
            for one in combinations(items, size):
                counts[one] = counts.get(one, 0) + 1
    return {one: count for one, count in counts.items() if count >= count_min}


def count_sequences(
    sequences: Sequence[Sequence[str]], count_min: int, longest: int
) -> dict[tuple[str, ...], int]:
    """Every sequence of two steps or more that at least `count_min` hold, with gaps, by trying all."""
    counts: dict[tuple[str, ...], int] = {}
    for steps in sequences:
        held = {
            tuple(steps[i] for i in places)
            for size in range(2, longest + 1)
            for places in combinations(range(len(steps)), size)
        }
        for one in held:
            counts[one] = counts.get(one, 0) + 1
    return {one: count for one, count in counts.items() if count >= count_min}
