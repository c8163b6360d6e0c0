"""Journal rows as frames, and batches of segments taken as the pipeline takes them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from arauto.pipeline.archive.archive import Archive
from arauto.pipeline.archive.bronze import Taken
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.metrics import PipelineMetrics
from arauto.pipeline.schemas import JOURNAL
from tests.pipeline.feed import T0

__all__ = ["at", "journal", "places", "take_segments"]

_DEFAULTS: dict[str, Any] = {
    "node": "n1",
    "kind": 1,
    "hub": "shop",
    "channel": "stock:1",
    "epoch": 7,
    "offset": 0,
    "session": "s1",
    "user": "ana",
    "content_type": "application/json",
    "id": "",
    "key": "",
    "exclude": "",
    "headers": {},
    "expires_ms": 0,
    "payload": b"{}",
    "origin": "",
}


def at(second: float) -> datetime:
    """A moment some seconds after T0."""
    return datetime.fromtimestamp(T0 / 1000 + second, UTC)


def journal(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    """Journal rows; `at` in seconds after T0, and the rest as in the columns. Missing seqs are counted up."""
    made = []
    for number, row in enumerate(rows, 1):
        given = dict(row)
        whole = {"seq": number, "ts": at(given.pop("at", number)), **_DEFAULTS, **given}
        made.append(tuple(whole[name] for name in JOURNAL.names))
    return spark.createDataFrame(made, JOURNAL)


def take_segments(
    lake: Lake, segments: Path, *, files_max: int = 40, metrics: PipelineMetrics | None = None
) -> list[Taken]:
    """Take all new segments into bronze, as a pipeline that has just started."""
    archive = Archive(lake, segments, metrics or PipelineMetrics(), files_max=files_max)
    return list(iter(archive.take_next, None))


def places(lake: Lake) -> list[tuple[str, int]]:
    """(node, seq) of all rows in bronze."""
    rows = lake.table("journal").read().select("node", "seq").collect()
    return sorted((row.node, row.seq) for row in rows)
