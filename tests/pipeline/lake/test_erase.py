"""A user is erased from every table and every file; places and other people's rows stay."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from arauto.errors import ArautoError, Code
from arauto.pipeline.archive.bronze import take
from arauto.pipeline.archive.follow import DERIVED, follow
from arauto.pipeline.check import check_lake
from arauto.pipeline.lake.erase import ERASED, TABLES_OF_USERS, erase_user
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.upkeep import settled, stays
from tests.pipeline.archive.support import at, journal

_SECRET = "maria-the-secret"


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path / "lake")


def _fill(lake: Lake) -> None:
    mine: dict[str, Any] = {
        "user": _SECRET,
        "session": f"s-{_SECRET}",
        "channel": f"inbox:{_SECRET}",
    }
    mine |= {"payload": json.dumps({"text": _SECRET}).encode(), "headers": {"from": _SECRET}}
    rows = [
        {**mine, "seq": 1},
        {"seq": 2, "user": "bob"},
        *({**mine, "seq": seq, "kind": kind} for seq, kind in enumerate((2, 3, 4, 10), 3)),
        {**mine, "seq": 7, "payload": f"{{{_SECRET}".encode()},
        {"seq": 8, "user": _SECRET, "hub": "other"},
    ]
    take(lake.table("journal"), journal(lake.spark, *rows).coalesce(1), "archive", 0)


def _on_disk(lake: Lake, table: str) -> bool:
    """Whether the name stands in any file of a table, committed or not."""
    places = (lake.table(table).directory / "data").rglob("*.parquet")
    for path in places:
        for row in lake.spark.read.parquet(str(path)).where("hub <> 'other'").collect():
            if _SECRET in str(row):
                return True
    return False


def test_nothing_of_the_user_is_left_in_any_file_and_all_else_is(lake: Lake) -> None:
    _fill(lake)
    for name in DERIVED:
        follow(lake, name)
    # An earlier merge whose files still lie there.
    messages = lake.table("messages")
    merged = list(messages.state().files.values())
    messages.replace(merged, messages.read_files(merged))
    assert all(_on_disk(lake, name) for name in TABLES_OF_USERS)

    done = {
        each.table: each.rows for each in erase_user(lake, "shop", _SECRET, stays(lake, "journal"))
    }
    expected = {"journal": 6, "messages": 2, "sessions": 1, "session_starts": 1, "refusals": 1}
    assert done == {**expected, "subscriptions": 1, "quarantine": 1}
    assert not any(_on_disk(lake, name) for name in TABLES_OF_USERS)
    rows = lake.table("journal").read().orderBy("seq").collect()
    assert [(row.seq, row.kind, row.ts.timestamp()) for row in rows] == [
        (seq, kind, at(seq).timestamp()) for seq, kind in enumerate((1, 1, 2, 3, 4, 10, 1, 1), 1)
    ]
    first, second = rows[:2]
    assert (first.user, first.origin, first.payload, first.headers) == ("", ERASED, None, None)
    assert (second.user, bytes(second.payload), second.channel) == ("bob", b"{}", "stock:1")
    assert rows[7].user == _SECRET
    assert sorted(row.user for row in messages.read().collect()) == ["bob", _SECRET]
    assert {each.rows for each in erase_user(lake, "shop", _SECRET, stays(lake, "journal"))} == {0}
    assert check_lake(lake, lake.root / "none", lambda: None).problems == []


def test_rows_that_tables_have_yet_to_read_are_waited_for(lake: Lake) -> None:
    _fill(lake)
    with pytest.raises(ArautoError) as raised:
        erase_user(lake, "shop", _SECRET, stays(lake, "journal"))
    assert raised.value.code is Code.LAKE_BUSY
    # While another pipeline holds the lake, it has to do the work; else we do it.
    with settled(lake, wait_s=0):
        take(lake.table("journal"), journal(lake.spark, {"seq": 9}), "archive", 1)
        with pytest.raises(ArautoError) as raised, settled(lake, wait_s=0):
            pass
    assert raised.value.code is Code.LAKE_BUSY
    assert lake.table("messages").state().rows == 4


def test_nobody_cannot_be_erased(lake: Lake) -> None:
    with pytest.raises(ArautoError) as raised:
        erase_user(lake, "shop", "", stays(lake, "journal"))
    assert raised.value.code is Code.BAD_FIELD
