"""The storage backends as fixtures: every test that asks for one runs once per backend."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from arauto.storage.base import KeyValueStore, Storage
from arauto.testing.clock import FakeClock
from tests.contract.storage.backends import (
    Backend,
    MemoryBackend,
    PostgresBackend,
    RedisBackend,
    SqliteBackend,
)
from tests.services.fixtures import postgres_server, redis_server
from tests.services.redis import RedisServer

__all__ = ["postgres_server", "redis_server"]

SQL = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


async def make_backend(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    clock = FakeClock()
    match name:
        case "memory":
            return MemoryBackend(clock)
        case "sqlite":
            return SqliteBackend(clock, tmp_path / "data")
        case _:
            server = request.getfixturevalue("postgres_server")
            return PostgresBackend(clock, await server.new_schema())


@pytest.fixture(params=["memory", *SQL])
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Every backend that has all four ports."""
    return await make_backend(request.param, request, tmp_path)


@pytest.fixture(params=SQL)
async def durable_backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Every backend that keeps what it stored."""
    return await make_backend(request.param, request, tmp_path)


@pytest.fixture
async def storage(backend: Backend) -> AsyncIterator[Storage]:
    storage = await backend.open()
    yield storage
    await storage.close()


@pytest.fixture(params=["memory", *SQL, pytest.param("redis", marks=pytest.mark.redis)])
async def kv(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[KeyValueStore]:
    """Every backend's key-value port."""
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        store = await RedisBackend(server.url).open_kv()
        yield store
        await store.close()
        server.flush()
    else:
        storage = await (await make_backend(request.param, request, tmp_path)).open()
        yield storage.kv
        await storage.close()


@pytest.fixture
def strace() -> str:
    """The program that watches system calls, and can send a signal at one."""
    found = shutil.which("strace")
    if found is None:
        pytest.skip("NOT CHECKED: strace is missing; install the package strace")
    return found
