"""Keeps a lake in shape: merges small files, drops what is too old, deletes what no longer counts."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from arauto.config.addresses import UPKEEP
from arauto.config.pipeline import RetentionConfig
from arauto.errors import ArautoError, Code
from arauto.pipeline.archive.follow import follow_all, untaken
from arauto.pipeline.context import only_writer
from arauto.pipeline.lake.compact import Keep, compact, plan_merges
from arauto.pipeline.lake.retention import cutoff_ms, expire
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.rollup.merge import fold_partials
from arauto.pipeline.rollup.serve import served
from arauto.pipeline.schemas import TABLES

__all__ = ["GRACE_MS", "Kept", "crowded", "keep_up", "only_upkeep", "settled", "stays"]

#: How long files stay on disk after they stopped to count: a query that began before still reads them.
GRACE_MS = 3_600_000
_LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Kept:
    """What was done to a table."""

    table: str
    files_before: int
    files_after: int
    rows_removed: int
    files_deleted: int


@contextmanager
def only_upkeep(lake: Lake) -> Iterator[None]:
    """Be the only one that replaces files of this lake. Batches are still appended meanwhile.

    Raises:
        ArautoError: LAKE_BUSY.
    """
    with only_writer(lake.root / UPKEEP):
        yield


def stays(lake: Lake, name: str, *, serving: bool = True) -> Keep:
    """Which files of a table somebody has yet to read commit by commit.

    Without `serving` (the pipeline has no admin token) nobody ever reads roll-ups that way.
    """
    if name == "journal":
        return lambda: untaken(lake)
    if name == "rollup_5m" and serving:
        return lambda: _unserved(lake)
    return frozenset


def crowded(lake: Lake, files_min: int, *, serving: bool = True) -> list[str]:
    """Tables with so many small files of one day that merging them is due. `serving` as for `stays`."""
    names = []
    for name in TABLES:
        files = lake.table(name).state().files.values()
        if plan_merges(files, stays(lake, name, serving=serving)(), files_min=files_min):
            names.append(name)
    return names


def keep_up(
    lake: Lake,
    retention: RetentionConfig,
    *,
    now_ms: int,
    names: Sequence[str] = tuple(TABLES),
    files_min: int = 2,
    grace_ms: int = GRACE_MS,
    serving: bool = True,
    on_table: Callable[[Kept], None] = lambda _: None,
) -> list[Kept]:
    """Look after some tables. Call it as the only one (`only_upkeep`).

    Args:
        lake: the lake.
        retention: how long to keep what.
        now_ms: the time, by which retention counts its days.
        names: which tables.
        files_min: small files of a day from which on they are merged.
        grace_ms: how long files stay on disk after they stopped to count.
        serving: whether roll-ups go to a node, so that those it has not seen stay as they are.
        on_table: told of each table when it is done.

    Raises:
        ArautoError: LAKE_BUSY, LAKE_CORRUPT, CONFLICT.
    """
    days = {
        "bronze": retention.bronze_days,
        "silver": retention.silver_days,
        "gold": retention.gold_days,
    }
    done = []
    for name in names:
        table, keep = lake.table(name), stays(lake, name, serving=serving)
        before_ms = cutoff_ms(now_ms, days[table.schema.layer])
        removed = expire(table, keep, before_ms) if before_ms is not None else 0
        fold = fold_partials if name == "rollup_5m" else None
        merged = compact(table, keep, fold=fold, files_min=files_min)
        # By the clock of the files, which is past `now_ms` after a long merge.
        deleted = table.vacuum(time.time_ns() // 1_000_000 - grace_ms)
        done.append(Kept(name, merged.files_before, merged.files_after, removed, deleted))
        on_table(done[-1])
    return done


def _unserved(lake: Lake) -> frozenset[str]:
    last = served(lake)
    files = lake.table("rollup_5m").state().files.values()
    return frozenset(file.path for file in files if file.commit > last)


@contextmanager
def settled(lake: Lake, *, wait_s: float) -> Iterator[None]:
    """Have all tables up to date with the journal's: by our own work, or by the pipeline that runs.

    Raises:
        ArautoError: LAKE_BUSY, the running pipeline does not catch up in time.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(only_writer(lake.root))
        except ArautoError as error:
            if error.code is not Code.LAKE_BUSY:
                raise
            _wait(lake, wait_s)
        else:
            follow_all(lake, lambda _, work: work())
        yield


def _wait(lake: Lake, wait_s: float) -> None:
    behind = untaken(lake)
    until_s = time.monotonic() + wait_s
    while behind & untaken(lake):
        if time.monotonic() > until_s:
            raise ArautoError(
                Code.LAKE_BUSY, f"the running pipeline did not catch up within {wait_s:g} s"
            )
        time.sleep(_LOOK_EVERY_S)
