"""One face for every storage backend, so that a contract is written once and runs over all of them."""

import contextlib
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import asyncpg  # type: ignore[import-untyped]

from arauto.storage.base import KeyValueStore, Storage, WriteLimits
from arauto.storage.memory import open_memory
from arauto.storage.postgres import open_postgres
from arauto.storage.redis import open_redis
from arauto.storage.sqlite import DATABASE_NAME, open_sqlite
from arauto.testing.clock import FakeClock

__all__ = [
    "Backend",
    "MemoryBackend",
    "PostgresBackend",
    "RedisBackend",
    "SqliteBackend",
]

_TABLES = "SELECT tablename::text FROM pg_tables WHERE schemaname = $1 ORDER BY 1"


class Backend(Protocol):
    """Opens a storage that stays the same place however often it is opened."""

    keeps: bool
    """Whether what was stored is there after closing and opening again."""
    clock: FakeClock

    async def open(self, node: str = "node-a", limits: WriteLimits | None = None) -> Storage: ...

    async def back_up(self) -> None:
        """Keep a copy of all there is, as an administrator would. Of what keeps anything."""

    async def restore(self) -> None:
        """Put the copy in the place of what is there; nothing is open."""


@dataclass
class MemoryBackend:
    clock: FakeClock
    keeps: bool = False

    async def open(self, node: str = "node-a", limits: WriteLimits | None = None) -> Storage:
        return open_memory(self.clock)

    async def back_up(self) -> None:
        raise NotImplementedError

    async def restore(self) -> None:
        raise NotImplementedError


@dataclass
class SqliteBackend:
    clock: FakeClock
    directory: Path
    keeps: bool = True

    async def open(self, node: str = "node-a", limits: WriteLimits | None = None) -> Storage:
        return await open_sqlite(self.directory, node, self.clock, limits)

    async def back_up(self) -> None:
        with contextlib.closing(sqlite3.connect(self.directory / DATABASE_NAME)) as database:
            database.execute("VACUUM INTO ?", (str(self._copy),))

    async def restore(self) -> None:
        shutil.rmtree(self.directory)
        self.directory.mkdir()
        shutil.copy(self._copy, self.directory / DATABASE_NAME)

    @property
    def _copy(self) -> Path:
        return self.directory.with_suffix(".backup")


@dataclass
class PostgresBackend:
    clock: FakeClock
    url: str
    keeps: bool = True

    async def open(self, node: str = "node-a", limits: WriteLimits | None = None) -> Storage:
        return await open_postgres(self.url, node, self.clock, limits)

    async def back_up(self) -> None:
        await self._copy_schema("", "_backup")

    async def restore(self) -> None:
        await self._copy_schema("_backup", "")

    async def _copy_schema(self, source: str, target: str) -> None:
        """All tables with their contents, as `pg_dump` and `psql` would bring them over."""
        schema = self.url.rpartition("search_path=")[2]
        connection = await asyncpg.connect(self.url)
        await connection.execute(f"DROP SCHEMA IF EXISTS {schema}{target} CASCADE")
        await connection.execute(f"CREATE SCHEMA {schema}{target}")
        for row in await connection.fetch(_TABLES, f"{schema}{source}"):
            old, new = f"{schema}{source}.{row[0]}", f"{schema}{target}.{row[0]}"
            await connection.execute(f"CREATE TABLE {new} (LIKE {old} INCLUDING ALL)")
            await connection.execute(f"INSERT INTO {new} SELECT * FROM {old}")
        await connection.close()


@dataclass
class RedisBackend:
    """Has the key-value port only, and its server's clock."""

    url: str

    async def open_kv(self) -> KeyValueStore:
        return await open_redis(self.url)
