"""Offsets: what a batch may take, and how it is divided. Without Spark."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.errors import ArautoError, Code
from arauto.pipeline.lake.coverage import merge
from arauto.pipeline.source.offsets import (
    IdlePace,
    NodeRange,
    Place,
    latest,
    parse_starting,
    ranges,
    settled_ms,
    without,
)

_SEQ = st.integers(0, 500)


def test_a_batch_takes_no_more_than_its_limit_from_each_node() -> None:
    assert latest({"a": 10}, {"a": 100, "b": 5}, 20) == {"a": 30, "b": 5}
    assert latest({"a": 10}, {"a": 100, "b": 5}, None) == {"a": 100, "b": 5}


def test_without_news_the_offset_stays() -> None:
    assert latest({"a": 10}, {"a": 10}, 20) == {"a": 10}
    assert latest({"a": 10}, {}, 20) == {"a": 10}


@given(_SEQ, _SEQ, _SEQ, st.integers(1, 60))
def test_tasks_cover_the_range_once_and_in_order(
    start: int, length: int, trimmed: int, per_task: int
) -> None:
    end = start + length
    places = {"a": Place(min(trimmed, end), end)}
    tasks = list(ranges({"a": start}, {"a": end}, places, rows_per_task=per_task, segments=True))
    seqs = [seq for task in tasks for seq in range(task.first, task.last + 1)]
    assert seqs == list(range(start + 1, end + 1))
    assert all(task.last - task.first < per_task for task in tasks)
    assert all(task.in_segments == (task.last <= places["a"].trimmed) for task in tasks)


def test_rows_that_left_the_journal_are_missed_loudly_without_segments() -> None:
    with pytest.raises(ArautoError, match="rows 1 to 5 of node a") as caught:
        list(ranges({}, {"a": 9}, {"a": Place(5, 9)}, rows_per_task=9, segments=False))
    assert caught.value.code is Code.OFFSET_TRIMMED


@given(
    _SEQ,
    _SEQ,
    _SEQ,
    st.integers(1, 60),
    st.lists(st.tuples(_SEQ, st.integers(0, 50)), max_size=4),
)
def test_tasks_cover_all_but_what_has_expired(
    start: int, length: int, trimmed: int, at_once: int, gone: list[tuple[int, int]]
) -> None:
    end = start + length
    places = {"a": Place(min(trimmed, end), end)}
    expired = merge((first + 1, first + 1 + more) for first, more in gone)
    found = ranges({"a": start}, {"a": end}, places, rows_per_task=at_once, segments=True)
    covered = [
        seq
        for each in without(found, {"a": expired, "b": ((1, 999),)})
        for seq in range(each.first, each.last + 1)
    ]
    lost = {seq for first, last in expired for seq in range(first, last + 1)}
    assert covered == [seq for seq in range(start + 1, end + 1) if seq not in lost]


def test_what_is_read_besides_is_read_from_where_it_was() -> None:
    here, there = NodeRange("a", 1, 9, in_segments=True), NodeRange("a", 10, 12)
    assert list(without([here, there], {"a": ((3, 4), (12, 20))})) == [
        NodeRange("a", 1, 2, in_segments=True),
        NodeRange("a", 5, 9, in_segments=True),
        NodeRange("a", 10, 11),
    ]


def test_a_journal_shorter_than_what_was_read_is_another_journal() -> None:
    with pytest.raises(ArautoError, match="not the journal"):
        list(ranges({"a": 5}, {"a": 9}, {"a": Place(0, 3)}, rows_per_task=9, segments=True))


def test_what_a_restored_journal_no_longer_has_is_not_waited_for() -> None:
    places = {"a": Place(0, 3, is_over=True), "a@4.f": Place(3, 9)}
    end = latest({"a": 6}, {node: place.last for node, place in places.items()}, 2)
    assert end == {"a": 6, "a@4.f": 5}
    # Of a batch that was begun before, and of a life that another backup knew.
    tasks = ranges({"a": 2}, {**end, "a": 8, "a@4.e": 7}, places, rows_per_task=9, segments=False)
    assert [(task.node, task.first, task.last) for task in tasks] == [("a", 3, 3), ("a@4.f", 4, 5)]


def test_a_stream_starts_where_it_is_told() -> None:
    places = {"a": Place(5, 9)}
    assert parse_starting("earliest", places, segments=True) == {}
    assert parse_starting("earliest", places, segments=False) == {"a": 5}
    assert parse_starting("latest", places, segments=False) == {"a": 9}
    assert parse_starting('{"a": 7}', places, segments=False) == {"a": 7}
    with pytest.raises(ArautoError, match="expected earliest"):
        parse_starting("yesterday", places, segments=False)


def test_heartbeats_pass_at_once_while_something_happens_and_for_a_while_after() -> None:
    pace = IdlePace(every_s=60, eager_s=120)
    assert not pace.holds_back(news=True, now_s=0)
    assert not any(pace.holds_back(news=False, now_s=now) for now in range(1, 120))


def test_in_a_long_silence_heartbeats_are_gathered_until_something_happens() -> None:
    pace = IdlePace(every_s=60, eager_s=120)
    pace.holds_back(news=True, now_s=0)
    passed = [now for now in range(1, 400) if not pace.holds_back(news=False, now_s=now)]
    assert [now for now in passed if now >= 120] == [179, 239, 299, 359]
    assert not pace.holds_back(news=True, now_s=401)
    assert not pace.holds_back(news=False, now_s=402)


def test_without_an_interval_nothing_is_held_back() -> None:
    pace = IdlePace(every_s=0, eager_s=0)
    assert not any(pace.holds_back(news=False, now_s=now) for now in range(9))


@pytest.mark.parametrize(
    ("last_ms", "expected"),
    [
        ([], 0),
        ([70_000], 70_000),
        ([70_000, 69_000, 69_500], 69_000),
        # One that is gone, and one that never wrote, are not waited for.
        ([70_000, 69_000, 39_999, 0], 69_000),
        ([70_000, 40_000], 40_000),
    ],
)
def test_rows_are_complete_up_to_the_slowest_node_that_is_alive(
    last_ms: list[int], expected: int
) -> None:
    assert settled_ms(last_ms) == expected
