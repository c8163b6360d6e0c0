"""Rows that are one thing in the lake and another in a segment, though node and seq are the same.

That is what a restored database leaves which was not known as such: it gave seqs again that it had given
before, and rows that came under them later were taken for repeats.
"""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from arauto.pipeline.lake.erase import ERASED
from arauto.pipeline.lake.manifest import FileEntry
from arauto.pipeline.lake.table import Table
from arauto.pipeline.schemas import JOURNAL

__all__ = ["differing_rows"]


def differing_rows(bronze: Table, files: Sequence[FileEntry], segments_dir: Path) -> dict[str, int]:
    """How many rows differ, by node, of the segments that are still there. Erased rows may."""
    paths = [str(path) for path in segments_dir.glob("seg-*.parquet")]
    if not paths or not files:
        return {}
    kept = bronze.read_files(files)
    offered = (
        # Damaged ones are told elsewhere.
        kept.sparkSession.read.option("ignoreCorruptFiles", "true")
        .option("ignoreMissingFiles", "true")
        .schema(JOURNAL)
        .parquet(*paths)
    )
    ours = _summed(kept.where(~F.col("origin").eqNullSafe(ERASED)), "ours")
    theirs = _summed(offered, "theirs")
    counted = (
        ours.join(theirs, ["node", "seq"])
        .where(F.col("ours") != F.col("theirs"))
        .groupBy("node")
        .agg(F.countDistinct("seq").alias("rows"))
        .collect()
    )
    return {row.node: row.rows for row in counted}


def _summed(rows: DataFrame, name: str) -> DataFrame:
    return rows.select("node", "seq", F.xxhash64(*map(_comparable, rows.columns)).alias(name))


def _comparable(name: str) -> Column:
    # A map has no order of its own, and cannot be hashed.
    return F.array_sort(F.map_entries(name)) if name == "headers" else F.col(name)
