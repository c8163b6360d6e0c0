"""One face for every storage backend, so that a contract is written once and runs over all of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from arauto.storage.base import KeyValueStore, Storage, WriteLimits
from arauto.storage.memory import open_memory
from arauto.storage.postgres import open_postgres
from arauto.storage.redis import open_redis
from arauto.storage.sqlite import open_sqlite
from arauto.testing.clock import FakeClock

__all__ = [
    "Backend",
    "MemoryBackend",
    "PostgresBackend",
    "RedisBackend",
    "SqliteBackend",
]


class Backend(Protocol):
    """Opens a storage that stays the same place however often it is opened."""

    keeps: bool
    """Whether what was stored is there after closing and opening again."""
    clock: FakeClock

    async def open(self, node: str = "node-a", limits: WriteLimits | None = None) -> Storage: ...


@dataclass
class MemoryBackend:
    clock: FakeClock
    keeps: bool = False

    async def open(self, node: str = "node-a", limits: WriteLimits | None = None) -> Storage:
        return open_memory(self.clock)


@dataclass
class SqliteBackend:
    clock: FakeClock
    directory: Path
    keeps: bool = True

    async def open(self, node: str = "node-a", limits: WriteLimits | None = None) -> Storage:
        return await open_sqlite(self.directory, node, self.clock, limits)


@dataclass
class PostgresBackend:
    clock: FakeClock
    url: str
    keeps: bool = True

    async def open(self, node: str = "node-a", limits: WriteLimits | None = None) -> Storage:
        return await open_postgres(self.url, node, self.clock, limits)


@dataclass
class RedisBackend:
    """Has the key-value port only, and its server's clock."""

    url: str

    async def open_kv(self) -> KeyValueStore:
        return await open_redis(self.url)
