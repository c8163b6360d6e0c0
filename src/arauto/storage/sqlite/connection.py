"""How this adapter opens SQLite: the settings that make "committed" mean "on disk"."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

__all__ = ["connect_reader", "connect_writer", "parameters"]

_BUSY_S = 5.0  # only a person's shell or a backup can be in the way; nodes keep each other out


def connect_writer(path: Path) -> sqlite3.Connection:
    """Open for writing. The caller keeps it to one thread at a time and begins transactions itself."""
    connection = sqlite3.connect(
        path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=64
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # sync the log before a commit returns
        connection.execute(
            "PRAGMA wal_autocheckpoint = 0"
        )  # the writer does it after acknowledging
        connection.execute("PRAGMA journal_size_limit = 67108864")
        connection.execute("PRAGMA cache_size = -16384")
        connection.execute("PRAGMA secure_delete = FAST")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open for reading only. Each query sees what was committed when it began."""
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=ro",
        uri=True,
        timeout=_BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute("PRAGMA cache_size = -4096")
    except BaseException:
        connection.close()
        raise
    return connection


def parameters(values: Iterable[Any]) -> dict[str, Any]:
    """The values of a statement's `$1`, `$2` …, which to SQLite are names.

    Numbers (`?1`) would take a sequence as it is; Python warns of that since 3.12 and refuses it from 3.14.
    """
    return {str(number): value for number, value in enumerate(values, 1)}
