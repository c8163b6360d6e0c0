"""`format("arauto")` on a real Spark over real journals."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from arauto.pipeline.schemas import JOURNAL
from arauto.pipeline.source.datasource import ArautoDataSource, SourceOptions
from arauto.pipeline.source.journal import Journal
from arauto.pipeline.source.offsets import NodeRange
from arauto.storage import segments
from tests.pipeline.feed import T0, Feed, beat, message, started
from tests.pipeline.waiting import finished


@pytest.fixture(autouse=True)
def _registered(spark: SparkSession) -> None:
    spark.dataSource.register(ArautoDataSource)


def _batch(spark: SparkSession, feed: Feed, **options: Any) -> DataFrame:
    return spark.read.format("arauto").options(url=feed.url, **options).load()


def _places(frame: DataFrame) -> list[tuple[str, int]]:
    return sorted((row.node, row.seq) for row in frame.select("node", "seq").collect())


def _run(
    spark: SparkSession, feed: Feed, directory: Path, **options: Any
) -> list[list[tuple[str, int]]]:
    """Take what is there now, as a stream; the places of each batch."""
    batches: list[list[tuple[str, int]]] = []
    stream = spark.readStream.format("arauto").options(url=feed.url, **options).load()
    writer = (
        stream.writeStream.option("checkpointLocation", str(directory / "checkpoint"))
        .foreachBatch(lambda frame, _: batches.append(_places(frame)))
        .trigger(availableNow=True)
    )
    finished(writer.start)
    return batches


def test_a_row_comes_as_it_was_written(spark: SparkSession, any_feed: Feed) -> None:
    any_feed.write(
        message(1.5, b"\0\xff", headers={"a": "1"}, id="i", key="k", channel="estoque:ação"),
        beat(2),
    )
    frame = _batch(spark, any_feed)
    assert frame.schema == JOURNAL
    first, second = sorted(frame.collect(), key=lambda row: int(row.seq))
    assert (first.node, first.seq, first.kind, first.hub) == ("n1", 1, 1, "shop")
    assert first.ts.timestamp() * 1000 == T0 + 1_500
    assert (first.channel, bytes(first.payload)) == ("estoque:ação", b"\0\xff")
    assert (first.headers, first.id, first.key) == ({"a": "1"}, "i", "k")
    assert (second.kind, second.headers) == (8, {})


def test_a_stream_goes_on_where_it_stopped_and_keeps_to_its_limit(
    spark: SparkSession, any_feed: Feed, tmp_path: Path
) -> None:
    any_feed.write(*(message(n) for n in range(7)))
    assert _run(spark, any_feed, tmp_path, rowsPerBatch=3) == [
        [("n1", 1), ("n1", 2), ("n1", 3)],
        [("n1", 4), ("n1", 5), ("n1", 6)],
        [("n1", 7)],
    ]
    any_feed.write(message(8))
    any_feed.write(message(8), node="n2")
    assert _run(spark, any_feed, tmp_path) == [[("n1", 8), ("n2", 1)]]
    assert _run(spark, any_feed, tmp_path) == []


def test_a_stream_goes_on_with_what_a_restored_journal_writes(
    spark: SparkSession, any_feed: Feed, tmp_path: Path
) -> None:
    any_feed.write(message(1), message(2))
    any_feed.back_up()
    any_feed.write(message(3), message(4), message(5))
    assert len(_run(spark, any_feed, tmp_path)[0]) == 5
    any_feed.restore()
    any_feed.write(message(6), message(7))
    ((one, other),) = _run(spark, any_feed, tmp_path)
    assert (one[0], one[1], other[1]) == (other[0], 3, 4)
    assert one[0].startswith("n1@3.")
    assert _run(spark, any_feed, tmp_path) == []
    assert len(_places(_batch(spark, any_feed))) == 4
    with contextlib.closing(Journal(any_feed.url, None, frozenset())) as journal:
        assert not journal.has_news({"n1": 5, one[0]: 4})
        assert journal.has_news({"n1": 5, one[0]: 3})
        # The row that has this seq now is another's.
        assert journal.settled_ms({"n1": 4}) == 0
        assert journal.settled_ms({"n1": 2, one[0]: 4}) == T0 + 2_000


def test_rows_that_were_trimmed_are_read_from_segments(spark: SparkSession, feed: Feed) -> None:
    feed.write(*(message(n) for n in range(4)), beat(5), beat(6))
    feed.export(rows_max=2)
    feed.trim(5)
    feed.write(beat(7))

    frame = _batch(spark, feed, segments=str(feed.segments), rowsPerTask=2)

    assert _places(frame) == [("n1", seq) for seq in range(1, 8)]
    assert sorted(row.kind for row in frame.collect()) == [1, 1, 1, 1, 8, 8, 8]


def test_a_damaged_segment_is_not_read_for_rows_that_were_trimmed(
    spark: SparkSession, feed: Feed
) -> None:
    feed.write(message(1, '"as it was"'), beat(2))
    feed.export()
    feed.trim(2)
    (path,) = feed.segments.glob("seg-*")
    path.write_bytes(path.read_bytes().replace(b"as it was", b"as it wan"))
    with pytest.raises(PySparkException, match="does not match the checksum"):
        _batch(spark, feed, segments=str(feed.segments)).collect()


def test_a_stream_whose_next_rows_were_trimmed_fails_loudly(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.write(message(1), beat(2))
    _run(spark, feed, tmp_path)
    feed.write(beat(3), message(4))
    feed.export()
    feed.trim(4)
    with pytest.raises(PySparkException, match="OFFSET_TRIMMED"):
        _run(spark, feed, tmp_path)


def test_a_stream_passes_over_what_has_expired_and_reads_the_rest(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.write(*(message(n) for n in range(6)))
    feed.export(rows_max=2)
    feed.trim(6)
    options = {"segments": str(feed.segments), "rowsPerBatch": 2}
    for segment in segments.segments(feed.segments, "n1")[:2]:
        segment.path.unlink()
    with pytest.raises(PySparkException, match="OFFSET_TRIMMED"):
        _run(spark, feed, tmp_path, **options)
    # A batch of which nothing is left is done as well.
    batches = _run(spark, feed, tmp_path, expired='{"n1":[[1,4]]}', **options)
    assert batches == [[], [], [("n1", 5), ("n1", 6)]]


def test_only_what_the_lake_holds_and_later_segments_follow_has_expired(any_feed: Feed) -> None:
    any_feed.write(*(message(n) for n in range(8)))
    any_feed.export(rows_max=2)
    any_feed.trim(6)
    first, second, third, fourth = segments.segments(any_feed.segments, "n1")
    with contextlib.closing(Journal(any_feed.url, any_feed.segments, frozenset())) as journal:
        assert journal.expired({}, {"n1": ((1, 8),)}) == {}
        first.path.unlink()
        third.path.unlink()
        assert journal.expired({}, {"n1": ((1, 8),)}) == {"n1": ((1, 2), (5, 6))}
        assert journal.expired({"n1": 1}, {"n1": ((1, 8),)}) == {"n1": ((2, 2), (5, 6))}
        assert journal.expired({"n1": 6}, {"n1": ((1, 8),)}) == {}
        assert journal.expired({}, {"n1": ((2, 5),)}) == {"n1": ((2, 2), (5, 5))}
        assert journal.expired({}, {}) == {}
        # The database has those in any case, and the directory may not be there just now.
        fourth.path.unlink()
        assert journal.expired({}, {"n1": ((1, 8),)}) == {"n1": ((1, 2),)}
        second.path.unlink()
        assert journal.expired({}, {"n1": ((1, 8),)}) == {}


def test_only_the_kinds_asked_for_are_read(spark: SparkSession, feed: Feed) -> None:
    feed.write(message(1), beat(2), message(3))
    assert _places(_batch(spark, feed, kinds="8")) == [("n1", 2)]


def test_rows_tell_up_to_when_they_are_complete(spark: SparkSession, any_feed: Feed) -> None:
    any_feed.write(message(1), message(7))
    any_feed.write(message(5), node="n2")
    # Node n2 may still write what happened after its last row.
    rows = _batch(spark, any_feed, settled="true").collect()
    assert {(row.node, row.settled_ms) for row in rows} == {("n1", T0 + 5_000), ("n2", T0 + 5_000)}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": ""}, 'the option "url" is required'),
        ({"rowsPerBatch": "none"}, "expected a whole number, at least 1"),
        ({"kinds": "x"}, "expected numbers with commas"),
        ({"expired": "[1]"}, "expected a JSON object such as"),
        ({"startingOffsets": "soon"}, "expected earliest, latest"),
    ],
)
def test_a_bad_option_is_named(
    spark: SparkSession, feed: Feed, options: dict[str, str], said: str
) -> None:
    feed.write(beat(1))
    with pytest.raises(PySparkException, match=said):
        spark.read.format("arauto").options(**{"url": feed.url} | options).load().count()


def test_only_a_row_of_a_wanted_kind_that_is_no_heartbeat_is_news(any_feed: Feed) -> None:
    any_feed.write(beat(1), message(2), beat(3), started(4))
    for kinds, after, expected in (
        ("1,8", 0, True),
        ("1,8", 2, False),
        ("", 2, True),
        ("", 4, False),
    ):
        options = SourceOptions({"url": any_feed.url, "kinds": kinds})
        with options.opened() as journal:
            assert journal.has_news({"n1": after}) is expected


def test_a_range_whose_beginning_is_trimmed_while_it_is_read_goes_on_in_the_database(
    feed: Feed,
) -> None:
    # The task was made before the export: it does not know that rows have left.
    feed.write(*(beat(n) for n in range(1, 6)))
    feed.export()
    feed.trim(5)
    feed.write(beat(6), beat(7))
    options = SourceOptions({"url": feed.url, "segments": str(feed.segments)})
    with options.opened() as journal:
        batches = list(journal.read(NodeRange("n1", 2, 7)))
    assert [seq for batch in batches for seq in batch["seq"].to_pylist()] == [2, 3, 4, 5, 6, 7]


def test_the_same_offsets_are_complete_up_to_the_same_time_after_their_rows_were_trimmed(
    feed: Feed,
) -> None:
    feed.write(message(1), beat(2), beat(3))
    options = SourceOptions({"url": feed.url, "segments": str(feed.segments)})
    with options.opened() as journal:
        before = journal.settled_ms({"n1": 2})
    feed.export()
    feed.trim(3)
    with options.opened() as journal:
        assert journal.settled_ms({"n1": 2}) == before == T0 + 2_000


def test_the_segments_are_not_listed_again_for_a_row_whose_time_is_known(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.write(beat(1), beat(2), beat(3))
    feed.export()
    feed.trim(3)
    listed: list[str] = []
    found = segments.segments

    def counting(directory: Path, node: str) -> list[segments.Segment]:
        listed.append(node)
        return found(directory, node)

    monkeypatch.setattr(segments, "segments", counting)
    with contextlib.closing(Journal(feed.url, feed.segments, frozenset())) as journal:
        assert [journal.settled_ms({"n1": 2}) for _ in range(3)] == [T0 + 2_000] * 3
        assert listed == ["n1"]
        # What is not found may still come.
        assert [journal.settled_ms({"n9": 1}) for _ in range(2)] == [0, 0]
    assert listed == ["n1", "n9", "n9"]
