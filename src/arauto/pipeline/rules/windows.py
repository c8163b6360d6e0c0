"""Rules that count within windows: windows of all lengths in one aggregation of Spark.

Spark's own `window` takes one length for all rows. Here every row brings its rule's length: it is
put into the window (or, if windows overlap, windows) that hold it, and grouped by the window's *end*. The end
carries the mark of a watermarked column, so Spark keeps a group until the watermark passes it and drops
rows that come later than that. The watermark itself is still taken from `ts`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyspark.sql.functions as F
from pyspark.sql import DataFrame

from arauto.correlation.program import Program
from arauto.correlation.windows import Totals, totals_match
from arauto.pipeline.rules.carried import Carried
from arauto.pipeline.rules.output import MATCHES, arrow_matches, match_row

__all__ = ["totals", "totals_matches"]

#: How Spark marks a column that the watermark applies to. The number (milliseconds) is only shown in plans.
_WATERMARKED = {"spark.watermarkDelayMs": 0}


def totals(events: DataFrame) -> DataFrame:
    """One row per rule, key and window, final when the watermark has passed the window's end."""
    # A window's length is a multiple of `every_ms`: these are the starts of all windows that hold the row.
    latest = F.col("ms") - F.col("ms") % F.col("every_ms")
    earliest = latest - F.col("length_ms") + F.col("every_ms")
    starts = F.sequence(earliest, latest, F.col("every_ms"))
    placed = events.select(
        "rule_ref",
        "key",
        F.explode(starts).alias("start_ms"),
        "length_ms",
        F.struct("ms", "node", "seq").alias("place"),
        "number",
        "present",
    )
    ending = placed.select(
        "rule_ref",
        "key",
        F.timestamp_millis(F.col("start_ms") + F.col("length_ms")).alias(
            "ending", metadata=_WATERMARKED
        ),
        "length_ms",
        "place",
        "number",
        F.when(F.col("present"), "").alias("value"),
    )
    grouped = ending.groupBy("rule_ref", "key", "length_ms", "ending").agg(
        F.count(F.lit(1)).alias("count"),
        F.count("value").alias("present"),
        F.sum("number").alias("sum"),
        F.min("number").alias("min"),
        F.max("number").alias("max"),
        F.min("place").alias("first"),
        F.max("place").alias("last"),
    )
    return grouped.select(
        "rule_ref",
        "key",
        (F.unix_millis("ending") - F.col("length_ms")).alias("start_ms"),
        F.unix_millis("ending").alias("end_ms"),
        "count",
        "present",
        "sum",
        "min",
        "max",
        F.col("first.node").alias("first_node"),
        F.col("first.seq").alias("first_seq"),
        F.col("last.node").alias("last_node"),
        F.col("last.seq").alias("last_seq"),
    )


def totals_matches(found: DataFrame, rules: Carried) -> DataFrame:
    """The matches among windows."""

    def judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        programs = rules.programs
        for batch in batches:
            yield from arrow_matches(_judged(batch.to_pylist(), programs))

    return found.mapInArrow(judge, MATCHES)


def _judged(
    rows: Iterable[Mapping[str, Any]], programs: Mapping[str, Program]
) -> Iterator[Mapping[str, Any]]:
    for row in rows:
        program = programs.get(row["rule_ref"])
        # A window of a rule that has gone since.
        if program is None:
            continue
        match = totals_match(program, row["key"], _totals(row))
        if match is not None:
            yield match_row(program, match)


def _totals(row: Mapping[str, Any]) -> Totals:
    return Totals(
        first=(row["first_node"], row["first_seq"]),
        last=(row["last_node"], row["last_seq"]),
        **{
            name: row[name]
            for name in ("start_ms", "end_ms", "count", "present", "sum", "min", "max")
        },
    )
