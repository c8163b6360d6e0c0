"""Opens the PostgreSQL storage: migrate, find this node's partition, take its lock, start the writer."""

import asyncio
import logging
from typing import Any

import asyncpg  # type: ignore[import-untyped]

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
from arauto.storage.postgres.errors import is_lost, quiet_driver, translate
from arauto.storage.postgres.link import CONNECT_TIMEOUT_S, SERVER_SETTINGS, Link
from arauto.storage.postgres.writer import PostgresWriter
from arauto.storage.sql.documents import SqlDocumentStore
from arauto.storage.sql.group import GroupQueue
from arauto.storage.sql.journal import SqlJournal
from arauto.storage.sql.kv import SqlKeyValueStore
from arauto.storage.sql.rows import Row
from arauto.storage.sql.settings import SqlSettingsStore

__all__ = ["open_postgres"]

_CLOSE_GRACE_S = 10.0
_QUERY_TIMEOUT_S = 30.0

_FIND = "SELECT node FROM journal_partition WHERE name = $1"
_CREATE = """
    INSERT INTO journal_partition (node, name)
    SELECT coalesce(max(node), 0) + 1, $1 FROM journal_partition ON CONFLICT DO NOTHING"""

_MAY_ASK = "SELECT has_function_privilege('pg_control_system()', 'execute')"
_SERVER = "SELECT system_identifier::text FROM pg_control_system()"
# A base backup that is recovered, and a standby that takes over, begin a new timeline.
_HISTORY = """
    SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8) || '/' || 'journal'::regclass::oid"""

_log = logging.getLogger(__name__)


class _PostgresEngine:
    """The open database: what `SqlEngine` asks for."""

    def __init__(self, node: int, queue: GroupQueue, writer: PostgresWriter, pool: Any) -> None:
        self.node = node
        self.queue = queue
        self._writer = writer
        self._pool = pool
        self._closing: asyncio.Future[None] | None = None

    async def fetch(self, sql: str, *params: Any) -> list[Row]:
        try:
            return await self._fetch(sql, params)
        except Exception as exc:
            if not is_lost(exc) or self._closing is not None:
                raise translate(exc) from exc
        # A connection that died in the pool: reading twice does no harm.
        try:
            return await self._fetch(sql, params)
        except Exception as exc:
            raise translate(exc) from exc

    async def _fetch(self, sql: str, params: tuple[Any, ...]) -> list[Row]:
        async with self._pool.acquire(timeout=CONNECT_TIMEOUT_S) as connection:
            rows: list[Row] = await connection.fetch(sql, *params, timeout=_QUERY_TIMEOUT_S)
            return rows

    async def close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self.queue.close()
        await self._writer.stop(_CLOSE_GRACE_S)
        self._pool.terminate()


async def open_postgres(
    url: str,
    node: str,
    clock: Clock,
    limits: WriteLimits | None = None,
    *,
    readers_max: int = 4,
) -> Storage:
    """Open the storage in a PostgreSQL database for the node of this name.

    Args:
        url: postgresql://user:password@host:port/database
        readers_max: connections for queries, beside the one that writes.

    Raises:
        StorageError: STORAGE_UNAVAILABLE if there is no connection or another process uses this node's
            partition; STORAGE_FAILED if the schema is of a newer version.
    """
    check_text(node=node)
    quiet_driver()
    limits = limits or WriteLimits()
    counters = StorageCounters()
    try:
        number = await _prepare(url, node)
    except Exception as exc:
        raise translate(exc) from exc
    link = Link(url, number, node)
    position = await link.open()
    try:
        await _note_incarnation(link.connection, number, node, position[0], clock.wall_ms())
    except Exception as exc:
        link.drop()
        raise translate(exc) from exc
    writer = PostgresWriter(link, number, position, limits)
    queue = GroupQueue(asyncio.get_running_loop(), limits, counters, writer.sink)
    queue.last_seq = position[0]
    pool = await asyncpg.create_pool(
        url,
        min_size=0,
        max_size=readers_max,
        timeout=CONNECT_TIMEOUT_S,
        server_settings=SERVER_SETTINGS,
    )
    writer.start(queue.complete, queue.hold_off)
    engine = _PostgresEngine(number, queue, writer, pool)
    return Storage(
        journal=SqlJournal(engine),
        settings=SqlSettingsStore(engine),
        kv=SqlKeyValueStore(engine, clock),
        documents=SqlDocumentStore(engine),
        counters=counters,
        url=url,
        close=engine.close,
    )


async def _prepare(url: str, node: str) -> int:
    """Migrate if needed; return the number of this node's partition."""
    connection = await asyncpg.connect(url, timeout=CONNECT_TIMEOUT_S)
    try:
        revision = await _revision(connection)
        if revision is not None and revision > migrate.HEAD:
            raise StorageError(
                Code.STORAGE_FAILED,
                f"the database is of a newer version ({revision}); this node knows {migrate.HEAD}",
            )
        if revision != migrate.HEAD:
            await asyncio.to_thread(migrate.upgrade, url)
        while (number := await connection.fetchval(_FIND, node)) is None:
            # Another node may take the same number at the same time; then this changes nothing.
            await connection.execute(_CREATE, node)
        return int(number)
    finally:
        await connection.close()


async def _note_incarnation(
    connection: Any, number: int, node: str, last_seq: int, now_ms: int
) -> None:
    """Begin another life of the partition, if its tables are not where it was left: a dump was put in their
    place, or the server went back in time or gave way to a standby. The lock is held."""
    place = await _place(connection)
    known = [Incarnation(*row) for row in await connection.fetch(INCARNATIONS, number)]
    wanted = following(
        known,
        last_seq=last_seq,
        place=place,
        moved=bool(known) and known[-1].place != place,
        now_ms=now_ms,
    )
    for each in wanted:
        await connection.execute(KEEP_INCARNATION, number, *each)
    if wanted and wanted[-1].name:
        _log.warning(BEGUN, node, wanted[-1].first_seq)


async def _place(connection: Any) -> str:
    """What differs after a restore: the server, its history, or the table."""
    server = "?"
    if await connection.fetchval(_MAY_ASK):
        server = await connection.fetchval(_SERVER)
    return f"{server}/{await connection.fetchval(_HISTORY)}"


async def _revision(connection: Any) -> str | None:
    if await connection.fetchval("SELECT to_regclass('alembic_version')") is None:
        return None
    revision: str | None = await connection.fetchval("SELECT version_num FROM alembic_version")
    return revision
