"""A table for Spark: append a batch once, read what matters, put new files in the place of others."""

import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.coverage import Coverage
from arauto.pipeline.lake.footers import describe_files
from arauto.pipeline.lake.log import CommitLog
from arauto.pipeline.lake.manifest import Commit, FileEntry, State, select
from arauto.pipeline.schemas import TABLES, TableSchema

__all__ = ["Lake", "Table", "Written"]

_BATCH = re.compile(r"data/q=(?P<query>[^/]+)/b=(?P<number>\d+)")
_QUERY = re.compile(r"[a-z][a-z0-9_.@-]{0,63}\Z")

#: Until what a batch wrote is this old, the batch may still be about to commit it.
_UNFINISHED_MS = 3_600_000


class Written:
    """A batch that is on disk and does not count yet."""

    def __init__(self, directory: Path, files: tuple[FileEntry, ...]) -> None:
        self.directory = directory
        self.files = files

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def discard(self) -> None:
        """Take it off the disk again, because it is not to be committed."""
        shutil.rmtree(self.directory, ignore_errors=True)


class Table:
    """One table of a lake."""

    def __init__(self, spark: SparkSession, directory: Path, schema: TableSchema) -> None:
        self._spark = spark
        self.directory = directory
        self.schema = schema
        self._log = CommitLog(directory, schema.version)

    def state(self) -> State:
        """Which files count now, and how far each query has come."""
        return self._log.state()

    def is_committed(self, query: str, batch_id: int) -> bool:
        """Whether this batch is done."""
        return batch_id <= self.state().batches.get(query, -1)

    def append(self, frame: DataFrame, *, query: str, batch_id: int) -> bool:
        """Add a batch of a query. Whether it was new: what is committed already is left alone.

        A batch that was written and not committed before a crash is written again to the same place.
        """
        if self.is_committed(query, batch_id):
            return False
        return self.commit(self.write(frame, query, batch_id), query, batch_id)

    def write(self, frame: DataFrame, query: str, batch_id: int, part: str = "") -> Written:
        """Put a batch on disk without committing it. Repeating it overwrites."""
        if not _QUERY.match(query):
            raise ValueError(f"not a query's name: {query!r}")
        return self._write(frame, self.directory / "data" / f"q={query}" / f"b={batch_id}{part}")

    def commit(
        self,
        written: Written,
        query: str,
        batch_id: int,
        *,
        coverage: Mapping[str, Coverage] | None = None,
        kinds: Sequence[int] = (),
        notes: Mapping[str, int] | None = None,
    ) -> bool:
        """Make a written batch count, also if it has no rows. Whether it was new."""
        files = tuple(msgspec.structs.replace(file, kinds=tuple(kinds)) for file in written.files)

        def decide(state: State) -> Commit | None:
            if batch_id <= state.batches.get(query, -1):
                return None
            return Commit(
                number=state.number + 1,
                made_ms=_now_ms(),
                schema_version=self.schema.version,
                query=query,
                batch_id=batch_id,
                added=files,
                coverage=coverage or {},
                notes=notes or {},
            )

        return self._log.commit(decide) is not None

    def read(
        self,
        *,
        from_ms: int | None = None,
        to_ms: int | None = None,
        hub: str | None = None,
        state: State | None = None,
    ) -> DataFrame:
        """Rows of a time (`to_ms` exclusive) and hub; without either, all. As of a `state`, else of now."""
        counting = (state or self.state()).files.values()
        files = select(counting, from_ms=from_ms, to_ms=to_ms, hub=hub)
        frame = self.read_files(files)
        when = F.col(self.schema.time)
        if from_ms is not None:
            frame = frame.where(when >= F.timestamp_millis(F.lit(from_ms)))
        if to_ms is not None:
            frame = frame.where(when < F.timestamp_millis(F.lit(to_ms)))
        if hub is not None:
            frame = frame.where(F.col("hub") == hub)
        return frame

    def read_files(self, files: Sequence[FileEntry]) -> DataFrame:
        """Rows of these files; columns they lack are null."""
        if not files:
            return self._spark.createDataFrame([], self.schema.columns)
        paths = [str(self.directory / file.path) for file in files]
        return self._spark.read.schema(self.schema.columns).parquet(*paths)

    def replace(
        self,
        removed: Sequence[FileEntry],
        frame: DataFrame | None,
        *,
        files_max: int = 1,
        rows: int | None = None,
        notes: Mapping[str, int] | None = None,
    ) -> State:
        """Put the rows of `frame` (None = nothing) in the place of some files, in one step.

        Args:
            removed: the files that no longer count.
            frame: what takes their place.
            files_max: files that it becomes, at most.
            rows: how many rows it must have; None = any.
            notes: what the commit is to say.

        Raises:
            ArautoError: CONFLICT, one of them was replaced by somebody else meanwhile; LAKE_CORRUPT, there
                are not as many rows as there must be, and nothing was changed.
        """
        added: tuple[FileEntry, ...] = ()
        if frame is not None:
            place = self.directory / "data" / f"c={secrets.token_hex(8)}"
            added = self._write(frame, place, files_max).files
        found = sum(file.rows for file in added)
        if rows is not None and found != rows:
            raise ArautoError(
                Code.LAKE_CORRUPT, f"{self.schema.name}: {found} rows came out where {rows} went in"
            )
        gone = tuple(file.path for file in removed)

        def decide(state: State) -> Commit | None:
            if not all(path in state.files for path in gone):
                raise ArautoError(Code.CONFLICT, f"{self.schema.name} changed meanwhile; try again")
            return Commit(
                number=state.number + 1,
                made_ms=_now_ms(),
                schema_version=self.schema.version,
                added=added,
                removed=gone,
                notes=notes or {},
            )

        # Readers that began before the commit need these for a while, counted from now. Before the commit, so
        # that a crash in between leaves no file that looks as if it had stopped to count long ago.
        for path in gone:
            _touch(self.directory / path)
        state = self._log.commit(decide)
        return state if state is not None else self.state()

    def vacuum(self, older_than_ms: int) -> int:
        """Delete files on disk that stopped to count before that time; how many there were.

        What stopped to count later may have readers. Files of a batch that is not committed stay for an hour
        at least, whatever the time: their batch may be in progress. Only for whoever is the only one to
        replace files just now, as `leftovers`.
        """
        state = self.state()
        unfinished_ms = min(older_than_ms, _now_ms() - _UNFINISHED_MS)

        def is_over(path: Path) -> bool:
            done = _is_done(path.relative_to(self.directory).as_posix(), state)
            return _is_older(path, older_than_ms if done else unfinished_ms)

        counting = {str(self.directory / path) for path in state.files}
        deleted = 0
        for path in (self.directory / "data").rglob("*.parquet"):
            if str(path) not in counting and is_over(path):
                path.unlink(missing_ok=True)
                deleted += 1
        _remove_empty(self.directory / "data", is_over)
        return deleted

    def leftovers(self) -> list[Path]:
        """Files on disk that no longer count and that no batch in progress can own.

        Only for whoever is the only one to replace files just now: a merge in progress is not told apart.
        """
        state = self.state()
        found = []
        for path in (self.directory / "data").rglob("*.parquet"):
            relative = path.relative_to(self.directory).as_posix()
            if relative not in state.files and _is_done(relative, state):
                found.append(path)
        return found

    def _write(self, frame: DataFrame, place: Path, files_max: int | None = None) -> Written:
        columns = [F.col(field.name).cast(field.dataType) for field in self.schema.columns]
        frame = frame.select(*columns)
        if files_max is not None:
            frame = frame.coalesce(files_max)
        sorted_frame = frame.sortWithinPartitions(*self.schema.sort)
        sorted_frame.write.mode("overwrite").parquet(str(place))
        return Written(place, describe_files(self.directory, place, self.schema.time))


