"""Reads a journal partition from outside of the node that writes it. Used by the exporter's process."""

import asyncio
import sqlite3
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Protocol

from arauto.errors import Code, StorageError
from arauto.storage import migrate
from arauto.storage.incarnation import INCARNATIONS, stretches
from arauto.storage.sql.rows import SELECT_ROWS, Row
from arauto.storage.sqlite.connection import connect_reader, parameters
from arauto.storage.sqlite.errors import translate as sqlite_error

__all__ = ["JournalSource", "Partition", "open_source"]

_CONNECT_TIMEOUT_S = 10.0

_PARTITION = """
    SELECT node, trimmed_seq, coalesce((SELECT max(seq) FROM journal j WHERE j.node = p.node), 0)
    FROM journal_partition p WHERE name = $1"""
_PAGE = f"{SELECT_ROWS} WHERE node = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4"


class JournalSource(Protocol):
    """Committed rows of one database."""

    def fetch(self, sql: str, *params: Any) -> list[Row]: ...

    def close(self) -> None: ...


class _SqliteSource:
    def __init__(self, path: Path) -> None:
        self._directory = path.parent
        try:
            self._connection = connect_reader(path)
        except sqlite3.Error as exc:
            raise sqlite_error(exc, path.parent) from exc

    def fetch(self, sql: str, *params: Any) -> list[Row]:
        try:
            return self._connection.execute(sql, parameters(params)).fetchall()
        except sqlite3.Error as exc:
            raise sqlite_error(exc, self._directory) from exc

    def close(self) -> None:
        self._connection.close()


class _PostgresSource:
    def __init__(self, url: str) -> None:
        # Here and not above, because the driver is installed only where PostgreSQL is used.
        import asyncpg  # type: ignore[import-untyped]

        self._runner = asyncio.Runner()
        self._connection: Any = self._run(asyncpg.connect(url, timeout=_CONNECT_TIMEOUT_S))

    def fetch(self, sql: str, *params: Any) -> list[Row]:
        rows: list[Row] = self._run(self._connection.fetch(sql, *params))
        return rows

    def close(self) -> None:
        self._run(self._connection.close())
        self._runner.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        from arauto.storage.postgres.errors import translate

        try:
            return self._runner.run(work)
        except Exception as exc:
            raise translate(exc) from exc


class Partition:
    """One node's rows.

    Attributes:
        trimmed: everything up to here was exported before and may be gone.
        last: the newest committed seq when the partition was opened.
        stretches: its rows by incarnation, in order.
    """

    def __init__(self, source: JournalSource, name: str) -> None:
        rows = source.fetch(_PARTITION, name)
        if not rows:
            raise StorageError(Code.STORAGE_FAILED, f"there is no journal partition {name!r}")
        self._source = source
        self._node, self.trimmed, newest = rows[0]
        self.last = max(self.trimmed, newest)
        self.stretches = stretches(name, source.fetch(INCARNATIONS, self._node), self.last)

    def page(self, after: int, upto: int, limit: int) -> list[Row]:
        return self._source.fetch(_PAGE, self._node, after, upto, limit)


def open_source(url: str) -> JournalSource:
    """Connect to the database a storage URL names."""
    if migrate.is_postgres(url):
        return _PostgresSource(url)
    return _SqliteSource(migrate.sqlite_path(url))
