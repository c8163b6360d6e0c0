"""Brings a database's schema up to date. SQLAlchemy and Alembic are loaded only if there is work to do."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["HEAD", "is_postgres", "sqlite_path", "sqlite_url", "upgrade"]

#: The newest revision, known without loading Alembic. A test compares it with the scripts.
HEAD = "0003"

_SQLITE = "sqlite:///"
_LOCK = (
    0x0A1A_0701  # a number of our own among the server's advisory locks: one migration at a time
)


def is_postgres(url: str) -> bool:
    return url.startswith(("postgresql://", "postgres://"))


def sqlite_url(path: Path) -> str:
    """Return the URL of a SQLite file; `sqlite_path` is its inverse."""
    return f"{_SQLITE}{path.absolute()}"


def sqlite_path(url: str) -> Path:
    """Return the file a SQLite URL names.

    Raises:
        ValueError: it is another kind of URL.
    """
    if not url.startswith(_SQLITE):
        raise ValueError("a storage URL starts with sqlite:/// or postgresql://")
    return Path(url.removeprefix(_SQLITE))


def upgrade(url: str) -> None:
    """Create the tables or bring them up to date; blocks. Running it on a current database does nothing.

    Raises:
        Exception: whatever the driver or Alembic raises; the adapters translate it.
    """
    if is_postgres(url):
        asyncio.run(_upgrade_postgres(url))
    else:
        _upgrade_sqlite(sqlite_path(url))


def _upgrade_sqlite(path: Path) -> None:
    from sqlalchemy import URL, create_engine
    from sqlalchemy.pool import NullPool

    engine = create_engine(URL.create("sqlite", database=str(path)), poolclass=NullPool)
    try:
        # Explicit, because Python's driver otherwise runs DDL outside of any transaction.
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA synchronous = FULL")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            _run(connection)
            connection.commit()
    finally:
        engine.dispose()


async def _upgrade_postgres(url: str) -> None:
    import asyncpg  # type: ignore[import-untyped]
    from sqlalchemy import text
    from sqlalchemy.ext.asyncio import create_async_engine
    from sqlalchemy.pool import NullPool

    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(url), poolclass=NullPool
    )
    try:
        async with engine.begin() as connection:
            await connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
            await connection.run_sync(_run)
    finally:
        await engine.dispose()


def _run(connection: "Connection") -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    to_head: Callable[[Config, str], None] = command.upgrade
    to_head(config, "head")
