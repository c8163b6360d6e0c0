"""Queries beside the writer, in a few threads with a connection each."""

import asyncio
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from arauto.errors import Code, StorageError
from arauto.storage.sql.rows import Row
from arauto.storage.sqlite.connection import connect_reader, parameters
from arauto.storage.sqlite.errors import translate

__all__ = ["SqliteReaders"]


class SqliteReaders:
    """A pool of read-only connections, opened on use."""

    def __init__(self, path: Path, threads: int = 2) -> None:
        self._path = path
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="arauto-sqlite-reader")
        self._mine = threading.local()
        self._open: set[sqlite3.Connection] = set()
        self._closed = False

    async def fetch(self, sql: str, params: tuple[Any, ...]) -> list[Row]:
        """Run a query in a thread.

        Raises:
            StorageError: it failed, or the storage is closed.
        """
        if self._closed:
            raise StorageError(Code.STORAGE_UNAVAILABLE, "the storage is closed")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._fetch, sql, params)

    def close(self) -> None:
        """Wait for the queries under way, then close. Blocks."""
        self._closed = True
        self._pool.shutdown()
        for connection in list(self._open):
            connection.close()
        self._open.clear()

    def _fetch(self, sql: str, params: tuple[Any, ...]) -> list[Row]:
        try:
            connection: sqlite3.Connection | None = getattr(self._mine, "connection", None)
            if connection is None:
                connection = connect_reader(self._path)
                self._mine.connection = connection
                self._open.add(connection)
            return connection.execute(sql, parameters(params)).fetchall()
        except (sqlite3.Error, OSError, ValueError, OverflowError) as exc:
            self._forget()
            raise translate(exc, self._path.parent) from exc

    def _forget(self) -> None:
        connection: sqlite3.Connection | None = getattr(self._mine, "connection", None)
        if connection is not None:
            self._mine.connection = None
            self._open.discard(connection)
            connection.close()
