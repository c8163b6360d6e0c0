"""Entries survive the way through rows, and no change to a row goes unnoticed."""

from typing import Any
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.errors import Code, StorageError
from arauto.storage.base import JournalEntry, Kind
from arauto.storage.checks import INT_MAX, check_text, entry_problem, problems_of
from arauto.storage.sql.rows import COLUMNS, checksum, entry_of, rows_of, size_of

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
numbers = st.integers(0, INT_MAX)
entries = st.builds(
    JournalEntry,
    kind=st.sampled_from(Kind),
    ts_ms=numbers,
    hub=words,
    channel=words,
    epoch=numbers,
    offset=numbers,
    session=words,
    user=words,
    content_type=words,
    id=words,
    key=words,
    exclude=words,
    headers=st.none() | st.dictionaries(words, words, min_size=1, max_size=4),
    expires_ms=numbers,
    payload=st.binary(max_size=200),
    origin=words,
)


@given(st.lists(entries, max_size=5), st.integers(1, 9), st.integers(1, INT_MAX - 9))
def test_entries_come_back_from_their_rows(some: list[JournalEntry], node: int, first: int) -> None:
    rows = rows_of(node, first, some)
    assert [entry_of(row) for row in rows] == some
    assert [tuple(row[:2]) for row in rows] == [(node, first + i) for i in range(len(some))]


def _another(value: Any) -> Any:
    match value:
        case None:
            return "{}"
        case int():
            return value ^ 1
        case str():
            return value + "x"
        case _:
            return value + b"x"


@given(entries, st.integers(0, len(COLUMNS) - 1))
def test_a_change_to_any_column_is_found(entry: JournalEntry, column: int) -> None:
    (row,) = rows_of(1, 1, [entry])
    changed = list(row)
    changed[column] = _another(row[column])
    with pytest.raises(StorageError) as refused:
        entry_of(changed)
    assert refused.value.code is Code.STORAGE_CORRUPT


def test_a_row_from_before_there_were_origins_still_checks_out() -> None:
    old = (1, 7, 1, 5, "shop", "a", 3, 4, "s", "ann", "", "i", "", "", None, 0, b"x")
    row = (*old, "", crc32(msgspec.msgpack.encode(old)))
    assert entry_of(row).id == "i"
    with pytest.raises(StorageError):
        entry_of((*old, "http 10.0.0.7", row[-1]))


@given(entries)
def test_what_can_be_stored_has_no_problem(entry: JournalEntry) -> None:
    assert entry_problem(entry) is None
    assert size_of(entry) > len(entry.payload)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"hub": "\ud800"}, "hub"),
        ({"key": "a\0"}, "key"),
        ({"origin": "\0"}, "origin"),
        ({"headers": {"\0": ""}}, "headers"),
        ({"headers": {"": "\udc00"}}, "headers"),
        ({"epoch": -1}, "epoch"),
        ({"expires_ms": 2**63}, "expires_ms"),
    ],
)
def test_what_cannot_be_stored_is_named(fields: dict[str, Any], field: str) -> None:
    bad = JournalEntry(kind=Kind.ERROR, **{"ts_ms": 1} | fields)
    good = JournalEntry(kind=Kind.ERROR, ts_ms=1)
    found = problems_of([good, bad, good])
    assert [(at, problem.field) for at, problem in found.items()] == [(1, field)]


def test_text_is_checked_field_by_field() -> None:
    check_text(hub="shop", key="")
    with pytest.raises(StorageError) as refused:
        check_text(hub="shop", key="\0")
    assert refused.value.field == "key"


@given(st.lists(words, min_size=2, max_size=4), st.binary(max_size=9))
def test_a_checksum_covers_where_each_field_ends(fields: list[str], value: bytes) -> None:
    moved = [fields[0] + "x", *fields[1:]]
    shifted = [fields[0], "x" + fields[1], *fields[2:]]
    sums = {checksum(*each, value) for each in (fields, moved, shifted)}
    assert len(sums) == 3
