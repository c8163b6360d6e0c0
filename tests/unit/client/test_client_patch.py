"""Applying a node's document operations to a local copy."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.client.patch import apply, resolve
from arauto.codec.events import Operation
from arauto.errors import ArautoError, Code
from arauto.features.document import patch as engine


def op(kind: str, path: str, value: Any = None, source: str = "") -> Operation:
    return Operation(op=kind, path=path, value=value, source=source)


@pytest.mark.parametrize(
    ("before", "operation", "after"),
    [
        ({}, op("add", "/a", 1), {"a": 1}),
        ({"a": [1, 3]}, op("add", "/a/1", 2), {"a": [1, 2, 3]}),
        ({"a": [1]}, op("add", "/a/-", 2), {"a": [1, 2]}),
        ({"a": 1}, op("replace", "/a", 2), {"a": 2}),
        ([1, 2], op("replace", "/1", 9), [1, 9]),
        (None, op("add", "", {"a": 1}), {"a": 1}),
        ({"a": {"b": 1}}, op("remove", "/a/b"), {"a": {}}),
        ([1, 2, 3], op("remove", "/1"), [1, 3]),
        ({"a": 1}, op("move", "/b", source="/a"), {"b": 1}),
        ([1, 2, 3], op("move", "/0", source="/2"), [3, 1, 2]),
        ({"a": [1]}, op("copy", "/b", source="/a"), {"a": [1], "b": [1]}),
        ({"a": 1}, op("test", "/a", 1), {"a": 1}),
        ({"a/b": 1, "m~n": 2}, op("remove", "/a~1b"), {"m~n": 2}),
        ({"m~n": 2}, op("replace", "/m~0n", b"\x00"), {"m~n": b"\x00"}),
    ],
)
def test_an_operation_has_its_effect(before: Any, operation: Operation, after: Any) -> None:
    assert apply(before, [operation]) == after


@pytest.mark.parametrize(
    ("value", "operation"),
    [
        ({}, op("remove", "/a")),
        ({}, op("add", "/a/b", 1)),
        ([], op("add", "/1", 1)),
        ([1], op("replace", "/1", 1)),
        ([1], op("remove", "/x")),
        ([1], op("remove", "/-1")),
        (5, op("add", "/a", 1)),
        ({}, op("test", "/a")),
        ({}, op("copy", "/b", source="/a")),
        ({}, op("explode", "/a")),
    ],
)
def test_an_operation_that_does_not_fit_shows_a_stale_copy(
    value: Any, operation: Operation
) -> None:
    before = copy.deepcopy(value)
    with pytest.raises(ArautoError) as caught:
        apply(value, [operation])
    assert caught.value.code is Code.BAD_OPERATION
    assert value == before


def test_a_part_is_found_by_its_pointer() -> None:
    assert resolve({"a": [{"b": 5}]}, "/a/0/b") == 5
    with pytest.raises(ArautoError) as caught:
        resolve({"a": []}, "/a/0")
    assert caught.value.code is Code.NOT_FOUND


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text("ab~/", max_size=2)
    | st.binary(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab~/01-", max_size=2), inner, max_size=3)
    ),
    max_leaves=10,
)
POINTERS = st.lists(
    st.sampled_from(["a", "b", "ab", "0", "1", "-", "~0", "~1", "a~1"]), max_size=3
).map(lambda segments: "".join("/" + segment for segment in segments))
OPERATIONS = st.one_of(
    st.builds(op, st.sampled_from(["add", "replace"]), POINTERS, VALUES),
    st.builds(op, st.just("remove"), POINTERS),
    st.builds(op, st.sampled_from(["move", "copy"]), POINTERS, st.none(), POINTERS),
)


@given(VALUES, st.lists(st.lists(OPERATIONS, min_size=1, max_size=3), max_size=6), st.booleans())
def test_a_copy_follows_the_nodes_own_engine(
    start: Any, changes: list[list[Operation]], strict: bool
) -> None:
    """Whatever the node accepted and broadcast, the copy becomes what the node has."""
    document = engine.Document(copy.deepcopy(start))
    mine = copy.deepcopy(start)
    for operations in changes:
        try:
            applied = engine.apply(document, operations, strict=strict)
        except ArautoError:
            continue
        earlier, snapshot = mine, copy.deepcopy(mine)
        mine = apply(mine, applied.operations)
        assert mine == document.value
        assert earlier == snapshot, "a value handed out earlier was changed"
