"""The check finds what is missing, and says nothing when all is well."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from arauto.pipeline.archive.follow import DERIVED, follow
from arauto.pipeline.check import LakeReport, check_lake, journal_places, node_report
from arauto.pipeline.lake.coverage import Coverage
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.source.offsets import Place
from tests.pipeline.archive.support import take_segments
from tests.pipeline.feed import Feed, message


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path / "lake")


def _check(lake: Lake, feed: Feed) -> LakeReport:
    return check_lake(lake, feed.segments, lambda: journal_places(feed.url))


def test_a_whole_lake_has_no_problems_and_tells_what_is_to_come(lake: Lake, feed: Feed) -> None:
    feed.write(*(message(n, "{" if n == 2 else "{}") for n in range(6)))
    feed.export(rows_max=3)
    feed.trim(6)
    take_segments(lake, feed.segments)
    feed.write(message(9), message(10))
    feed.write(message(1), node="n2")
    (before,) = [n for n in _check(lake, feed).nodes if n.node == "n1"]
    assert (before.rows, before.rows_expected, before.first, before.last) == (6, 6, 1, 6)
    for name in DERIVED:
        follow(lake, name)
    report = _check(lake, feed)
    assert report.problems == []
    assert [(node.node, node.lag, node.missing) for node in report.nodes] == [
        ("n1", 2, ()),
        ("n2", 1, ()),
    ]
    assert report.quarantine == {"content type is JSON, but the payload is not JSON": 1}
    assert (report.untaken, report.duplicates) == (0, 0)


def test_rows_that_came_twice_are_told_and_are_no_problem(lake: Lake, feed: Feed) -> None:
    feed.write(*(message(n) for n in range(5)))
    feed.export(rows_max=3)
    take_segments(lake, feed.segments)
    # The same three rows under another name, in a batch of their own.
    shutil.copy(min(feed.segments.glob("seg-*")), feed.segments / "seg-copy-1-3.parquet")
    take_segments(lake, feed.segments)
    report = _check(lake, feed)
    (node,) = report.nodes
    assert report.duplicates == 3
    assert (node.rows, node.rows_expected, node.rows_twice) == (5, 5, 0)
    assert report.problems == []


def test_lost_segments_and_damaged_files_are_problems_with_their_places(
    lake: Lake, feed: Feed
) -> None:
    feed.write(*(message(n) for n in range(8)))
    feed.export(rows_max=2)
    paths = sorted(feed.segments.glob("seg-*"))
    paths[1].unlink()
    take_segments(lake, feed.segments, files_max=1)
    report = _check(lake, feed)
    assert report.nodes[0].missing == ((3, 4),)
    assert report.problems == ["node n1: 2 rows are missing: 3-4"]
    table = lake.table("journal")
    first, second, _ = (table.directory / path for path in sorted(table.state().files))
    first.unlink()
    second.write_bytes(second.read_bytes() + b"x")
    report = _check(lake, feed)
    (journal,) = [each for each in report.tables if each.table == "journal"]
    assert len(journal.lost) == 2
    assert [problem.partition(":")[0] for problem in report.problems] == [
        "node n1",
        "node n1",
        "table journal",
    ]
    assert "2 rows are there, and 6 should be" in report.problems[1]
    quick = check_lake(lake, feed.segments, lambda: None, quick=True)
    assert [problem.partition(":")[0] for problem in quick.problems] == ["node n1", "table journal"]


@pytest.mark.parametrize(
    ("seen", "sealed", "place", "missing"),
    [
        (((1, 9),), (), Place(9, 9), ()),
        (((1, 9),), (), Place(5, 20), ()),
        (((1, 9),), ((10, 12),), Place(12, 20), ()),
        (((1, 9),), (), Place(12, 20), ((10, 12),)),
        (((1, 9),), ((11, 12),), Place(12, 12), ((10, 10),)),
        ((), (), Place(0, 4), ()),
        ((), ((3, 4),), Place(4, 6), ((1, 2),)),
        (((4, 9),), (), None, ((1, 3),)),
    ],
)
def test_what_is_nowhere_is_missing_and_what_may_still_come_is_not(
    seen: Coverage, sealed: Coverage, place: Place | None, missing: Coverage
) -> None:
    report = node_report("n", seen, removed=0, found=(0, 0), sealed=sealed, place=place)
    assert report.missing == missing


def test_a_journal_that_cannot_be_asked_is_no_fault(tmp_path: Path) -> None:
    assert journal_places(f"sqlite:///{tmp_path}/none.db") is None
