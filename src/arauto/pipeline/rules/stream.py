"""The rules' queries: journal rows in, matches out, for all rules of all hubs.

There are two, each with the same plan whatever the rules are, since they are data to the Python that looks at
rows: `counts` is one aggregation for rules that count within windows, `rules` one `transformWithState`
for all others. So a query whose rules changed starts from the checkpoint of the one before, and each rule
that did not change goes on where it was. A query without rules does not run, and costs nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from arauto.correlation.program import Program
from arauto.pipeline.lake.erasures import Erasures
from arauto.pipeline.rules.carried import Carried
from arauto.pipeline.rules.compile import by_ref, takes_window
from arauto.pipeline.rules.crowding import TaskRoom
from arauto.pipeline.rules.events import counted_events, happened, packed_events
from arauto.pipeline.rules.left_out import LeftOutAccumulator
from arauto.pipeline.rules.moved import settle
from arauto.pipeline.rules.output import MATCHES
from arauto.pipeline.rules.processor import RuleProcessor
from arauto.pipeline.rules.since import Since
from arauto.pipeline.rules.trouble import Care
from arauto.pipeline.rules.windows import totals, totals_matches

__all__ = ["COUNTS", "PLAN_VERSION", "QUERIES", "RULES", "OnBatch", "by_query", "start_query"]

#: Part of the checkpoint's directory (`rules/v2`): grows when a plan's shape or a stateful schema changes.
PLAN_VERSION = 2
RULES, COUNTS = QUERIES = ("rules", "counts")

_POOL = "rules"

OnBatch = Callable[[DataFrame, int], None]


def by_query(programs: Iterable[Program]) -> Mapping[str, Mapping[str, Program]]:
    """The programs of each query, by the name of their state.

    Raises:
        ArautoError: BAD_RULE if there are too many rules.
    """
    found: dict[str, dict[str, Program]] = {query: {} for query in QUERIES}
    for ref, program in by_ref(programs).items():
        found[COUNTS if takes_window(program) else RULES][ref] = program
    return found


def start_query(
    spark: SparkSession,
    source: DataFrame,
    query: str,
    programs: Mapping[str, Program],
    checkpoint: Path,
    on_batch: OnBatch,
    *,
    interval_s: float = 1.0,
    watermark_s: float = 5.0,
    available_now: bool = False,
    left_out: LeftOutAccumulator | None = None,
    care: Care | None = None,
    since: Mapping[str, Since] | None = None,
    erasures: Erasures | None = None,
    room: TaskRoom | None = None,
) -> StreamingQuery:
    """Start one of the queries.

    Args:
        source: a streaming frame of journal rows.
        query: which.
        programs: its rules, as `by_query` gives them.
        checkpoint: its own directory.
        on_batch: gets the matches of a batch, and the batch's number. May be called again with the same.
            Must evaluate the frame once: it is the stateful operators' own output.
        interval_s: how often to look for new rows.
        watermark_s: how late a row may come.
        available_now: end when all that is there has been read.
        left_out: told what of the rows was too large, or failed.
        care: what rows to pass over, after failures.
        since: from when on rules see rows, by the name of their state.
        erasures: whose rows they do not see.
        room: how much of each hub is counted; None = all.
    """
    delay = f"{round(watermark_s * 1_000)} milliseconds"
    rules = Carried(programs, since, erasures)
    if query == COUNTS:
        found = _counted(source, rules, delay, left_out, care or Care(), room)
    else:
        found = _matched(source, rules, delay, left_out, care or Care())
    settle(checkpoint)
    # Queries of one driver share its cores by pools; the name of this thread's pool goes to the query.
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
    try:
        writer = (
            found.writeStream.queryName(query)
            .outputMode("append")
            .option("checkpointLocation", str(checkpoint))
            .foreachBatch(on_batch)
        )
        if available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{round(interval_s * 1_000)} milliseconds").start()
    finally:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]


def _counted(
    rows: DataFrame,
    rules: Carried,
    delay: str,
    left_out: LeftOutAccumulator | None,
    care: Care,
    room: TaskRoom | None,
) -> DataFrame:
    found = counted_events(rows, rules, left_out, care, room).withWatermark("ts", delay)
    return totals_matches(totals(happened(found)), rules)


def _matched(
    rows: DataFrame, rules: Carried, delay: str, left_out: LeftOutAccumulator | None, care: Care
) -> DataFrame:
    found = packed_events(rows, rules, left_out, care).withWatermark("ts", delay)
    matched = (
        happened(found)
        .select("subject", "packed")
        .groupBy("subject")
        .transformWithState(RuleProcessor(rules, care=care), MATCHES, "Append", "EventTime")
    )
    return matched.select(*MATCHES.names)
