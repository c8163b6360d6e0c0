"""Derived tables: made from bronze commit by commit, each commit once, whatever happens in between.

A follower's place is the number of the last bronze commit it took, kept as the batch number of the tables
it writes. There is nothing else to remember, so there is nothing that could disagree after a crash.
"""

from collections.abc import Callable
from itertools import groupby

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arauto.pipeline.archive.silver import KINDS_OF, SILVER, quarantine
from arauto.pipeline.lake.manifest import FileEntry, State
from arauto.pipeline.lake.table import Lake

__all__ = ["FOLLOWERS", "Derive", "follow", "followed", "pending", "to_silver"]

#: Commits taken in one go while catching up; bounds one step's size.
_COMMITS_MAX = 50
#: The tables by whose places the followers' progress is known.
FOLLOWERS = {"silver": "quarantine", "rollup": "rollup_5m"}

Derive = Callable[[Lake, DataFrame, int], None]


def followed(lake: Lake, follower: str) -> int:
    """The last bronze commit a follower took."""
    return lake.table(FOLLOWERS[follower]).state().batches.get(follower, 0)


def pending(state: State, after: int) -> list[tuple[int, list[FileEntry]]]:
    """Files of batches committed later, by commit, oldest first."""
    later = sorted(
        (file for file in state.files.values() if file.commit > after), key=lambda f: f.commit
    )
    return [(number, list(files)) for number, files in groupby(later, key=lambda f: f.commit)]


def follow(lake: Lake, follower: str, derive: Derive) -> int:
    """Take all bronze commits that are new to a follower; how many there were.

    Args:
        lake: the lake.
        follower: its name.
        derive: makes and commits the derived rows of some bronze rows, under a batch number. It is called
            again with the same number and rows if it did not come to its end.
    """
    bronze = lake.table("journal")
    taken = 0
    while True:
        waiting = pending(bronze.state(), followed(lake, follower))[:_COMMITS_MAX]
        if not waiting:
            return taken
        # One commit at a time keeps batch numbers and rows together; a repeated step is the same step.
        for number, files in waiting:
            derive(lake, bronze.read_files(files), number)
            taken += 1


def to_silver(lake: Lake, rows: DataFrame, number: int) -> None:
    """Derive all silver tables from some bronze rows."""
    kinds = {row.kind for row in rows.groupBy("kind").agg(F.lit(1)).collect()}
    for name, make in SILVER.items():
        if kinds & KINDS_OF[name]:
            lake.table(name).append(make(rows), query="silver", batch_id=number)
    # Last, and always: its place is the follower's.
    lake.table("quarantine").append(quarantine(rows), query="silver", batch_id=number)
