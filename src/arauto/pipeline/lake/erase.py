"""Erases what is known of a user of a hub, for ever.

Rows of the journal stay as places: node, seq, time, hub and kind, so that counts still add up; all else of
them goes. Rows of the typed tables go altogether. Files that held them are deleted at once. Rules that run
read of it in a list (`erasures.py`), and forget.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.compact import Keep
from arauto.pipeline.lake.erasures import note_erasure
from arauto.pipeline.lake.manifest import FileEntry, select
from arauto.pipeline.lake.table import Lake, Table
from arauto.pipeline.schemas import TABLES

__all__ = ["ERASED", "TABLES_OF_USERS", "Erased", "erase_user", "erased_rows", "other_rows"]

#: What `origin` of an erased row says. Only the node writes this column, so nobody can pretend.
ERASED = "erased"
_NOTE = "rowsErased"
_PLACE = frozenset({"node", "seq", "kind", "ts", "hub"})

#: Tables that say who. Others, such as roll-ups, hold counts and hashes only.
TABLES_OF_USERS = tuple(name for name, table in TABLES.items() if "user" in table.columns.names)


@dataclass(frozen=True, slots=True)
class Erased:
    """What was done to a table."""

    table: str
    rows: int
    files: int
    """Files that were written anew."""


def erased_rows(frame: DataFrame, hub: str, user: str) -> DataFrame:
    """Journal rows with the user's emptied of all but their places."""
    mine = _is_of(hub, user)
    columns = []
    for name in frame.columns:
        value = {"user": F.lit(""), "origin": F.lit(ERASED)}.get(name, F.lit(None))
        kept = F.col(name) if name in _PLACE else F.when(mine, value).otherwise(F.col(name))
        columns.append(kept.alias(name))
    return frame.select(*columns)


def other_rows(frame: DataFrame, hub: str, user: str) -> DataFrame:
    """All rows but the user's."""
    return frame.where(~_is_of(hub, user))


def erase_user(
    lake: Lake,
    hub: str,
    user: str,
    keep: Keep,
    on_table: Callable[[Erased], None] = lambda _: None,
) -> list[Erased]:
    """Erase a user from all tables. Doing it again finds nothing, and finishes what was interrupted.

    Call it as the only one that replaces files of this lake.

    Args:
        lake: the lake.
        hub: the hub of the user.
        user: who.
        keep: which files of the journal some table has yet to read; the user's must not be among them.
        on_table: told of each table when it is done.

    Raises:
        ArautoError: BAD_FIELD, no user was named; LAKE_BUSY, rows of the user have not reached all tables.
    """
    if not user:
        raise ArautoError(Code.BAD_FIELD, "name the user to erase", field="user")
    # Before all else, so that rules forget even if the rest is interrupted.
    note_erasure(lake.root, hub, user, time.time_ns() // 1_000_000)
    # The journal first: what is derived from it later can then no longer name the user.
    done = []
    for name in TABLES_OF_USERS:
        table = lake.table(name)
        done.append(_erase(table, hub, user, keep if name == "journal" else frozenset))
        on_table(done[-1])
    return done


def _erase(table: Table, hub: str, user: str, keep: Keep) -> Erased:
    found = _files_of(table, hub, user)
    if any(file.path in keep() for file, _ in found):
        raise ArautoError(
            Code.LAKE_BUSY,
            "some of the user's rows have not reached all tables yet: let the pipeline catch up first",
        )
    change = erased_rows if table.schema.layer == "bronze" else other_rows
    for file, count in found:
        left = file.rows if table.schema.layer == "bronze" else file.rows - count
        frame = change(table.read_files([file]), hub, user)
        table.replace([file], frame, rows=left, notes={_NOTE: count})
    # Also what earlier merges left behind: it may hold the user's rows, too.
    for path in table.leftovers():
        path.unlink(missing_ok=True)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    return Erased(table.schema.name, sum(count for _, count in found), len(found))


def _files_of(table: Table, hub: str, user: str) -> list[tuple[FileEntry, int]]:
    """Files with rows of the user, and how many."""
    files = select(table.state().files.values(), hub=hub)
    if not files:
        return []
    # Names are unique: each holds an id of the job that wrote it.
    by_name = {file.path.rpartition("/")[2]: file for file in files}
    counted = (
        table.read_files(files)
        .where(_is_of(hub, user))
        .groupBy(F.col("_metadata.file_name").alias("name"))
        .count()
        .collect()
    )
    return [(by_name[row["name"]], row["count"]) for row in counted]


def _is_of(hub: str, user: str) -> Column:
    # Null-safe: a row without a user is somebody else's.
    return F.col("hub").eqNullSafe(hub) & F.col("user").eqNullSafe(user)
