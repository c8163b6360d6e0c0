"""One batch of segments into bronze: each row of the journal once, and an account of what was seen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.coverage import Coverage, count, merge, overlap
from arauto.pipeline.lake.table import Table, Written

__all__ = ["Taken", "batches_of", "take"]

#: Ranges of one batch that are told apart; a feed with more holes than this is not a journal.
_RANGES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Taken:
    """What a batch brought."""

    rows: int
    duplicates: int = 0
    """Rows that were in the lake already, or twice in the batch; left out."""
    coverage: Mapping[str, Coverage] = field(default_factory=dict)


def batches_of(query: str, checkpoint: Path) -> str:
    """The name under which the batches of a streaming query are committed: of this very checkpoint.

    Batches are numbered from 0 in every checkpoint. If one is lost, the numbers come again with other
    rows, which must not be taken for batches that are done.

    Raises:
        ArautoError: LAKE_CORRUPT, the checkpoint cannot be read.
    """
    try:
        known = msgspec.json.decode((checkpoint / "metadata").read_bytes(), type=dict[str, str])
        return f"{query}@{known['id'].partition('-')[0]}"
    except (OSError, msgspec.DecodeError, KeyError) as error:
        raise ArautoError(Code.LAKE_CORRUPT, f"checkpoint {checkpoint}: {error}") from error


def take(table: Table, frame: DataFrame, query: str, batch_id: int) -> Taken | None:
    """Commit a batch of journal rows; None if that was done before."""
    if table.is_committed(query, batch_id):
        return None
    written = table.write(frame, query, batch_id)
    if not written.files:
        # Only batches with rows are told apart later; this one just must not come again.
        table.commit(written, query, batch_id)
        return Taken(0)
    nodes = _nodes(table.read_files(written.files))
    seen = table.state().coverage
    batch = {row.node: merge([(row.first, row.last)]) for row in nodes}
    whole = all(row.rows == row.places == row.last - row.first + 1 for row in nodes)
    known = {node: overlap(ranges, seen.get(node, ())) for node, ranges in batch.items()}
    duplicates = 0
    if not whole or any(known.values()):
        written, batch, duplicates = _take_apart(table, written, known, query, batch_id)
    table.commit(
        written,
        query,
        batch_id,
        coverage=batch,
        kinds=sorted({kind for row in nodes for kind in row.kinds}),
        notes={"duplicates": duplicates} if duplicates else {},
    )
    return Taken(written.rows, duplicates, batch)


def _nodes(rows: DataFrame) -> list[Row]:
    """Per node: first and last seq, rows, different seqs, and kinds. As many rows as there are nodes."""
    return (
        rows.groupBy("node")
        .agg(
            F.min("seq").alias("first"),
            F.max("seq").alias("last"),
            F.count("*").alias("rows"),
            F.countDistinct("seq").alias("places"),
            F.collect_set("kind").alias("kinds"),
        )
        .collect()
    )


def _take_apart(
    table: Table, written: Written, known: Mapping[str, Coverage], query: str, batch_id: int
) -> tuple[Written, dict[str, Coverage], int]:
    """Write the batch again without what is there already, and find out exactly what it covers."""
    rows = table.read_files(written.files)
    fresh = rows
    for node, ranges in known.items():
        for first, last in ranges:
            fresh = fresh.where(~((F.col("node") == node) & F.col("seq").between(first, last)))
    fresh = fresh.dropDuplicates(["node", "seq"])
    again = table.write(fresh, query, batch_id, part="-fresh")
    coverage = _ranges(table.read_files(again.files))
    if again.rows != sum(count(ranges) for ranges in coverage.values()):
        raise ArautoError(Code.LAKE_CORRUPT, f"batch {batch_id} does not add up")
    return again, coverage, written.rows - again.rows


def _ranges(rows: DataFrame) -> dict[str, Coverage]:
    """The unbroken runs of seqs, by node: within a run, seq minus row number stays the same."""
    ordered = Window.partitionBy("node").orderBy("seq")
    runs = (
        rows.select("node", "seq", (F.col("seq") - F.row_number().over(ordered)).alias("run"))
        .groupBy("node", "run")
        .agg(F.min("seq").alias("first"), F.max("seq").alias("last"))
        .limit(_RANGES_MAX + 1)
        .collect()
    )
    if len(runs) > _RANGES_MAX:
        raise ArautoError(Code.LAKE_CORRUPT, f"the feed has over {_RANGES_MAX} holes in one batch")
    found: dict[str, list[tuple[int, int]]] = {}
    for row in runs:
        found.setdefault(row.node, []).append((row.first, row.last))
    return {node: merge(ranges) for node, ranges in found.items()}
