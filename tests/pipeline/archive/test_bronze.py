"""Segments into bronze: every row once, whatever the feed looks like."""

import shutil
from pathlib import Path

import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession

from arauto.pipeline.archive.bronze import Taken, take
from arauto.pipeline.lake.coverage import gaps
from arauto.pipeline.lake.table import Lake
from tests.pipeline.archive.support import journal, places, take_segments
from tests.pipeline.feed import Feed, beat, message


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path / "lake")


def test_every_row_of_every_node_comes_once_over_several_runs(lake: Lake, feed: Feed) -> None:
    feed.write(*(message(n) for n in range(5)), beat(6))
    feed.write(message(3), message(4), node="n2")
    feed.export(rows_max=2)
    feed.export("n2")
    assert sum(taken.rows for taken in take_segments(lake, feed.segments) if taken) == 8
    feed.write(message(9), message(10))
    feed.export()
    assert [taken.rows for taken in take_segments(lake, feed.segments) if taken] == [2]
    assert take_segments(lake, feed.segments) == []
    assert places(lake) == [("n1", n) for n in range(1, 9)] + [("n2", 1), ("n2", 2)]
    assert lake.table("journal").state().coverage == {"n1": ((1, 8),), "n2": ((1, 2),)}


def test_overlapping_and_repeated_segments_are_dropped_and_counted(lake: Lake, feed: Feed) -> None:
    feed.write(*(message(n) for n in range(6)))
    feed.export(rows_max=3)
    take_segments(lake, feed.segments)
    first = min(feed.segments.glob("seg-*"))
    feed.write(message(7))
    feed.export()
    # The same rows under another range's name, and twice in one batch.
    for name in ("seg-n1-0000000000000000002-0000000000000000004.parquet", "seg-copy-1-3.parquet"):
        shutil.copy(first, feed.segments / name)
    (taken,) = take_segments(lake, feed.segments)
    assert taken == Taken(1, 6, {"n1": ((7, 7),)})
    state = lake.table("journal").state()
    assert (state.rows, state.notes) == (7, {"duplicates": 6})
    assert places(lake) == [("n1", n) for n in range(1, 8)]


def test_what_is_twice_in_the_first_batch_counts_once(lake: Lake, feed: Feed) -> None:
    feed.write(message(1), message(2))
    feed.export()
    shutil.copy(next(feed.segments.glob("seg-*")), feed.segments / "seg-copy-1-2.parquet")
    assert take_segments(lake, feed.segments) == [Taken(2, 2, {"n1": ((1, 2),)})]


def test_a_lost_segment_shows_as_a_gap_and_closes_when_it_comes(lake: Lake, feed: Feed) -> None:
    feed.write(*(message(n) for n in range(6)))
    feed.export(rows_max=2)
    lost = sorted(feed.segments.glob("seg-*"))[1]
    away = feed.segments.parent / lost.name
    lost.rename(away)
    take_segments(lake, feed.segments)
    seen = lake.table("journal").state().coverage["n1"]
    assert gaps(seen) == ((3, 4),)
    away.rename(lost)
    take_segments(lake, feed.segments)
    assert lake.table("journal").state().coverage["n1"] == ((1, 6),)


def test_segments_that_cannot_be_read_are_gaps_and_stop_nothing(lake: Lake, feed: Feed) -> None:
    feed.write(*(message(n) for n in range(8)))
    feed.export(rows_max=2)
    garbage, truncated, empty = sorted(feed.segments.glob("seg-*"))[:3]
    good = garbage.read_bytes()
    garbage.write_bytes(b"\x00garbage" * 500)
    truncated.write_bytes(truncated.read_bytes()[:-100])
    empty.write_bytes(b"")
    take_segments(lake, feed.segments, files_max=2)
    assert places(lake) == [("n1", 7), ("n1", 8)]
    assert gaps(lake.table("journal").state().coverage["n1"]) == ((1, 6),)
    # A good copy under another name closes its gap.
    garbage.with_name(f"{garbage.stem}-again.parquet").write_bytes(good)
    take_segments(lake, feed.segments)
    assert gaps(lake.table("journal").state().coverage["n1"]) == ((3, 6),)


def test_a_batch_that_was_written_and_not_committed_is_taken_again_once(
    lake: Lake, spark: SparkSession
) -> None:
    table = lake.table("journal")
    frame = journal(spark, {}, {}, {})
    table.write(frame, "archive", 0)
    assert table.state().rows == 0
    assert take(table, frame, "archive", 0) == Taken(3, 0, {"n1": ((1, 3),)})
    assert take(table, frame, "archive", 0) is None
    assert places(lake) == [("n1", 1), ("n1", 2), ("n1", 3)]


def test_a_lost_checkpoint_brings_nothing_twice_and_loses_nothing(lake: Lake, feed: Feed) -> None:
    feed.write(*(message(n) for n in range(4)))
    feed.export(rows_max=2)
    take_segments(lake, feed.segments, files_max=1)
    shutil.rmtree(lake.checkpoint("archive", 1))
    feed.write(message(5))
    feed.export()
    take_segments(lake, feed.segments)
    assert places(lake) == [("n1", n) for n in range(1, 6)]


def test_a_segment_of_version_one_has_null_for_what_it_lacks(lake: Lake, feed: Feed) -> None:
    feed.write(message(1))
    feed.export()
    path = next(feed.segments.glob("seg-*"))
    table = pyarrow.parquet.read_table(path)
    pyarrow.parquet.write_table(table.drop_columns(["origin"]), path)
    feed.write(message(2, session="", origin="http 10.0.0.7"))
    feed.export()
    take_segments(lake, feed.segments)
    rows = lake.table("journal").read().orderBy("seq").select("channel", "origin").collect()
    assert [tuple(row) for row in rows] == [("stock:1", None), ("stock:1", "http 10.0.0.7")]