class Lake:
    """All tables below one directory."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.root = root.resolve()

    def table(self, name: str) -> Table:
        schema = TABLES[name]
        return Table(self.spark, self.root / schema.layer / name, schema)

    def checkpoint(self, query: str, version: int) -> Path:
        """Where a streaming query keeps its place. A plan that cannot go on from an old one gets a new
        version."""
        return self.root / "_checkpoints" / query / f"v{version}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _is_older(path: Path, than_ms: int) -> bool:
    try:
        return path.stat().st_mtime * 1000 < than_ms
    except FileNotFoundError:
        return False  # its writer was quicker


def _is_done(path: str, state: State) -> bool:
    """Whether the batch that wrote a file is committed; what was merged always is."""
    batch = _BATCH.match(path)
    return batch is None or int(batch["number"]) <= state.batches.get(batch["query"], -1)


def _touch(path: Path) -> None:
    # Without the right to, the file's age is that of its contents: it goes sooner, and nothing else happens.
    with suppress(OSError):
        os.utime(path)


def _remove_empty(directory: Path, is_over: Callable[[Path], bool]) -> None:
    # Batches lie two levels deep, merged files one.
    for path in (*directory.glob("q=*/*"), *directory.glob("c=*")):
        idle = path.is_dir() and is_over(path)
        if idle and not any(path.rglob("*.parquet")):
            shutil.rmtree(path, ignore_errors=True)
