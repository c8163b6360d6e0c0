"""What becomes of matches: a row each in the table `matches`, and a message each on the rule's channel.

Both can be done twice without harm: the table knows the batch's number, the node the message's id. So a batch
that was interrupted anywhere is simply done again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyspark.sql.functions as F
import structlog
from pyspark.sql import DataFrame

from arauto.correlation.program import Program
from arauto.model import JSON
from arauto.pipeline.archive.bronze import batches_of
from arauto.pipeline.lake.table import Table
from arauto.pipeline.rules.stream import QUERY
from arauto.pipeline.sink.options import SinkOptions
from arauto.pipeline.sink.writer import Counts, publish_batches

__all__ = ["Delivery", "messages"]

_log = structlog.get_logger(__name__)

_COUNTS = "published bigint, repeated bigint, refused bigint, looped bigint, first_refusal string"


def messages(matches: DataFrame, programs: Iterable[Program]) -> DataFrame:
    """Matches as the publishing sink takes them.

    A rule that looks at messages of the pipeline marks what it makes of them as second-hand, and no
    rule looks at those: rules can build on others, and cannot feed themselves.
    """
    second_hand = [program.ref for program in programs if program.include_pipeline]
    ref = F.concat_ws("", F.col("hub"), F.lit("/"), F.col("rule"), F.lit("@"), F.col("version"))
    mark = F.create_map(F.lit("x-rule"), ref)
    if second_hand:
        hops = F.create_map(F.lit("x-rule"), ref, F.lit("x-hops"), F.lit("1"))
        mark = F.when(ref.isin(*second_hand), hops).otherwise(mark)
    return matches.select(
        "hub", "channel", "payload", F.lit(JSON).alias("content_type"), "id", mark.alias("headers")
    )


@dataclass(frozen=True)
class Delivery:
    """Delivers the matches of a batch; given to `start_rules`."""

    table: Table
    sink: SinkOptions
    programs: tuple[Program, ...]
    checkpoint: Path
    """Of the query: its batches are known by it."""

    def __call__(self, matches: DataFrame, batch_id: int) -> None:
        """Raises ArautoError if the node cannot be reached, so that Spark does the batch again."""
        # The frame is the stateful operators' output: it is computed once, and all of it.
        kept = matches.persist()
        try:
            if kept.count():
                matches = kept.where("id IS NOT NULL")
                query = batches_of(QUERY, self.checkpoint)
                self.table.append(matches, query=query, batch_id=batch_id)
                self._publish(matches)
                self._tell_dropped(kept)
        finally:
            kept.unpersist()

    def _tell_dropped(self, kept: DataFrame) -> None:
        lost = kept.where("id IS NULL").groupBy("hub", "rule").agg(F.sum("payload").alias("events"))
        for row in lost.collect():
            _log.warning(
                "events were left out: they came late, or a key had more than its buffer holds",
                hub=row["hub"],
                rule=row["rule"],
                events=int(row["events"]),
            )

    def _publish(self, matches: DataFrame) -> None:
        options = self.sink

        def publish(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            counts = publish_batches(iter(batches), options)
            yield pa.RecordBatch.from_pylist([vars(counts)])

        total = Counts()
        for row in messages(matches, self.programs).mapInArrow(publish, _COUNTS).collect():
            total.add(Counts(**row.asDict()))
        if total.refused or total.looped:
            _log.warning(
                "matches were refused",
                published=total.published + total.repeated,
                refused=total.refused,
                looped=total.looped,
                first=total.first_refusal,
            )
