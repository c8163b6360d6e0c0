"""Operations on documents by example: both modes, every error with its field."""

from collections.abc import Sequence
from typing import Any

import pytest

from arauto.codec.events import Operation
from arauto.errors import ArautoError, Code
from arauto.features.document.patch import Document, apply
from arauto.features.document.value import clone
from tests.unit.document.cases import add, copy_, move, remove, replace, same, test_


def _apply(before: Any, *operations: Operation, strict: bool = False) -> Any:
    document = Document(clone(before))
    apply(document, operations, strict=strict)
    return document.value


def _refusal(before: Any, *operations: Operation, strict: bool = False) -> ArautoError:
    document = Document(clone(before))
    with pytest.raises(ArautoError) as caught:
        apply(document, operations, strict=strict)
    assert document.value == before
    return caught.value


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("before", "operations", "after"),
    [
        ({}, [add("/a", 1)], {"a": 1}),
        ({"a": 1}, [add("/a", [b"\x00"])], {"a": [b"\x00"]}),
        ({"a": [1, 3]}, [add("/a/1", 2)], {"a": [1, 2, 3]}),
        ({"a": [1]}, [add("/a/-", 2), add("/a/2", 3)], {"a": [1, 2, 3]}),
        ({"a": 1}, [remove("/a")], {}),
        ([1, 2, 3], [remove("/1")], [1, 3]),
        ([1, 2, 3], [replace("/1", None)], [1, None, 3]),
        ({"a": 1}, [replace("", 5)], 5),
        (5, [add("", [])], []),
        ({"a": {"x": 1}}, [move("/a/x", "/b")], {"a": {}, "b": 1}),
        ({"a": {"x": 1}}, [move("/a/x", "/a")], {"a": 1}),
        ({"a": {"x": 1}}, [move("/a", "")], {"x": 1}),
        ({"a": 1}, [move("/a", "/a")], {"a": 1}),
        ([1], [move("", "")], [1]),
        ([1, 2, 3], [move("/0", "/2")], [2, 3, 1]),
        ({"a": [1]}, [copy_("/a", "/b"), add("/b/-", 2)], {"a": [1], "b": [1, 2]}),
        ({"a": 1}, [copy_("", "/b")], {"a": 1, "b": {"a": 1}}),
        ({"a": {"b": 1}}, [copy_("/a/b", "/a")], {"a": 1}),
        ({"a": 1}, [test_("/a", 1.0), test_("", {"a": 1})], {"a": 1}),
        ({"": {"": 1}}, [replace("//", 2)], {"": {"": 2}}),
        ({"a": {}}, [add("/a/0", 1)], {"a": {"0": 1}}),
        ({"0": 1}, [add("/0", 2), add("/-", 3)], {"0": 2, "-": 3}),
    ],
)
def test_operations_that_need_no_friendliness(
    before: Any, operations: Sequence[Operation], after: Any, strict: bool
) -> None:
    assert same(_apply(before, *operations, strict=strict), after)


@pytest.mark.parametrize(
    ("before", "operations", "after"),
    [
        ({}, [add("a/b/c", 1)], {"a": {"b": {"c": 1}}}),
        ({}, [add("/a/0", 1)], {"a": [1]}),
        ({}, [add("/a/-", 1), add("/a/-", 2)], {"a": [1, 2]}),
        ({}, [add("/a/0/b/-/c", 1)], {"a": [{"b": [{"c": 1}]}]}),
        ({"a": [1]}, [add("/a/-/b", 2)], {"a": [1, {"b": 2}]}),
        ({"a": [1]}, [add("/a/1/b", 2)], {"a": [1, {"b": 2}]}),
        ({"a": "text"}, [add("/a/b", 1)], {"a": {"b": 1}}),
        ({"a": None}, [add("/a/0", 1)], {"a": [1]}),
        ({"a": b"x"}, [add("/a/b/0", 1)], {"a": {"b": [1]}}),
        (7, [add("/a", 1)], {"a": 1}),
        (None, [add("/-", 1)], [1]),
        ({}, [replace("/a/b", 1)], {"a": {"b": 1}}),
        ({"a": [1]}, [replace("/a/1", 2), replace("/a/-", 3)], {"a": [1, 2, 3]}),
        ({"x": 1}, [move("x", "a/b")], {"a": {"b": 1}}),
        ({"x": 1, "a": 2}, [move("x", "a/b")], {"a": {"b": 1}}),
        ({"x": [1]}, [copy_("x", "a/0")], {"x": [1], "a": [[1]]}),
        ({"a": {"b": 1}}, [test_("a/b", 1), remove("a/b")], {"a": {}}),
    ],
)
def test_friendly_mode_makes_way(before: Any, operations: Sequence[Operation], after: Any) -> None:
    assert same(_apply(before, *operations), after)
    with pytest.raises(ArautoError):
        _apply(before, *operations, strict=True)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("before", "operation", "code", "field"),
    [
        ({}, Operation(op="", path=""), Code.BAD_OPERATION, "op"),
        ({}, Operation(op="ADD", path="/a"), Code.BAD_OPERATION, "op"),
        ({}, add("/~", 1), Code.BAD_OPERATION, "path"),
        ({}, add("/a", {1: 1}), Code.BAD_OPERATION, "value"),
        ({}, add("/a", float("nan")), Code.BAD_OPERATION, "value"),
        ({}, add("/\ud800", 1), Code.BAD_OPERATION, "value"),
        ({}, remove("/a"), Code.BAD_OPERATION, "path"),
        ({}, remove(""), Code.BAD_OPERATION, "path"),
        ([1], remove("/-"), Code.BAD_OPERATION, "path"),
        ([1], remove("/1"), Code.BAD_OPERATION, "path"),
        ([1], remove("/00"), Code.BAD_OPERATION, "path"),
        ([1], add("/2", 1), Code.BAD_OPERATION, "path"),
        ([1], add("/a", 1), Code.BAD_OPERATION, "path"),
        ([1], replace("/" + "9" * 5000, 1), Code.BAD_OPERATION, "path"),
        ([[1]], add("/0/a/b", 1), Code.BAD_OPERATION, "path"),
        ({}, add("/a/1", 1), Code.BAD_OPERATION, "path"),
        ({}, add("/a/7/b", 1), Code.BAD_OPERATION, "path"),
        ({}, move("/a", "/b"), Code.BAD_OPERATION, "source"),
        ({}, copy_("/a", "/b"), Code.BAD_OPERATION, "source"),
        ({"a": 1}, copy_("/~", "/b"), Code.BAD_OPERATION, "source"),
        ({"a": {}}, move("/a", "/a/b"), Code.BAD_OPERATION, "path"),
        ({"a": {}}, move("", "/b"), Code.BAD_OPERATION, "path"),
        ({"a": 1}, copy_("/a", "/a/b"), Code.BAD_OPERATION, "path"),
        ({"a": 1}, test_("/a", 2), Code.TEST_FAILED, "value"),
        ({"a": 1}, test_("/a", True), Code.TEST_FAILED, "value"),
        ({"a": "x"}, test_("/a", b"x"), Code.TEST_FAILED, "value"),
        ({"a": 1}, test_("/b", None), Code.TEST_FAILED, "path"),
        ({"a": 1}, test_("/a", {2}), Code.BAD_OPERATION, "value"),
        ({}, add("/a" * 65, 1), Code.DOCUMENT_TOO_LARGE, "path"),
    ],
)
def test_errors_name_the_operation_and_the_field_and_change_nothing(
    before: Any, operation: Operation, code: Code, field: str, strict: bool
) -> None:
    first = replace("", clone(before))
    error = _refusal(before, first, operation, strict=strict)
    assert (error.code, error.field) == (code, f"operations[1].{field}")
    assert error.message


