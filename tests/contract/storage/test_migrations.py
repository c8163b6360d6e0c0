"""The migrations lead to exactly the schema that is declared, on both engines, however often they run."""

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from arauto.storage import migrate
from arauto.storage.schema import metadata
from arauto.storage.sql.rows import COLUMNS
from tests.services.postgres import PostgresServer


def test_the_newest_revision_is_the_one_the_node_expects() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrate.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_current_head() == migrate.HEAD


def test_the_journals_columns_are_those_of_its_rows() -> None:
    assert tuple(column.name for column in metadata.tables["journal"].columns) == COLUMNS


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


def test_a_url_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="sqlite:///"):
        migrate.upgrade("mysql://host/db")


@pytest.mark.parametrize("name", ["plain.db", "with space.db", "ação?.db", "per%20cent#.db"])
def test_any_file_name_survives_its_url(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert migrate.sqlite_path(migrate.sqlite_url(path)) == path
    migrate.upgrade(migrate.sqlite_url(path))
    assert path.stat().st_size > 0
