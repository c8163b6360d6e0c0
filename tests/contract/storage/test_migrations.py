"""The migrations lead to exactly the schema that is declared, on both engines, however often they run."""

import asyncio
import contextlib
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from zlib import crc32

import asyncpg  # type: ignore[import-untyped]
import msgspec
import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from arauto.storage import migrate
from arauto.storage.base import Storage
from arauto.storage.schema import metadata
from arauto.storage.sql.rows import COLUMNS
from arauto.storage.sqlite.connection import parameters
from arauto.testing.clock import FakeClock
from tests.contract.storage.backends import PostgresBackend, SqliteBackend
from tests.contract.storage.journal_helpers import append_all, message, query
from tests.services.postgres import PostgresServer


def test_the_newest_revision_is_the_one_the_node_expects() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrate.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_current_head() == migrate.HEAD


def test_the_journals_columns_are_those_of_its_rows() -> None:
    # Not in their order: columns that were added later stand at the end of the table.
    assert {column.name for column in metadata.tables["journal"].columns} == set(COLUMNS)


def _sqlite_objects(path: Path) -> dict[str, str]:
    connection = sqlite3.connect(path)
    rows = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"
    ).fetchall()
    connection.close()
    return {name: " ".join(sql.split()) for name, sql in rows if name != "alembic_version"}


def test_sqlite_migrations_and_declared_tables_agree(tmp_path: Path) -> None:
    migrated, declared = tmp_path / "migrated.db", tmp_path / "declared.db"
    migrate.upgrade(migrate.sqlite_url(migrated))
    migrate.upgrade(migrate.sqlite_url(migrated))
    engine = create_engine(f"sqlite:///{declared}")
    metadata.create_all(engine)
    engine.dispose()
    assert _sqlite_objects(migrated) == _sqlite_objects(declared)
    assert all("STRICT" in sql for sql in _sqlite_objects(migrated).values() if "TABLE" in sql)


_COLUMNS = """
    SELECT table_name, column_name, data_type, is_nullable, column_default, collation_name
    FROM information_schema.columns WHERE table_schema = current_schema()
      AND table_name <> 'alembic_version' ORDER BY 1, ordinal_position"""
_INDEXES = """
    SELECT regexp_replace(indexdef, ' ON [^.]+[.]', ' ON ') FROM pg_indexes
    WHERE schemaname = current_schema() AND tablename <> 'alembic_version' ORDER BY 1"""


async def _postgres_objects(url: str) -> list[list[Any]]:
    connection = await asyncpg.connect(url)
    try:
        return [[tuple(row) for row in await connection.fetch(sql)] for sql in (_COLUMNS, _INDEXES)]
    finally:
        await connection.close()


@pytest.mark.postgres
async def test_postgres_migrations_and_declared_tables_agree(
    postgres_server: PostgresServer,
) -> None:
    migrated, declared = await postgres_server.new_schema(), await postgres_server.new_schema()
    await asyncio.to_thread(migrate.upgrade, migrated)

    def create(connection: Connection) -> None:
        metadata.create_all(connection)

    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(declared)
    )
    async with engine.begin() as connection:
        await connection.run_sync(create)
    await engine.dispose()
    found = await _postgres_objects(migrated)
    assert found == await _postgres_objects(declared)
    assert len(found[0]) > 40
    assert any("kind = 1" in row[0] for row in found[1])


@pytest.mark.postgres
async def test_nodes_that_start_together_migrate_once(postgres_server: PostgresServer) -> None:
    url = await postgres_server.new_schema()
    with ThreadPoolExecutor(4) as pool:
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(pool, migrate.upgrade, url) for _ in range(4)))
    connection = await asyncpg.connect(url)
    assert await connection.fetchval("SELECT version_num FROM alembic_version") == migrate.HEAD
    await connection.close()


# A journal row as the first version wrote it.
_OLD_ROW = (1, 1, 1, 5, "shop", "a", 3, 4, "s", "ann", "", "i", "", "", None, 0, b"x")
_OLD_CRC = crc32(msgspec.msgpack.encode(_OLD_ROW))
_OLD_COLUMNS = [name for name in COLUMNS if name != "origin"]
_OLD_INSERT = "INSERT INTO journal ({}) VALUES ({})".format(
    ", ".join(f'"{name}"' for name in _OLD_COLUMNS),
    ", ".join(f"${number}" for number in range(1, len(_OLD_COLUMNS) + 1)),
)
_OLD_PARTITION = "INSERT INTO journal_partition (node, name) VALUES (1, 'node-a')"


def _to_first_version(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrate.__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "0001")


async def _check_upgraded(storage: Storage) -> None:
    """What the first version wrote is there, and rows of today go beside it."""
    try:
        new = message(5, epoch=3, channel="a", origin="http 10.0.0.7")
        await append_all(storage.journal, [new])
        rows = [entry for _, entry in await storage.journal.read(0, 10)]
        assert [(entry.offset, entry.id, entry.origin) for entry in rows] == [
            (4, "i", ""),
            (5, "", "http 10.0.0.7"),
        ]
        found = await storage.journal.history(query(channel="a"))
        assert [each.offset for each in found] == [4, 5]
    finally:
        await storage.close()


async def test_a_sqlite_database_of_the_first_version_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "arauto.db"
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        _to_first_version(connection)
    engine.dispose()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(_OLD_PARTITION)
        old = (*_OLD_ROW, _OLD_CRC)
        database.execute(_OLD_INSERT, parameters(old))
    await _check_upgraded(await SqliteBackend(FakeClock(), tmp_path).open())


@pytest.mark.postgres
async def test_a_postgres_database_of_the_first_version_goes_on(
    postgres_server: PostgresServer,
) -> None:
    url = await postgres_server.new_schema()
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(url)
    )
    async with engine.begin() as connection:
        await connection.run_sync(_to_first_version)
    await engine.dispose()
    database = await asyncpg.connect(url)
    await database.execute(_OLD_PARTITION)
    await database.execute(_OLD_INSERT, *_OLD_ROW, _OLD_CRC)
    await database.close()
    await _check_upgraded(await PostgresBackend(FakeClock(), url).open())


def test_a_url_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="sqlite:///"):
        migrate.upgrade("mysql://host/db")


@pytest.mark.parametrize("name", ["plain.db", "with space.db", "ação?.db", "per%20cent#.db"])
def test_any_file_name_survives_its_url(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert migrate.sqlite_path(migrate.sqlite_url(path)) == path
    migrate.upgrade(migrate.sqlite_url(path))
    assert path.stat().st_size > 0