@pytest.mark.parametrize("pointer", ["a", "a/b", " /a"])
def test_strict_mode_refuses_pointers_without_the_slash(pointer: str) -> None:
    assert _refusal({"a": 1}, replace(pointer, 2), strict=True).field == "operations[0].path"
    assert _refusal({"a": 1}, copy_(pointer, "/b"), strict=True).field == "operations[0].source"


def _effective(before: Any, *operations: Operation, strict: bool = False) -> tuple[Operation, ...]:
    return apply(Document(clone(before)), operations, strict=strict).operations


@pytest.mark.parametrize(
    ("before", "operation", "plain"),
    [
        ({}, add("a", 1), [add("/a", 1)]),
        ({}, add("x~1y/m~0n", 1), [add("/x~1y", {}), add("/x~1y/m~0n", 1)]),
        ({}, add("a/b/0", 1), [add("/a", {"b": []}), add("/a/b/0", 1)]),
        ({"a": 5}, add("a/b/c", 1), [replace("/a", {"b": {}}), add("/a/b/c", 1)]),
        ({"a": [0]}, add("a/-/b", 1), [add("/a/1", {}), add("/a/1/b", 1)]),
        ({}, add("-/b/-/-", 1), [add("/-", {"b": [[]]}), add("/-/b/0/-", 1)]),
        ({}, replace("a", 1), [add("/a", 1)]),
        ({"a": 1}, replace("a", 2), [replace("/a", 2)]),
        ({"x": 1}, move("x", "a/b"), [add("/a", {}), move("/x", "/a/b")]),
        (1, add("a", 2), [replace("", {}), add("/a", 2)]),
    ],
)
def test_friendly_operations_come_out_as_plain_ones(
    before: Any, operation: Operation, plain: list[Operation]
) -> None:
    assert list(_effective(before, operation)) == plain
    assert same(_apply(before, operation), _apply(before, *plain, strict=True))


def test_operations_that_are_plain_already_come_out_as_they_went_in() -> None:
    operations = (add("/a", {"b": 1}), test_("/a/b", 1), copy_("/a", "/c"), remove("/a"))
    for strict in (True, False):
        effective = _effective({}, *operations, strict=strict)
        assert all(out is put for out, put in zip(effective, operations, strict=True))


def test_values_of_operations_are_copied_so_that_they_can_still_be_sent() -> None:
    value = {"list": [1]}
    document = Document({})
    first = apply(document, [add("/a", value)])
    apply(document, [add("/a/list/-", 2)])
    assert value == {"list": [1]}
    assert first.operations[0].value == {"list": [1]}
    value["list"].append(3)
    assert document.value == {"a": {"list": [1, 2]}}


def test_what_was_copied_no_longer_hangs_together() -> None:
    document = Document({"a": {"n": [1]}})
    apply(document, [copy_("/a", "/b"), add("/b/n/-", 2), replace("/a/n/0", 9)])
    assert document.value == {"a": {"n": [9]}, "b": {"n": [1, 2]}}


def test_changes_can_be_reverted_newest_first() -> None:
    before: Any = {"a": [1, 2, {"b": b"x"}], "c": "d"}
    document = Document(clone(before))
    batches = (
        [remove("/a/0"), move("/a/1/b", "/a/0"), add("/new/deep/0", 1)],
        [replace("", []), add("/-", 1)],
        [add("/-", 2), copy_("/0", "/1"), remove("/0")],
    )
    done = [apply(document, batch) for batch in batches]
    while done:
        done.pop().revert()
    assert same(document.value, before)
    fresh = Document(before)
    assert (document.nodes, document.size_bytes) == (fresh.nodes, fresh.size_bytes)
