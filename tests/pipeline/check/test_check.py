"""The check finds what is missing, and says nothing when all is well."""

import shutil
from pathlib import Path

import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession

from arauto.pipeline.archive.follow import DERIVED, follow
from arauto.pipeline.check import LakeReport, check_lake, journal_places, node_report
from arauto.pipeline.lake.coverage import Coverage
from arauto.pipeline.lake.erase import erase_user
from arauto.pipeline.lake.table import Lake
from arauto.pipeline.source.offsets import Place
from arauto.pipeline.unexported import Waiting, told, waiting
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
    assert [(n.node, n.lag, n.missing, n.unexported) for n in report.nodes] == [
        ("n1", 2, (), (7, 8)),
        ("n2", 1, (), (1, 1)),
    ]
    assert report.quarantine == {"content type is JSON, but the payload is not JSON": 1}
    assert (report.untaken, report.duplicates) == (0, 0)


def test_rows_that_came_twice_are_told_and_are_no_problem(lake: Lake, feed: Feed) -> None:
    feed.write(*(message(n) for n in range(5)))
    feed.export(rows_max=3)
    # The same three rows under another name, in the same batch.
    shutil.copy(min(feed.segments.glob("seg-*")), feed.segments / "seg-copy-1-3.parquet")
    take_segments(lake, feed.segments)
    report = _check(lake, feed)
    (node,) = report.nodes
    assert report.duplicates == 3
    assert (node.rows, node.rows_expected, node.rows_twice) == (5, 5, 0)
    assert report.problems == []


@pytest.mark.parametrize("rows_max", [1, 2])
def test_a_nodes_last_or_only_segment_is_a_problem_when_it_is_damaged(
    lake: Lake, feed: Feed, rows_max: int
) -> None:
    feed.write(message(1), message(2))
    feed.export(rows_max=rows_max)
    last = max(feed.segments.glob("seg-*"))
    last.write_bytes(last.read_bytes()[:-20])
    take_segments(lake, feed.segments)
    report = _check(lake, feed)
    assert report.refused == [last.name]
    assert [problem for problem in report.problems if last.name in problem]
    assert check_lake(lake, feed.segments, lambda: None, quick=True).problems


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


def test_rows_written_after_a_restore_are_all_taken_though_their_seqs_were_given_before(
    lake: Lake, feed: Feed
) -> None:
    feed.write(*(message(n) for n in range(3)))
    feed.export()
    feed.back_up()
    feed.write(*(message(n, '"lost"') for n in range(3, 8)))
    feed.export()
    take_segments(lake, feed.segments)
    feed.restore()
    feed.write(*(message(n, '"new"') for n in range(3, 6)))
    feed.export()
    (taken,) = take_segments(lake, feed.segments)
    ((partition, _),) = taken.coverage.items()
    assert (taken.rows, taken.duplicates) == (3, 0)
    rows = lake.table("journal").read().groupBy("node", "payload").count().collect()
    assert {(row.node, bytes(row.payload), row["count"]) for row in rows} == {
        ("n1", b"{}", 3),
        ("n1", b'"lost"', 5),
        (partition, b'"new"', 3),
    }
    report = _check(lake, feed)
    assert report.problems == []
    assert [(n.node, n.rows, n.first, n.last, n.is_over, n.lag) for n in report.nodes] == [
        ("n1", 8, 1, 8, True, 0),
        (partition, 3, 4, 6, False, 0),
    ]
    feed.write(message(7))
    feed.export()
    max(feed.segments.glob("seg-n1@*")).unlink()
    feed.trim(7)
    assert _check(lake, feed).problems == [f"node {partition}: 1 rows are missing: 7"]


def test_a_repeat_that_differs_from_what_is_there_is_a_problem(lake: Lake, feed: Feed) -> None:
    feed.write(*(message(n, headers={"a": "1", "b": "2"}) for n in range(4)))
    feed.export(rows_max=2)
    take_segments(lake, feed.segments)
    assert _check(lake, feed).problems == []
    # What a database writes that went back without anybody's knowing.
    path = max(feed.segments.glob("seg-*"))
    rows = pyarrow.parquet.read_table(path)
    index = rows.schema.get_field_index("payload")
    other = pyarrow.array([b"{}", b'"other"'], type=pyarrow.binary())
    path.unlink()
    pyarrow.parquet.write_table(
        rows.set_column(index, rows.schema.field(index), other),
        feed.segments / "seg-n1-3-4.parquet",
    )
    assert take_segments(lake, feed.segments) == []
    report = _check(lake, feed)
    assert report.nodes[0].rows_differing == 1
    assert "1 rows are other ones in the segments" in report.problems[0]
    erased = erase_user(lake, "shop", "ana", frozenset)
    assert erased[0].rows == 4
    assert _check(lake, feed).nodes[0].rows_differing == 0


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


@pytest.mark.parametrize(
    ("seen", "sealed", "place", "unexported"),
    [
        (((1, 9),), (), Place(9, 9), None),
        (((1, 9),), (), Place(9, 20), (10, 20)),
        (((1, 9),), ((10, 12),), Place(9, 20), (13, 20)),
        ((), ((1, 4),), Place(4, 4), None),
        ((), (), Place(0, 32_000), (1, 32_000)),
        ((), (), Place(7, 9), (8, 9)),
        (((1, 9),), (), None, None),
    ],
)
def test_rows_that_no_segment_holds_are_named(
    seen: Coverage, sealed: Coverage, place: Place | None, unexported: tuple[int, int] | None
) -> None:
    report = node_report("n", seen, removed=0, found=(0, 0), sealed=sealed, place=place)
    assert report.unexported == unexported


def test_what_waits_for_the_exporter_is_told_by_node(tmp_path: Path) -> None:
    places = {"b": Place(0, 1), "a": Place(5, 12), "c": Place(3, 3)}
    found = waiting(places, tmp_path / "none", {"a": 7})
    assert found == [Waiting("a", 8, 12), Waiting("b", 1, 1)]
    assert told(found) == "6 rows in the journal that no segment holds yet (a 8-12, b 1-1)"


def test_a_journal_that_cannot_be_asked_is_no_fault(tmp_path: Path) -> None:
    assert journal_places(f"sqlite:///{tmp_path}/none.db") is None
