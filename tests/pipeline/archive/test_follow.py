"""Tables that follow bronze: each commit once, also after a crash in the middle of a step."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from arauto.pipeline.archive.bronze import take
from arauto.pipeline.archive.follow import DERIVED, QUERY, follow, untaken
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.rollup.merge import merge_rollups
from arauto.pipeline.rollup.partial import partial_rollups
from tests.pipeline.archive.support import journal


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path / "lake")


def _take(lake: Lake, batch_id: int, *rows: dict[str, object]) -> None:
    take(lake.table("journal"), journal(lake.spark, *rows), "archive", batch_id)


def _counts(lake: Lake, *names: str) -> dict[str, int]:
    return {name: lake.table(name).state().rows for name in names}


def test_silver_is_made_of_each_commit_once(lake: Lake) -> None:
    names = ("messages", "subscriptions", "quarantine", "sessions")
    _take(lake, 0, {"seq": 1}, {"seq": 2, "payload": b"{"}, {"seq": 3, "kind": 10})
    assert {name: follow(lake, name) for name in names} == {
        "messages": 3,
        "subscriptions": 3,
        "quarantine": 3,
        "sessions": 0,
    }
    _take(lake, 1, {"seq": 4, "kind": 8})
    _take(lake, 2, {"seq": 5})
    # A commit without rows of its kinds is not even read.
    assert {name: follow(lake, name) for name in names} == {
        "messages": 1,
        "subscriptions": 0,
        "quarantine": 2,
        "sessions": 0,
    }
    assert [follow(lake, name) for name in names] == [0, 0, 0, 0]
    made = _counts(lake, *names)
    assert made == {"messages": 3, "subscriptions": 1, "quarantine": 1, "sessions": 0}


def test_bronze_files_are_untaken_until_every_table_that_needs_them_has_read_them(
    lake: Lake,
) -> None:
    _take(lake, 0, {"seq": 1, "kind": 10})
    files = frozenset(lake.table("journal").state().files)
    needing = {name for name, derived in DERIVED.items() if {10} & (derived.kinds or {10})}
    assert needing == {"subscriptions", "quarantine"}
    for name in sorted(needing):
        assert untaken(lake) == files
        follow(lake, name)
    assert untaken(lake) == frozenset()


def test_a_table_that_begins_now_takes_bronze_that_was_merged_before(lake: Lake) -> None:
    bronze = lake.table("journal")
    _take(lake, 0, {"seq": 1}, {"seq": 2})
    _take(lake, 1, {"seq": 3})
    follow(lake, "quarantine")
    files = list(bronze.state().files.values())
    bronze.replace(files, bronze.read_files(files))
    _take(lake, 2, {"seq": 4})
    # The one that was there takes only what is new.
    assert [follow(lake, name) for name in ("quarantine", "messages", "messages")] == [1, 4, 0]
    assert _counts(lake, "messages") == {"messages": 4}


def test_a_step_that_was_written_and_not_committed_counts_once(lake: Lake) -> None:
    _take(lake, 0, {"seq": 1}, {"seq": 2})
    bronze, table = lake.table("journal"), lake.table("rollup_5m")
    # As if the process had died before the commit.
    table.write(partial_rollups(bronze.read()), QUERY, bronze.state().number)
    assert table.state().rows == 0
    _take(lake, 1, {"seq": 3})
    assert (follow(lake, "rollup_5m"), follow(lake, "rollup_5m")) == (3, 0)
    merged = merge_rollups(table.read(), "day").select("hub", "published")
    assert sorted(tuple(row) for row in merged.collect()) == [("", 3), ("shop", 3)]
