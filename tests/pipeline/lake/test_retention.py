"""What is too old goes, whole days at a time; the count of rows still adds up."""

import os
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from arauto.config.pipeline import RetentionConfig
from arauto.pipeline.archive.bronze import take
from arauto.pipeline.archive.follow import DERIVED, follow
from arauto.pipeline.lake.compact import DAY_MS
from arauto.pipeline.lake.coverage import count
from arauto.pipeline.lake.retention import cutoff_ms, expire_segments, removed_rows
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.upkeep import keep_up
from tests.pipeline.archive.support import journal
from tests.pipeline.feed import T0, Feed, beat

_DAY_S = 86_400


def test_days_are_whole_and_none_means_for_ever() -> None:
    now = 10 * DAY_MS + 12_345
    assert (cutoff_ms(now, 0), cutoff_ms(now, 3)) == (None, 7 * DAY_MS)


def test_old_files_go_straddling_ones_are_rewritten_and_rows_add_up(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(spark, tmp_path / "lake")
    bronze = lake.table("journal")
    batches: list[list[dict[str, Any]]] = [
        [{"seq": 1, "at": 0}, {"seq": 2, "at": 60, "node": "n2"}],
        [{"seq": 2, "at": 120}, {"seq": 3, "at": 2 * _DAY_S}],
        [{"seq": 4, "at": 3 * _DAY_S}],
    ]
    for number, rows in enumerate(batches):
        take(bronze, journal(spark, *rows).coalesce(1), "archive", number)
    now_ms = T0 + 3 * DAY_MS
    keep = RetentionConfig(bronze_days=1, silver_days=2)
    # Not read by the derived tables yet: nothing may go.
    keep_up(lake, keep, now_ms=now_ms, names=("journal",), files_min=99)
    assert bronze.state().rows == 5
    for name in DERIVED:
        follow(lake, name)
    (done,) = keep_up(lake, keep, now_ms=now_ms, names=("journal",), files_min=99)
    state = bronze.state()
    assert (done.rows_removed, state.rows) == (3, 2)
    for node, rows_left in (("n1", 2), ("n2", 0)):
        assert count(state.coverage[node]) - removed_rows(state.notes, node) == rows_left
    assert sorted(row.seq for row in bronze.read().collect()) == [3, 4]
    # Silver has its own time; with nothing to do nothing is committed.
    number = state.number
    keep_up(lake, keep, now_ms=now_ms, names=("journal", "messages"), files_min=99)
    assert bronze.state().number == number
    assert lake.table("messages").state().rows == 2


def test_segments_go_when_they_are_old_and_all_their_rows_are_in_the_lake(
    feed: Feed,
) -> None:
    feed.write(*(beat(n) for n in range(8)))
    feed.export(rows_max=2)
    paths = sorted(feed.segments.glob("seg-*"))
    for path in (paths[0], paths[1], paths[3]):
        os.utime(path, (1, 1))
    # The second is not whole in the lake, the third is young, the fourth the newest.
    covered = {"n1": ((1, 3), (5, 8))}
    assert expire_segments(feed.segments, covered, 2_000) == [paths[0]]
    assert sorted(feed.segments.glob("seg-*")) == paths[1:]
    feed.write(beat(9))
    assert feed.export() == 9
