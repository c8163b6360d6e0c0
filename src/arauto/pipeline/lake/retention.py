"""Drops what is older than it should be kept: rows of the lake, and segments that are in it.

Days are whole days in UTC. Commits say how many rows of the journal went, by node, so that the count of
rows still adds up with what was seen.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.sql import Column
from pyspark.sql import functions as F

from arauto.errors import StorageError
from arauto.pipeline.lake.compact import DAY_MS, Keep
from arauto.pipeline.lake.coverage import Coverage, overlap
from arauto.pipeline.lake.manifest import FileEntry
from arauto.pipeline.lake.table import Table
from arauto.storage import segments

__all__ = ["REMOVED", "cutoff_ms", "expire", "expire_segments", "plan_expiry", "removed_rows"]

#: Note of a commit: rows removed for their age; `rowsRemoved@<node>` counts those of one node.
REMOVED = "rowsRemoved"


def cutoff_ms(now_ms: int, days: int) -> int | None:
    """What is before this is older than so many whole days; None = everything is kept."""
    return (now_ms // DAY_MS - days) * DAY_MS if days else None


def plan_expiry(
    files: Iterable[FileEntry], kept: frozenset[str], before_ms: int
) -> tuple[list[FileEntry], list[FileEntry]]:
    """(files whose rows are all too old, files of which some rows are)."""
    old = [file for file in files if file.path not in kept and file.min_ms < before_ms]
    return (
        [file for file in old if file.max_ms < before_ms],
        [file for file in old if file.max_ms >= before_ms],
    )


def removed_rows(notes: Mapping[str, int], node: str) -> int:
    """How many rows of a node's journal were removed for their age."""
    return notes.get(f"{REMOVED}@{node}", 0)


def expire(table: Table, keep: Keep, before_ms: int) -> int:
    """Drop a table's rows from before a time; how many there were.

    Raises:
        ArautoError: CONFLICT, somebody else replaced the same files meanwhile.
    """
    files = tuple(table.state().files.values())
    gone, partly = plan_expiry(files, keep(), before_ms)
    if not gone and not partly:
        return 0
    is_old = _is_old(table, before_ms)
    notes = _count(table, [*gone, *partly], is_old)
    rows = notes[REMOVED]
    if not rows:
        return 0
    kept = sum(file.rows for file in (*gone, *partly)) - rows
    frame = table.read_files(partly).where(~is_old) if partly else None
    table.replace([*gone, *partly], frame, files_max=max(1, len(partly)), rows=kept, notes=notes)
    return rows


def _is_old(table: Table, before_ms: int) -> Column:
    # What does not say when it was stays.
    when = F.col(table.schema.time)
    return F.coalesce(when < F.timestamp_millis(F.lit(before_ms)), F.lit(False))


def _count(table: Table, files: list[FileEntry], is_old: Column) -> dict[str, int]:
    """How many rows are too old: in all, and of the journal by node."""
    rows = table.read_files(files).where(is_old)
    if table.schema.layer != "bronze":
        return {REMOVED: rows.count()}
    by_node = {
        f"{REMOVED}@{row.node}": row["count"] for row in rows.groupBy("node").count().collect()
    }
    return {REMOVED: sum(by_node.values()), **by_node}


def expire_segments(
    directory: Path, coverage: Mapping[str, Coverage], before_ms: int
) -> list[Path]:
    """Remove segments that were sealed before a time and whose rows are all in the lake; which they were.

    A node's newest segment always stays: by its name the exporter knows where to go on. Nodes whose
    segments overlap are left alone; something is wrong there.
    """
    removed = []
    for node, seen in coverage.items():
        for segment in _sealed(directory, node)[:-1]:
            whole = (segment.first, segment.last)
            old = segment.path.stat().st_mtime * 1000 < before_ms
            if old and overlap((whole,), seen) == (whole,):
                segment.path.unlink(missing_ok=True)
                removed.append(segment.path)
    return removed


def _sealed(directory: Path, node: str) -> list[segments.Segment]:
    if not directory.is_dir():
        return []
    try:
        return segments.segments(directory, node)
    except StorageError:
        return []
