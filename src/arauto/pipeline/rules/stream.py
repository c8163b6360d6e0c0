"""The rules query: journal rows in, matches out, for all rules of all hubs.

The plan has the same shape whatever the rules are: one aggregation for rules that count within windows, one
`transformWithState` for all others, and their union. So a query whose rules changed starts from the
checkpoint of the one before, and each rule that did not change goes on where it was.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from arauto.correlation.program import Program
from arauto.pipeline.rules.compile import by_ref, events, packed, takes_window
from arauto.pipeline.rules.moved import settle
from arauto.pipeline.rules.output import MATCHES
from arauto.pipeline.rules.processor import RuleProcessor
from arauto.pipeline.rules.windows import totals, totals_matches

__all__ = ["PLAN_VERSION", "QUERY", "OnBatch", "matches_stream", "start_rules"]

#: Part of the checkpoint's directory (`rules/v1`): grows when the plan's shape or a stateful schema changes.
PLAN_VERSION = 1
QUERY = "rules"

OnBatch = Callable[[DataFrame, int], None]


def matches_stream(
    source: DataFrame, programs: Mapping[str, Program], *, watermark_s: float = 5.0
) -> DataFrame:
    """The matches in a stream of journal rows, with the columns of the table `matches`."""
    rows = source.withWatermark("ts", f"{round(watermark_s * 1_000)} milliseconds")
    windowed = {ref: program for ref, program in programs.items() if takes_window(program)}
    others = {ref: program for ref, program in programs.items() if ref not in windowed}
    counted = totals_matches(totals(events(rows, windowed)), windowed)
    matched = (
        packed(events(rows, others))
        .select("subject", "packed")
        .groupBy("subject")
        .transformWithState(RuleProcessor(others), MATCHES, "Append", "EventTime")
    )
    return counted.union(matched.select(*MATCHES.names))


def start_rules(
    spark: SparkSession,
    source: DataFrame,
    programs: Iterable[Program],
    checkpoint: Path,
    on_batch: OnBatch,
    *,
    interval_s: float = 1.0,
    watermark_s: float = 5.0,
    available_now: bool = False,
) -> StreamingQuery:
    """Start the query.

    Args:
        source: a streaming frame of journal rows.
        programs: all rules that are to run.
        checkpoint: the directory above the versions of the plan.
        on_batch: gets the matches of a batch, and the batch's number. May be called again with the same.
            May evaluate the frame only once: it is the stateful operators' own output.
        interval_s: how often to look for new rows.
        watermark_s: how late a row may come.
        available_now: end when all that is there has been read.

    Raises:
        ArautoError: BAD_RULE if there are too many rules.
    """
    found = matches_stream(source, by_ref(programs), watermark_s=watermark_s)
    versioned = checkpoint / f"v{PLAN_VERSION}"
    settle(versioned)
    # Queries of one driver share its cores by pools; the name of this thread's pool goes to the query.
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", QUERY)
    try:
        writer = (
            found.writeStream.queryName(QUERY)
            .outputMode("append")
            .option("checkpointLocation", str(versioned))
            .foreachBatch(on_batch)
        )
        if available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{round(interval_s * 1_000)} milliseconds").start()
    finally:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]
