"""The servers as session fixtures. A conftest imports the ones its tests use."""

from collections.abc import Iterator

import pytest

from tests.services.postgres import PostgresServer
from tests.services.redis import RedisServer

__all__ = ["postgres_server", "redis_server"]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running PostgreSQL, shared by the session; tests use databases of their own."""
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A running Redis, shared by the session; tests use hubs of their own or flush it."""
    server = RedisServer()
    yield server
    server.remove()
