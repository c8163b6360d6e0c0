"""No query of the journal reads more than it needs: each goes through the index made for it."""

import re
import sqlite3
from pathlib import Path

import pytest

from arauto.model import Direction
from arauto.storage import migrate
from arauto.storage.sql import journal
from arauto.storage.sqlite.connection import parameters


@pytest.fixture
def database(tmp_path: Path) -> sqlite3.Connection:
    path = tmp_path / "plans.db"
    migrate.upgrade(migrate.sqlite_url(path))
    return sqlite3.connect(path)


@pytest.mark.parametrize(
    ("sql", "indexes"),
    [
        (journal._HISTORY_BY_DIRECTION[Direction.FORWARD], ["journal_message"]),
        (journal._HISTORY_BY_DIRECTION[Direction.BACKWARD], ["journal_message"]),
        (journal._LAST, ["journal_message"]),
        (journal._LAST_BEFORE, ["journal_signpost"]),
        (journal._FIRST_AFTER, ["journal_signpost"]),
        (journal._READ, ["sqlite_autoindex_journal_1"]),
        (journal._TRIM_OTHERS, ["sqlite_autoindex_journal_1"]),
        (journal._EXPIRED, ["journal_expiry", "journal_message"]),
        (journal._DELETE_LIST, ["sqlite_autoindex_journal_1"]),
    ],
)
def test_each_statement_uses_its_index_and_sorts_nothing(
    database: sqlite3.Connection, sql: str, indexes: list[str]
) -> None:
    count = max(int(number) for number in re.findall(r"\$(\d+)", sql))
    plan = database.execute("EXPLAIN QUERY PLAN " + sql, parameters([1] * count)).fetchall()
    database.close()
    steps = "\n".join(row[3] for row in plan)
    assert "SCAN" not in steps
    assert "TEMP B-TREE" not in steps
    for index in indexes:
        assert f"INDEX {index} " in steps


def test_the_last_message_of_each_channel_is_found_without_looking_at_others(
    database: sqlite3.Connection,
) -> None:
    """A hub of 20,000 stored channels took a minute: half its messages were looked at for each."""
    columns = 'node, seq, kind, ts_ms, hub, channel, epoch, "offset", session, user, content_type, '
    columns += "id, key, exclude, expires_ms, payload, crc"
    values = "1, ?, 1, 1, 'shop', ?, 5, ?, '', '', '', '', '', '', 0, x'', 0"

    def steps(channels_len: int) -> int:
        database.execute("DELETE FROM journal")
        for n in range(channels_len * 3):
            row = (n, f"c:{n // 3:06}", n % 3)
            database.execute(f"INSERT INTO journal ({columns}) VALUES ({values})", row)
        count = 0

        def step() -> int:
            nonlocal count
            count += 1
            return 0

        database.set_progress_handler(step, 10)
        asked = parameters(["shop", "", "\U0010ffff", 10_000, 0])
        found = database.execute(journal._PLACES, asked).fetchall()
        database.set_progress_handler(None, 0)
        assert len(found) == channels_len
        return count

    few, many = steps(50), steps(1_000)
    database.close()
    assert many < 25 * few
