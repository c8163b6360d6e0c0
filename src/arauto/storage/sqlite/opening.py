"""Opens the embedded storage: lock, check, migrate, find this node's partition, start the threads."""

import asyncio
import logging
import sqlite3
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from arauto.clock import Clock
from arauto.errors import Code, StorageError
from arauto.storage import migrate
from arauto.storage.base import Storage, StorageCounters, WriteLimits
from arauto.storage.checks import check_text
from arauto.storage.incarnation import (
    BEGUN,
    INCARNATIONS,
    KEEP_INCARNATION,
    Incarnation,
    following,
)
from arauto.storage.sql.documents import SqlDocumentStore
from arauto.storage.sql.group import GroupQueue
from arauto.storage.sql.journal import SqlJournal
from arauto.storage.sql.kv import SqlKeyValueStore
from arauto.storage.sql.rows import Row
from arauto.storage.sql.settings import SqlSettingsStore
from arauto.storage.sqlite.connection import connect_writer, parameters
from arauto.storage.sqlite.errors import translate
from arauto.storage.sqlite.files import DirectoryLock, Mark, sync_directory
from arauto.storage.sqlite.readers import SqliteReaders
from arauto.storage.sqlite.writer import SqliteWriter

__all__ = ["DATABASE_NAME", "open_sqlite"]

_log = logging.getLogger(__name__)

DATABASE_NAME = "arauto.db"
_VERSION_MIN = (3, 37, 0)  # strict tables, RETURNING
_PARTITIONS = """
    SELECT node, name, max(trimmed_seq, coalesce((SELECT max(seq) FROM journal j WHERE j.node = p.node), 0))
    FROM journal_partition p ORDER BY node"""
_CHECK_BYTES_MAX = 64 * 1024 * 1024  # about a second


class _SqliteEngine:
    """The open database: what `SqlEngine` asks for."""

    def __init__(
        self, node: int, queue: GroupQueue, writer: SqliteWriter, readers: SqliteReaders
    ) -> None:
        self.node = node
        self.queue = queue
        self._writer = writer
        self._readers = readers
        self.files: list[DirectoryLock | Mark] = []
        self._closing: asyncio.Future[None] | None = None

    async def fetch(self, sql: str, *params: Any) -> list[Row]:
        return await self._readers.fetch(sql, params)

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self.queue.flush()
        self.queue.close()
        await asyncio.to_thread(self._release)

    def _release(self) -> None:
        # Readers first: the last connection to close folds the log into the database.
        self._readers.close()
        self._writer.stop()
        for file in self.files:
            file.release()


async def open_sqlite(
    directory: Path,
    node: str,
    clock: Clock,
    limits: WriteLimits | None = None,
    *,
    check_bytes_max: int = _CHECK_BYTES_MAX,
) -> Storage:
    """Open (or create) the storage in a data directory for the node of this name.

    Args:
        check_bytes_max: databases up to this size are checked from end to end before use.

    Raises:
        StorageError: STORAGE_UNAVAILABLE if another node uses the directory, STORAGE_CORRUPT if what
            lies there is damaged or acknowledged writes are missing, STORAGE_READ_ONLY, STORAGE_FULL.
    """
    check_text(node=node)
    limits = limits or WriteLimits()
    counters = StorageCounters()
    opened = await asyncio.to_thread(
        _open_files, directory, node, limits, check_bytes_max, clock.wall_ms()
    )
    number, seq, writer, files = opened
    loop = asyncio.get_running_loop()
    queue = GroupQueue(loop, limits, counters, writer.sink)
    queue.last_seq = seq
    engine = _SqliteEngine(number, queue, writer, SqliteReaders(directory / DATABASE_NAME))
    engine.files = files
    writer.start(loop, queue.complete)
    return Storage(
        journal=SqlJournal(engine),
        settings=SqlSettingsStore(engine),
        kv=SqlKeyValueStore(engine, clock),
        documents=SqlDocumentStore(engine),
        counters=counters,
        url=migrate.sqlite_url(directory / DATABASE_NAME),
        close=engine.close,
    )


