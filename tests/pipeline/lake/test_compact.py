"""Small files become few; nothing else changes."""

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from arauto.config.pipeline import RetentionConfig
from arauto.errors import ArautoError, Code
from arauto.pipeline.archive.bronze import take
from arauto.pipeline.archive.follow import DERIVED, follow
from arauto.pipeline.lake.compact import DAY_MS, compact, plan_merges
from arauto.pipeline.lake.manifest import FileEntry
from arauto.pipeline.lake.table import Lake, Table
from arauto.pipeline.rollup.merge import fold_partials, merge_rollups
from arauto.pipeline.upkeep import crowded, keep_up, only_upkeep, stays
from tests.pipeline.archive.support import journal
from tests.pipeline.feed import T0


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path / "lake")


def _file(path: str, day: int, size_bytes: int) -> FileEntry:
    ms = day * DAY_MS
    return FileEntry(path=path, rows=1, size_bytes=size_bytes, min_ms=ms, max_ms=ms)


def _batch(table: Table, batch_id: int, *rows: dict[str, Any]) -> None:
    take(table, journal(table._spark, *rows).coalesce(1), "archive", batch_id)


def _none() -> frozenset[str]:
    return frozenset()


def test_days_with_several_small_files_are_merged_towards_the_target() -> None:
    files = [
        *(_file(f"a{n}", 1, 10) for n in range(30)),
        _file("b1", 2, 10),
        *(_file(f"c{n}", 3, 10) for n in range(3)),
        _file("large", 3, 90),
    ]
    plans = plan_merges(files, frozenset({"c2"}), target_bytes=100)
    assert [(plan.day, len(plan.files), plan.files_max) for plan in plans] == [
        (1, 30, 3),
        (3, 2, 1),
    ]
    assert plan_merges(files, frozenset(), target_bytes=100, files_min=31) == []


def test_merging_keeps_every_row_and_runs_once(lake: Lake) -> None:
    table = lake.table("journal")
    day_s = 86_400
    for batch in range(3):
        at = batch * 10
        _batch(
            table, batch, {"seq": batch * 2 + 1, "at": at}, {"seq": batch * 2 + 2, "at": at + day_s}
        )
    before = sorted(table.read().select("seq", "ts").collect())
    done = compact(table, _none)
    assert (done.files_before, done.days) == (3, 1)
    assert sorted(table.read().select("seq", "ts").collect()) == before
    state = table.state()
    assert (state.rows, state.coverage) == (6, {"n1": ((1, 6),)})
    assert compact(table, _none).days == 0


def test_what_somebody_has_yet_to_read_stays_as_it_is(lake: Lake) -> None:
    table = lake.table("journal")
    for batch in range(3):
        _batch(table, batch, {"seq": batch + 1})
        if batch == 1:
            for name in DERIVED:
                follow(lake, name)
    compact(table, stays(lake, "journal"))
    # The third is still to be read, and is: each row reaches the derived tables once.
    assert sorted(file.commit for file in table.state().files.values()) == [0, 3]
    for name in DERIVED:
        follow(lake, name)
    assert lake.table("messages").state().rows == 3
    assert crowded(lake, 3) == ["messages"]
    keep_up(lake, RetentionConfig(), now_ms=T0, names=("journal", *crowded(lake, 3)))
    assert [len(lake.table(name).state().files) for name in ("journal", "messages")] == [1, 1]
    assert crowded(lake, 2) == []


def test_roll_ups_fold_only_what_was_served_and_keep_their_numbers(lake: Lake) -> None:
    table = lake.table("rollup_5m")
    for batch in range(3):
        _batch(lake.table("journal"), batch, {"seq": batch + 1, "user": f"u{batch}"})
        follow(lake, "rollup_5m")
    (lake.root / "_serving.json").write_text('{"rollup5m": 2}', encoding="utf-8")
    before = merge_rollups(table.read(), "day").collect()
    compact(table, stays(lake, "rollup_5m"), fold=fold_partials)
    # One row for the hub and one for all: of the two folded ones, and of the one still to be served.
    assert sorted((file.commit, file.rows) for file in table.state().files.values()) == [
        (0, 2),
        (3, 2),
    ]
    assert sorted(merge_rollups(table.read(), "day").collect()) == sorted(before)


def test_roll_ups_that_go_to_no_node_are_merged_and_expire(lake: Lake) -> None:
    table = lake.table("rollup_5m")
    for batch in range(2):
        _batch(lake.table("journal"), batch, {"seq": batch + 1})
        follow(lake, "rollup_5m")
    # With a node these are waited for.
    assert "rollup_5m" not in crowded(lake, 2)
    assert "rollup_5m" in crowded(lake, 2, serving=False)
    keep = RetentionConfig(gold_days=1)
    names = ("rollup_5m",)
    keep_up(lake, keep, now_ms=T0, names=names, serving=False)
    assert [file.commit for file in table.state().files.values()] == [0]
    keep_up(lake, keep, now_ms=T0 + 3 * DAY_MS, names=names, serving=False)
    assert table.state().rows == 0


def test_merged_files_go_at_once_without_grace_and_stay_for_readers_with_it(lake: Lake) -> None:
    table = lake.table("journal")
    for batch in range(2):
        _batch(table, batch, {"seq": batch + 1})
    merged = [table.directory / path for path in table.state().files]
    for name in DERIVED:
        follow(lake, name)
    for path in merged:
        os.utime(path, (1, 1))  # Written long ago; it stops to count only now.
    (with_grace,) = keep_up(lake, RetentionConfig(), now_ms=T0, names=("journal",))
    assert with_grace.files_after == 1
    assert (with_grace.files_deleted, all(path.exists() for path in merged)) == (0, True)
    (without,) = keep_up(lake, RetentionConfig(), now_ms=T0, names=("journal",), grace_ms=0)
    assert (without.files_deleted, any(path.exists() for path in merged)) == (2, False)


def test_an_append_in_the_middle_of_a_merge_is_kept(lake: Lake) -> None:
    table = lake.table("journal")
    for batch in range(2):
        _batch(table, batch, {"seq": batch + 1})

    def keep() -> frozenset[str]:
        # After the files were listed, and before they are replaced.
        _batch(lake.table("journal"), 2, {"seq": 3})
        return frozenset()

    compact(table, keep)
    assert sorted(row.seq for row in table.read().select("seq").collect()) == [1, 2, 3]
    assert sorted(file.rows for file in table.state().files.values()) == [1, 2]


def test_a_merge_that_lost_its_files_is_planned_anew(lake: Lake) -> None:
    table, other = lake.table("journal"), lake.table("journal")
    for batch in range(3):
        _batch(table, batch, {"seq": batch + 1})
    calls = []

    def keep() -> frozenset[str]:
        calls.append(1)
        if len(calls) == 1:
            victims = list(other.state().files.values())[:2]
            other.replace(victims, other.read_files(victims))
        return frozenset()

    compact(table, keep)
    assert len(calls) == 2
    assert sorted(row.seq for row in table.read().select("seq").collect()) == [1, 2, 3]
    assert len(table.state().files) == 1


def test_only_one_replaces_files_at_a_time(lake: Lake) -> None:
    with only_upkeep(lake), pytest.raises(ArautoError) as raised, only_upkeep(lake):
        pass
    assert raised.value.code is Code.LAKE_BUSY
