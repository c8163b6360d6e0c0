"""The past is read in order, in pieces, and only what was asked for."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from arauto.pipeline.lake.table import Lake
from arauto.pipeline.replay.past import (
    Slice,
    merge,
    read_slice,
    select,
    slices,
    summarise,
    top_channels,
)
from arauto.pipeline.replay.spec import ReplaySpec
from tests.pipeline.replay.rows import START_MS, message, save

SPEC = ReplaySpec(
    id="r1", hub="shop", channels=("a:*",), from_ms=START_MS, to_ms=START_MS + 3_600_000
)


def test_pieces_join_as_long_as_they_stay_small() -> None:
    buckets = [
        Slice(n, n + 1, rows, size)
        for n, (rows, size) in enumerate([(4, 1), (4, 1), (4, 1), (9, 1), (1, 99), (1, 1)])
    ]
    joined = [(each.from_ms, each.to_ms, each.rows) for each in merge(buckets, 10, 50)]
    assert joined == [(0, 2, 8), (2, 3, 4), (3, 4, 9), (4, 5, 1), (5, 6, 1)]


def test_no_messages_make_no_pieces(spark: SparkSession, tmp_path: Path) -> None:
    frame = select(Lake(spark, tmp_path), SPEC)
    summary = summarise(frame)
    assert summary.rows == 0
    assert slices(frame, summary) == []


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(spark, tmp_path_factory.mktemp("lake"))
    rows: list[dict[str, Any]] = [
        message(seq=n, after_s=n * 10, channel=f"a:{n % 3}") for n in range(30)
    ]
    rows += [message(seq=n, node="node-2", after_s=n * 10, channel="a:2") for n in range(30)]
    rows += [
        message(seq=100, after_s=5, channel="b:1"),
        message(seq=101, after_s=5, channel="/t/x"),
        message(seq=102, after_s=5, channel="/tx"),
        message(seq=103, after_s=5, channel="a:1", hub="other"),
        message(seq=104, after_s=5, channel="a:1", headers={"x-replay": "r0"}),
        message(seq=105, after_s=5, channel="a:1", headers={"x-origin": "pipeline"}),
        message(seq=106, after_s=5, channel="a:1", headers={"x-origin": "else"}),
    ]
    save(lake, rows[::-1])
    return lake


def places(lake: Lake, spec: ReplaySpec) -> set[int]:
    return {row["seq"] for row in select(lake, spec).where("seq >= 100").toLocalIterator()}


@pytest.mark.parametrize(
    ("channels", "found"),
    [
        (("a:*",), {106}),
        (("a:1", "b:1"), {106, 100}),
        (("/t",), {101}),
        (("/",), {101, 102}),
        (("#:1",), {106, 100}),
        (("nothing",), set()),
    ],
)
def test_only_the_channels_asked_for_are_read(
    lake: Lake, channels: tuple[str, ...], found: set[int]
) -> None:
    assert places(lake, msgspec.structs.replace(SPEC, channels=channels)) == found


def test_what_the_pipeline_made_is_left_out_unless_asked_for(lake: Lake) -> None:
    assert places(lake, msgspec.structs.replace(SPEC, derived=True)) == {104, 105, 106}


def test_the_range_starts_with_its_first_moment_and_ends_before_its_last(lake: Lake) -> None:
    spec = msgspec.structs.replace(SPEC, from_ms=START_MS + 20_000, to_ms=START_MS + 40_000)
    assert sorted(row["seq"] for row in select(lake, spec).toLocalIterator()) == [2, 2, 3, 3]


def test_pieces_together_give_everything_once_and_in_order(lake: Lake) -> None:
    frame = select(lake, SPEC)
    summary = summarise(frame)
    assert (summary.rows, summary.channels) == (61, 3)
    assert summary.last_ms - summary.first_ms == 290_000
    whole = slices(frame, summary)
    middle_ms = START_MS + 100_000
    halves = [
        Slice(summary.first_ms, middle_ms, 30, 30),
        # So many bytes that the driver takes it in several parts.
        Slice(middle_ms, summary.last_ms + 1, 31, 100 * 1024 * 1024),
    ]
    for pieces in (whole, halves):
        got = [past.place for piece in pieces for past in read_slice(lake, SPEC, piece, None)]
        assert len(got) == 61
        assert got == sorted(got)


def test_reading_goes_on_after_a_place(lake: Lake) -> None:
    frame = select(lake, SPEC)
    (piece,) = slices(frame, summarise(frame))
    everything = [past.place for past in read_slice(lake, SPEC, piece, None)]
    for done in (1, 2, 30, 61):
        rest = [past.place for past in read_slice(lake, SPEC, piece, everything[done - 1])]
        assert rest == everything[done:]


def test_a_message_is_read_with_all_its_parts(lake: Lake) -> None:
    frame = select(lake, SPEC)
    (piece,) = slices(frame, summarise(frame))
    first = next(iter(read_slice(lake, SPEC, piece, None)))
    assert first.ts_ms == START_MS
    assert datetime.fromtimestamp(first.ts_ms / 1000, UTC).year == 2026
    assert (first.channel, first.epoch, first.offset, first.user) == ("a:0", 1, 0, "ann")
    assert (first.payload, first.content_type, first.headers) == (
        b'{"n": 0}',
        "application/json",
        {},
    )


def test_the_largest_channels_come_first(lake: Lake) -> None:
    assert top_channels(select(lake, SPEC), 2) == [("a:2", 40), ("a:1", 11)]
