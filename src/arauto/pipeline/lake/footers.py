"""Reads what a Parquet file says about itself: rows, size, time and hub ranges. Never its data."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet  # type: ignore[import-untyped]

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.log import sync
from arauto.pipeline.lake.manifest import FileEntry

__all__ = ["describe_files"]

_HUB = "hub"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def describe_files(table_dir: Path, written: Path, time: str) -> tuple[FileEntry, ...]:
    """Entries of all files with rows under `written`, which are on disk when this returns.

    Args:
        table_dir: what their paths are relative to.
        written: a directory Spark wrote.
        time: the table's column of time.

    Raises:
        ArautoError: LAKE_CORRUPT, a file cannot be read.
    """
    entries = []
    for path in sorted(written.glob("*.parquet")):
        entry = _describe(table_dir, path, time)
        if entry.rows:
            # Spark does not wait for the disk; a commit must not name what a power cut could take.
            sync(path)
            entries.append(entry)
    if entries:
        sync(written)
    return tuple(entries)


def _describe(table_dir: Path, path: Path, time: str) -> FileEntry:
    try:
        footer = pyarrow.parquet.read_metadata(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise ArautoError(Code.LAKE_CORRUPT, f"{path}: {error}") from error
    times = _range(footer, time)
    hubs = _range(footer, _HUB)
    return FileEntry(
        path=path.relative_to(table_dir).as_posix(),
        rows=footer.num_rows,
        size_bytes=path.stat().st_size,
        min_ms=_ms(times[0]) if times else 0,
        # What says nothing about its times may hold any.
        max_ms=_ms(times[1]) if times else (1 << 53),
        first_hub=hubs[0] if hubs else "",
        last_hub=hubs[1] if hubs else "",
    )


def _range(footer: Any, column: str) -> tuple[Any, Any] | None:
    """(smallest, largest) value of a column over all row groups, if every one of them tells."""
    names = footer.schema.to_arrow_schema().names
    if column not in names:
        return None
    # Leaf columns are numbered, and a map has two: found by path.
    index = (
        next(
            i
            for i in range(footer.num_columns)
            if footer.row_group(0).column(i).path_in_schema == column
        )
        if footer.num_row_groups
        else -1
    )
    lows, highs = [], []
    for group in range(footer.num_row_groups):
        statistics = footer.row_group(group).column(index).statistics
        if statistics is None or not statistics.has_min_max:
            return None
        lows.append(statistics.min)
        highs.append(statistics.max)
    return (min(lows), max(highs)) if lows else None


def _ms(value: datetime) -> int:
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    # Whole numbers only: a float of seconds can come out a millisecond early, and the file's last row
    # would not be found.
    return (value - _EPOCH) // timedelta(milliseconds=1)
