"""Segments into bronze: every row once, whatever the feed looks like."""

import shutil
from pathlib import Path

import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
import structlog.testing
from pyspark.sql import SparkSession

from arauto.pipeline.archive.bronze import Taken, take
from arauto.pipeline.archive.offers import Offers
from arauto.pipeline.lake.coverage import gaps
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.metrics import PipelineMetrics
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
    assert sum(taken.rows for taken in take_segments(lake, feed.segments)) == 8
    feed.write(message(9), message(10))
    feed.export()
    assert [taken.rows for taken in take_segments(lake, feed.segments)] == [2]
    assert take_segments(lake, feed.segments) == []
    assert places(lake) == [("n1", n) for n in range(1, 9)] + [("n2", 1), ("n2", 2)]
    assert lake.table("journal").state().coverage == {"n1": ((1, 8),), "n2": ((1, 2),)}


def test_rows_that_overlap_are_dropped_and_counted(lake: Lake, feed: Feed) -> None:
    feed.write(*(message(n) for n in range(6)))
    feed.export(rows_max=3)
    take_segments(lake, feed.segments)
    _, old = sorted(feed.segments.glob("seg-*"))
    feed.write(message(7))
    feed.export()
    new = max(feed.segments.glob("seg-*"))
    # Three rows that are there and a new one, which is twice in the batch.
    tables = [pyarrow.parquet.read_table(path) for path in (old, new)]
    both = feed.segments / "seg-n1-4-7.parquet"
    pyarrow.parquet.write_table(pyarrow.concat_tables(tables), both)
    assert take_segments(lake, feed.segments) == [Taken(1, 4, {"n1": ((7, 7),)})]
    state = lake.table("journal").state()
    assert (state.rows, state.notes) == (7, {"duplicates": 4})
    assert places(lake) == [("n1", n) for n in range(1, 8)]


def test_a_copy_of_rows_that_are_there_is_left_alone_whatever_its_name(
    lake: Lake, feed: Feed
) -> None:
    feed.write(*(message(n) for n in range(3)))
    feed.export()
    take_segments(lake, feed.segments)
    first = min(feed.segments.glob("seg-*"))
    for name in ("seg-n1-0000000000000000002-0000000000000000004.parquet", "seg-copy-1-3.parquet"):
        shutil.copy(first, feed.segments / name)
    assert take_segments(lake, feed.segments) == []


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


def test_damaged_segments_are_refused_told_and_counted_and_stop_nothing(
    lake: Lake, feed: Feed
) -> None:
    feed.write(*(message(n, '"as it was"') for n in range(10)))
    feed.export(rows_max=2)
    garbage, truncated, empty, flipped, _ = paths = sorted(feed.segments.glob("seg-*"))
    good = [path.read_bytes() for path in paths]
    garbage.write_bytes(b"\x00garbage" * 500)
    truncated.write_bytes(truncated.read_bytes()[:-100])
    empty.write_bytes(b"")
    # One bit of the data: what reads it does not notice.
    flipped.write_bytes(good[3].replace(b"as it was", b"as it wan", 1))
    assert flipped.read_bytes() != good[3]
    metrics = PipelineMetrics()
    with structlog.testing.capture_logs() as said:
        take_segments(lake, feed.segments, files_max=2, metrics=metrics)
    assert places(lake) == [("n1", 9), ("n1", 10)]
    told = [line["segment"] for line in said if line["event"] == "a segment cannot be taken"]
    assert told == [path.name for path in paths[:4]]
    assert metrics.segments_refused._value.get() == 4
    assert [each.name for each in Offers(feed.segments).all_refused({})] == told
    # Good ones in their places, or copies under other names, close the gaps.
    flipped.write_bytes(good[3])
    truncated.write_bytes(good[1])
    garbage.with_name("seg-n1-1-2-again.parquet").write_bytes(good[0])
    take_segments(lake, feed.segments)
    assert gaps(lake.table("journal").state().coverage["n1"]) == ((5, 6),)


def test_a_damaged_segment_from_before_checksums_is_found_by_reading_it(
    lake: Lake, feed: Feed
) -> None:
    feed.write(*(message(n, f'"{n:032}"' * 64) for n in range(6)))
    feed.export(rows_max=2)
    whole, damaged, hole = sorted(feed.segments.glob("seg-*"))
    whole.rename(feed.segments / "seg-n1-1-2.parquet")
    data = bytearray(damaged.read_bytes())
    start = pyarrow.parquet.read_metadata(damaged).row_group(0).column(17).dictionary_page_offset
    data[start + 20 : start + 60] = bytes(40)
    damaged.rename(feed.segments / "seg-n1-3-4.parquet").write_bytes(data)
    rows = pyarrow.parquet.read_table(hole)
    hole.unlink()
    pyarrow.parquet.write_table(
        pyarrow.concat_tables([rows, rows]), feed.segments / "seg-n1-5-6.parquet"
    )
    take_segments(lake, feed.segments)
    assert places(lake) == [("n1", 1), ("n1", 2)]
    reasons = [each.reason for each in Offers(feed.segments).all_refused({"n1": ((1, 2),)})]
    assert len(reasons) == 2
    assert reasons[1] == "it holds 4 rows where 5 to 6 should be"


def test_a_refused_segment_is_told_once_and_looked_at_again_when_it_changes(
    lake: Lake, feed: Feed
) -> None:
    feed.write(message(1))
    feed.export()
    (path,) = feed.segments.glob("seg-*")
    good = path.read_bytes()
    path.write_bytes(good[:-1])
    offers = Offers(feed.segments)
    assert [len(each) for each in offers.fresh({}, 1)] == [0, 1]
    assert [len(each) for each in offers.fresh({}, 1)] == [0, 0]
    path.write_bytes(good)
    assert [len(each) for each in offers.fresh({}, 1)] == [1, 0]
    path.unlink()
    assert offers.fresh({}, 1) == ([], [])


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


def test_a_pipeline_that_starts_anew_brings_nothing_twice_and_loses_nothing(
    lake: Lake, feed: Feed
) -> None:
    feed.write(*(message(n) for n in range(4)))
    feed.export(rows_max=2)
    first, _ = take_segments(lake, feed.segments, files_max=1)
    assert first == Taken(2, 0, {"n1": ((1, 2),)})
    # Written by a life that ended before its commit.
    lake.table("journal").write(journal(lake.spark, {"seq": 77}), "segments", 2)
    feed.write(message(5))
    feed.export()
    assert take_segments(lake, feed.segments) == [Taken(1, 0, {"n1": ((5, 5),)})]
    assert places(lake) == [("n1", n) for n in range(1, 6)]


def test_a_segment_of_version_one_has_null_for_what_it_lacks(lake: Lake, feed: Feed) -> None:
    feed.write(message(1))
    feed.export()
    path = next(feed.segments.glob("seg-*"))
    table = pyarrow.parquet.read_table(path)
    path.unlink()
    pyarrow.parquet.write_table(
        table.drop_columns(["origin"]), feed.segments / "seg-n1-1-1.parquet"
    )
    feed.write(message(2, session="", origin="http 10.0.0.7"))
    feed.export()
    take_segments(lake, feed.segments)
    rows = lake.table("journal").read().orderBy("seq").select("channel", "origin").collect()
    assert [tuple(row) for row in rows] == [("stock:1", None), ("stock:1", "http 10.0.0.7")]
