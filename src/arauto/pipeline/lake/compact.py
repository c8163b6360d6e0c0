"""Merges small files of a table, day by day, into few large ones. Rows stay what they are.

A merge is one commit: readers see the old files or the new ones. Whoever appends meanwhile is not
disturbed; whoever replaces the same files first wins, and the merge is planned anew.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.manifest import FileEntry
from arauto.pipeline.lake.table import Table

__all__ = ["DAY_MS", "TARGET_BYTES", "Compacted", "Fold", "Keep", "Merge", "compact", "plan_merges"]

DAY_MS = 86_400_000
#: Large enough that opening it costs little, small enough that skipping it saves something.
TARGET_BYTES = 128 * 1024 * 1024
#: A file of this share of the target is left as it is.
_LARGE = 0.75
_ATTEMPTS_MAX = 5

#: Which files must stay as they are. Asked after the files were listed, so that what is newer than the
#: answer is not among them.
Keep = Callable[[], frozenset[str]]
Fold = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class Merge:
    """Files of one day that become fewer."""

    day: int
    """In days since 1970, of their earliest rows."""
    files: tuple[FileEntry, ...]
    files_max: int
    """How many files they become, at most."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What was merged."""

    files_before: int = 0
    files_after: int = 0
    days: int = 0


def plan_merges(
    files: Iterable[FileEntry],
    kept: frozenset[str],
    *,
    target_bytes: int = TARGET_BYTES,
    files_min: int = 2,
) -> list[Merge]:
    """What is worth merging: days with at least `files_min` small files. Oldest first."""
    days: dict[int, list[FileEntry]] = {}
    for file in files:
        if file.path not in kept and file.size_bytes < _LARGE * target_bytes:
            days.setdefault(file.min_ms // DAY_MS, []).append(file)
    merges = []
    for day, small in sorted(days.items()):
        size_bytes = sum(file.size_bytes for file in small)
        files_max = max(1, round(size_bytes / target_bytes))
        if len(small) >= max(files_min, files_max + 1):
            chosen = sorted(small, key=lambda file: (file.min_ms, file.path))
            merges.append(Merge(day, tuple(chosen), files_max))
    return merges


def compact(
    table: Table,
    keep: Keep,
    *,
    fold: Fold | None = None,
    target_bytes: int = TARGET_BYTES,
    files_min: int = 2,
) -> Compacted:
    """Merge a table's small files.

    Args:
        table: the table.
        keep: says which files must stay as they are.
        fold: makes fewer rows of the merged ones, for tables whose rows can be added up; None = rows stay.
        target_bytes: how large a file is to become.
        files_min: small files of a day from which on merging them is worth it.

    Raises:
        ArautoError: LAKE_BUSY, others keep replacing the same files; LAKE_CORRUPT, a file cannot be trusted.
    """
    for _ in range(_ATTEMPTS_MAX):
        files = tuple(table.state().files.values())
        days = 0
        try:
            for merge in plan_merges(files, keep(), target_bytes=target_bytes, files_min=files_min):
                _merge(table, merge, fold)
                days += 1
        except ArautoError as error:
            if error.code is Code.CONFLICT:
                continue
            raise
        return Compacted(len(files), len(table.state().files), days)
    raise ArautoError(Code.LAKE_BUSY, f"others keep changing {table.schema.name}; try again")


def _merge(table: Table, merge: Merge, fold: Fold | None) -> None:
    frame = table.read_files(merge.files)
    rows = None if fold else sum(file.rows for file in merge.files)
    if fold is not None:
        frame = fold(frame)
    if merge.files_max > 1:
        # Each file gets its own range of hubs, so that readers of one hub can skip the others.
        frame = frame.repartitionByRange(merge.files_max, *table.schema.sort)
    table.replace(merge.files, frame, files_max=merge.files_max, rows=rows)
