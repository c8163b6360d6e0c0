"""The connection that writes, and the lock that makes it the only one for its partition.

The lock belongs to the server's side of the connection. Whoever holds it therefore knows that no earlier
connection of this node still has a commit under way, and can read off what became of the last one.
"""

import asyncio
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from arauto.errors import Code, StorageError
from arauto.storage.postgres.errors import translate

__all__ = ["CONNECT_TIMEOUT_S", "SERVER_SETTINGS", "Link"]

CONNECT_TIMEOUT_S = 10.0
SERVER_SETTINGS = {
    "application_name": "arauto",
    "synchronous_commit": "on",  # whatever the server's default: acknowledged means on disk
    # A server that does not notice our death would hold the lock for hours.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}

_DELAY_MIN_S = 0.05
_DELAY_MAX_S = 2.0

_POSITION = """
    SELECT greatest(trimmed_seq, coalesce((SELECT max(seq) FROM journal WHERE node = $1), 0)), writes
    FROM journal_partition WHERE node = $1"""
# Locks are the whole database's; the schema's name keeps clusters that share one apart.
_LOCK = """
    SELECT pg_try_advisory_lock(hashtextextended('arauto/' || current_schema() || '/' || $1, 0))"""
_END_OLD = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2"""
_ME = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"


class Link:
    """Opens and reopens the writing connection of one partition."""

    def __init__(self, url: str, node: int, name: str) -> None:
        self._url = url
        self._node = node
        self._name = name
        self._me: tuple[Any, ...] | None = None
        self._delay_s = _DELAY_MIN_S
        self._not_before_s = 0.0
        self._last_error: StorageError | None = None
        self.connection: Any = None

    async def open(self) -> tuple[int, int]:
        """Connect, take the partition and return its (last seq, writes).

        Raises:
            StorageError: no connection, or another process has the partition.
        """
        try:
            return await self._open()
        except BaseException as exc:
            self.drop()
            if isinstance(exc, Exception):
                raise translate(exc) from exc
            raise

    async def reopen(self, patience_s: float) -> tuple[int, int]:
        """Open again after a loss, trying until it works or the patience is used up.

        Between attempts, also those of different calls, lies a growing delay: while it runs and there
        is no patience for it, the last error is the answer.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + patience_s
        while True:
            if self._last_error is not None and self._not_before_s > deadline_s:
                raise self._last_error
            await asyncio.sleep(max(0.0, self._not_before_s - loop.time()))
            try:
                found = await self.open()
            except StorageError as exc:
                self._last_error = exc
                self._not_before_s = loop.time() + self._delay_s
                self._delay_s = min(self._delay_s * 2, _DELAY_MAX_S)
            else:
                self._last_error = None
                self._delay_s = _DELAY_MIN_S
                return found

    def is_open(self) -> bool:
        """Whether there is a connection, as far as this side knows. Nothing sent on a closed one arrives."""
        if self.connection is not None and self.connection.is_closed():
            self.drop()
        return self.connection is not None

    def drop(self) -> None:
        """Let go of a connection that is of no more use."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.terminate()

    async def close(self) -> None:
        """Say goodbye properly, so that the lock is free once this returns."""
        connection, self.connection = self.connection, None
        if connection is not None:
            try:
                await connection.close(timeout=CONNECT_TIMEOUT_S)
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                connection.terminate()

    async def _open(self) -> tuple[int, int]:
        self.connection = connection = await asyncpg.connect(
            self._url, timeout=CONNECT_TIMEOUT_S, server_settings=SERVER_SETTINGS
        )
        if self._me is not None:
            await connection.execute(_END_OLD, *self._me)
        if not await connection.fetchval(_LOCK, self._name):
            raise StorageError(
                Code.STORAGE_UNAVAILABLE,
                f"the journal partition of node {self._name} is in use by another process",
            )
        self._me = tuple(await connection.fetchrow(_ME))
        seq, writes = await connection.fetchrow(_POSITION, self._node)
        return seq, writes
