"""One Spark for all tests of a process: starting one takes longer than most tests."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from arauto.pipeline.session import open_spark
from arauto.testing.clock import FakeClock
from tests.contract.storage.backends import PostgresBackend, SqliteBackend
from tests.pipeline.feed import Feed
from tests.pipeline.waiting import LAST_RESORT_S
from tests.services.fixtures import postgres_server
from tests.services.postgres import PostgresServer

__all__ = ["postgres_server"]

#: Compile only a little: tests end before thorough compilation pays.
_QUICK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.compactOnCommit": "false",
}


#: Starting Spark and its workers takes a while on a busy machine.
_TIMEOUT_S = LAST_RESORT_S


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    made: Path = tmp_path_factory.mktemp("spark")
    with open_spark("arauto-tests", made, master="local[2]", more=_QUICK) as session:
        yield session


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def any_feed(request: pytest.FixtureRequest, tmp_path: Path) -> Feed:
    """An empty journal in each kind of database."""
    if request.param == "sqlite":
        return _sqlite_feed(tmp_path)
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = asyncio.run(server.new_schema())
    return Feed(PostgresBackend(FakeClock(), url), tmp_path)


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    """An empty journal in SQLite."""
    return _sqlite_feed(tmp_path)


def _sqlite_feed(directory: Path) -> Feed:
    return Feed(SqliteBackend(FakeClock(), directory / "data"), directory)
