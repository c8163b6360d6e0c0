"""Derived tables: made from the commits of bronze, each commit once, whatever happens in between.

How far a derived table has come is the batch number of its own last commit, which is the number of a bronze
commit. Table and place change in one step, so there is nothing that could disagree after a crash; and each
table has its own place, so none waits for another.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import structlog
from pyspark.sql import DataFrame

from arauto.pipeline.archive.silver import KINDS_OF, SILVER, quarantine
from arauto.pipeline.lake.manifest import FileEntry, State
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.rollup.partial import ROLLUP_KINDS, partial_rollups

__all__ = ["DERIVED", "QUERY", "Derived", "follow", "follow_all", "pending", "untaken"]

_log = structlog.get_logger(__name__)

QUERY = "journal"
#: Rows taken in one step while catching up, about; bounds one step's time.
_ROWS_MAX = 5_000_000


@dataclass(frozen=True, slots=True)
class Derived:
    """How a table is made of bronze rows."""

    make: Callable[[DataFrame], DataFrame]
    kinds: frozenset[int] | None
    """The kinds of rows it is made of; None = any. A commit without them costs nothing."""


DERIVED: Mapping[str, Derived] = {
    # First, because somebody looks at it live.
    "rollup_5m": Derived(partial_rollups, ROLLUP_KINDS),
    **{name: Derived(make, KINDS_OF[name]) for name, make in SILVER.items()},
    "quarantine": Derived(quarantine, None),
}


def pending(
    bronze: State, after: int, kinds: frozenset[int] | None = None
) -> tuple[list[FileEntry], int]:
    """(files of later batches with rows of these kinds, the last of their commits).

    At least one commit; more as long as they stay within a step's size.
    """
    later = sorted(
        (f for f in bronze.files.values() if f.commit > after and _concerns(f, kinds)),
        key=lambda file: file.commit,
    )
    taken: list[FileEntry] = []
    rows = 0
    for file in later:
        if rows + file.rows > _ROWS_MAX and taken and file.commit != taken[-1].commit:
            break
        taken.append(file)
        rows += file.rows
    return taken, taken[-1].commit if taken else after


def follow(lake: Lake, name: str) -> int:
    """Bring one derived table up to date; how many rows of bronze that took."""
    bronze, table, derived = lake.table("journal"), lake.table(name), DERIVED[name]
    rows = 0
    while True:
        place = _place(table.state())
        files, last = pending(bronze.state(), place, derived.kinds)
        if not files:
            return rows
        frame = derived.make(bronze.read_files(files))
        table.append(frame, query=QUERY, batch_id=last)
        rows += sum(file.rows for file in files)


def follow_all(lake: Lake, on_table: Callable[[str, Callable[[], int]], object]) -> None:
    """Bring every derived table up to date; one that fails never holds the next one back.

    Args:
        lake: the lake.
        on_table: given each table's name and the work, which it is to call once.

    Raises:
        Exception: what the first table failed with, after all others have had their turn.
    """
    failed: Exception | None = None
    for name in DERIVED:
        try:
            on_table(name, partial(follow, lake, name))
        except Exception as error:
            _log.error("a table could not follow the journal", table=name, error=str(error)[:500])
            failed = failed or error
    if failed is not None:
        raise failed


def untaken(lake: Lake) -> frozenset[str]:
    """Paths of bronze files that some derived table has yet to read; they must stay as they are."""
    state = lake.table("journal").state()
    waiting: set[str] = set()
    for name, derived in DERIVED.items():
        place = _place(lake.table(name).state())
        waiting.update(
            file.path
            for file in state.files.values()
            if file.commit > place and _concerns(file, derived.kinds)
        )
    return frozenset(waiting)


def _place(derived: State) -> int:
    """The last bronze commit that a table has taken. Merged files count as commit 0, which every table has
    taken before they were merged, but for one that begins now."""
    return derived.batches.get(QUERY, 0) if derived.number else -1


def _concerns(file: FileEntry, kinds: frozenset[int] | None) -> bool:
    return kinds is None or not file.kinds or not kinds.isdisjoint(file.kinds)