def _open_files(
    directory: Path, node: str, limits: WriteLimits, check_bytes_max: int, now_ms: int
) -> tuple[int, int, SqliteWriter, list[DirectoryLock | Mark]]:
    try:
        with ExitStack() as undo:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = DirectoryLock(directory)
            undo.callback(lock.release)
            mark = Mark(directory)
            undo.callback(mark.release)
            number = _prepare(directory / DATABASE_NAME, node, check_bytes_max)
            writer = SqliteWriter(directory / DATABASE_NAME, number, mark, limits)
            undo.callback(writer.stop)
            found = writer.open()
            sync_directory(directory)
            _compare(mark, number, found)
            _note_incarnations(directory / DATABASE_NAME, mark, now_ms)
            undo.pop_all()
    except Exception as exc:
        raise translate(exc, directory) from exc
    return number, found[0], writer, [lock, mark]


def _prepare(path: Path, node: str, check_bytes_max: int) -> int:
    """Check and migrate the file; return the number of this node's partition."""
    if sqlite3.sqlite_version_info < _VERSION_MIN:
        wanted = ".".join(map(str, _VERSION_MIN))
        raise StorageError(
            Code.STORAGE_FAILED, f"SQLite {sqlite3.sqlite_version} is too old; {wanted} is needed"
        )
    connection = connect_writer(path)
    try:
        _check(connection, path, check_bytes_max)
        revision = _revision(connection)
        if revision != migrate.HEAD:
            if revision is not None and revision > migrate.HEAD:
                raise StorageError(
                    Code.STORAGE_FAILED,
                    f"the database is of a newer version ({revision}); this node knows {migrate.HEAD}",
                )
            migrate.upgrade(migrate.sqlite_url(path))
        return _partition(connection, node)
    finally:
        connection.close()


def _check(connection: sqlite3.Connection, path: Path, check_bytes_max: int) -> None:
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
    if pages * page_bytes > check_bytes_max:
        _log.info("the database has %d MB; its pages are not checked", pages * page_bytes >> 20)
        return
    result = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if result != "ok":
        raise StorageError(
            Code.STORAGE_CORRUPT, f"the database file {path} is damaged ({result.splitlines()[0]})"
        )


def _revision(connection: sqlite3.Connection) -> str | None:
    tables = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'")
    if not tables.fetchall():
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return row[0] if row else None


def _partition(connection: sqlite3.Connection, node: str) -> int:
    connection.execute("BEGIN IMMEDIATE")
    row = connection.execute(
        "SELECT node FROM journal_partition WHERE name = ?", (node,)
    ).fetchone()
    if row is None:
        row = connection.execute(
            "INSERT INTO journal_partition (node, name) "
            "SELECT coalesce(max(node), 0) + 1, ? FROM journal_partition RETURNING node",
            (node,),
        ).fetchone()
    connection.execute("COMMIT")
    return int(row[0])


def _note_incarnations(path: Path, mark: Mark, now_ms: int) -> None:
    """Begin another life of every partition, if the database was restored or moved."""
    connection = connect_writer(path)
    try:
        connection.execute("BEGIN IMMEDIATE")
        for number, name, last_seq in connection.execute(_PARTITIONS).fetchall():
            rows = connection.execute(INCARNATIONS, parameters((number,))).fetchall()
            wanted = following(
                [Incarnation(*row) for row in rows],
                last_seq=last_seq,
                place="",
                moved=not mark.is_original and last_seq > 0,
                now_ms=now_ms,
            )
            for each in wanted:
                connection.execute(KEEP_INCARNATION, parameters((number, *each)))
            if wanted and wanted[-1].name:
                _log.warning(BEGUN, name, wanted[-1].first_seq)
        connection.execute("COMMIT")
    finally:
        connection.close()


def _compare(mark: Mark, node: int, found: tuple[int, int]) -> None:
    marked = mark.read(node)
    if marked[0] > found[0] or marked[1] > found[1]:
        raise StorageError(
            Code.STORAGE_CORRUPT,
            "acknowledged writes are missing: the database ends at "
            f"seq {found[0]}/{found[1]}, acknowledged was {marked[0]}/{marked[1]}. "
            f"Restore a backup, or remove {mark.path} to go on without them",
        )
