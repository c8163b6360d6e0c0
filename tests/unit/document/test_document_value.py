"""What a document may hold, what it weighs, and when two values are the same."""

import math
import tracemalloc
from enum import IntEnum
from typing import Any

import msgspec
import pytest
from hypothesis import given

from arauto.errors import ArautoError, Code
from arauto.features.document.value import (
    CEILING,
    LIMITS,
    Limits,
    Size,
    check,
    clone,
    equal,
    measure,
)
from tests.unit.document.cases import documents, same, values


def _check(value: Any, limits: Limits = LIMITS, depth: int = 0) -> Size:
    return check(
        value,
        limits,
        nodes_room=limits.nodes_max,
        bytes_room=limits.size_bytes_max,
        depth=depth,
    )


def _refusal(value: Any, limits: Limits = LIMITS, depth: int = 0) -> ArautoError:
    with pytest.raises(ArautoError) as caught:
        _check(value, limits, depth)
    assert caught.value.field == "value"
    return caught.value


class _Colour(IntEnum):
    RED = 1


class _Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        2**63,
        -(2**63) - 1,
        1j,
        (1, 2),
        {1, 2},
        bytearray(b"x"),
        object(),
        msgspec.UNSET,
        _Colour.RED,
        _Text("x"),
        "\ud800",
        {"\udfff": 1},
        {1: 2},
        {b"a": 1},
        {None: 1},
    ],
)
def test_what_is_not_a_value_is_refused_at_any_depth(value: Any) -> None:
    assert _refusal(value).code is Code.BAD_OPERATION
    assert _refusal({"a": [0, value]}).code is Code.BAD_OPERATION


@pytest.mark.parametrize(
    "value", [2**63 - 1, -(2**63), -0.0, 1e308, "", b"", "\x00", [], {}, {"": {}}]
)
def test_values_at_the_edge_are_accepted(value: Any) -> None:
    assert _check(value) == measure(value)


def test_depth_counts_containers_inside_one_another() -> None:
    limits = Limits(depth_max=3)
    assert _check(1, limits, depth=3).height == 0
    assert _check([], limits, depth=2).height == 1
    assert _check({"a": {"b": {"c": 1}}}, limits).height == 3
    assert _refusal({"a": {"b": {"c": {}}}}, limits).code is Code.DOCUMENT_TOO_LARGE
    assert _refusal([[[[1]]]], limits).code is Code.DOCUMENT_TOO_LARGE
    assert _refusal({}, limits, depth=3).code is Code.DOCUMENT_TOO_LARGE


def test_a_value_that_contains_itself_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    assert _refusal(ring).code is Code.DOCUMENT_TOO_LARGE


def test_a_small_object_that_stands_for_millions_of_values_is_refused() -> None:
    bomb: Any = "x"
    for _ in range(40):
        bomb = [bomb, bomb]
    assert _refusal(bomb).code is Code.DOCUMENT_TOO_LARGE


def test_a_value_too_wide_is_refused_before_its_parts_are_listed() -> None:
    bomb = [[0] * 90_000] * 200
    tracemalloc.start()
    try:
        error = _refusal(bomb)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert error.code is Code.DOCUMENT_TOO_LARGE
    assert peak_bytes < 5_000_000


def test_each_limit_refuses_one_more_than_it_allows() -> None:
    assert _check([0] * 9, Limits(nodes_max=10)).nodes == 10
    assert "10 values" in _refusal([0] * 10, Limits(nodes_max=10)).message
    for text in ("x" * 4, "é" * 2, b"xxxx", {"xxxx": 0}):
        _check(text, Limits(text_bytes_max=4))
    for text in ("x" * 5, "é" * 3, b"xxxxx", {"xxxxx": 0}):
        assert _refusal(text, Limits(text_bytes_max=4)).code is Code.DOCUMENT_TOO_LARGE
    size_bytes = measure(["abc"] * 3).size_bytes
    _check(["abc"] * 3, Limits(size_bytes_max=size_bytes))
    assert "bytes" in _refusal(["abc"] * 3, Limits(size_bytes_max=size_bytes - 1)).message


@pytest.mark.parametrize("name", Limits.__struct_fields__)
def test_limits_stay_between_one_and_the_ceiling(name: str) -> None:
    highest = getattr(CEILING, name)
    assert getattr(Limits(**{name: highest}), name) == highest
    for bad in (0, -1, highest + 1):
        with pytest.raises(ArautoError) as caught:
            Limits(**{name: bad})
        assert (caught.value.code, caught.value.field) == (Code.BAD_CONFIG, name)


@given(documents)
def test_checking_and_measuring_agree_and_estimate_from_above(value: Any) -> None:
    size = _check(value)
    assert size == measure(value)
    assert size.size_bytes >= len(msgspec.msgpack.encode(value))


@given(documents)
def test_a_clone_is_the_same_value_in_other_containers(value: Any) -> None:
    twin: Any = clone(value)
    assert same(twin, value)
    if isinstance(value, dict):
        twin["new"] = 1
        assert "new" not in value
    if isinstance(value, list):
        twin.append(1)
        assert len(twin) == len(value) + 1


@given(values, values)
def test_equality_is_by_type_and_content(left: Any, right: Any) -> None:
    assert equal(left, right) is same(left, right)
    assert equal(left, clone(left))


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, 1.0, True),
        (0, -0.0, True),
        (2**53 + 1, float(2**53), False),
        (True, 1, False),
        (0, False, False),
        (1.0, True, False),
        (None, False, False),
        (None, None, True),
        ("a", b"a", False),
        (b"", "", False),
        ([], {}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"b": 1}, False),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        ([[True]], [[1]], False),
        ("é", "e\u0301", False),
    ],
)
def test_equality_of_lookalikes(left: Any, right: Any, expected: bool) -> None:
    assert equal(left, right) is expected
    assert equal(right, left) is expected
