"""Requests that try to make the node spend far more than they cost to send."""

import tracemalloc
from typing import Any

import pytest

from arauto.codec.events import Operation
from arauto.errors import ArautoError, Code
from arauto.features.document.patch import Document, apply
from arauto.features.document.value import Limits, clone
from tests.unit.document.cases import add, copy_, move, remove, replace, test_


def _refusal(
    document: Document, operations: list[Operation], limits: Limits, *, strict: bool = False
) -> ArautoError:
    before, nodes, size_bytes = clone(document.value), document.nodes, document.size_bytes
    with pytest.raises(ArautoError) as caught:
        apply(document, operations, strict=strict, limits=limits)
    assert document.value == before
    assert (document.nodes, document.size_bytes) == (nodes, size_bytes)
    return caught.value


@pytest.mark.parametrize("strict", [True, False])
def test_doubling_by_copies_stops_at_the_node_limit_before_memory_is_taken(strict: bool) -> None:
    """Forty copies of a document into itself would make 2^40 values out of one kilobyte."""
    document = Document({"a": [1]})
    doubling = [copy_("", f"/copy{index}") for index in range(40)]
    tracemalloc.start()
    try:
        error = _refusal(document, doubling, Limits(), strict=strict)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert error.code is Code.DOCUMENT_TOO_LARGE
    assert peak_bytes < 40_000_000


def test_doubling_of_long_strings_stops_at_the_byte_limit() -> None:
    document = Document({"a": "x" * 100_000})
    error = _refusal(document, [copy_("", f"/{n}") for n in range(20)], Limits())
    assert error.code is Code.DOCUMENT_TOO_LARGE
    assert "bytes" in error.message


def test_nesting_by_copies_and_moves_stops_at_the_depth_limit() -> None:
    limits = Limits(depth_max=8)
    for nest in (
        [copy_("/a", "/a/a")] * 10,
        [move("/a", "/b"), add("/a", {}), move("/b", "/a/a")] * 10,
        [add("/b", {}), copy_("/a", "/b/a"), move("/b", "/a")] * 10,
        [add("/a/a/a/a/a/a/a/a", {})],
        [add("/a/a/a/a/a/a/a/a/a", 1)],
        [add("/a", [[[[[[[[1]]]]]]]])],
    ):
        error = _refusal(Document({"a": {}}), nest, limits)
        assert error.code is Code.DOCUMENT_TOO_LARGE, nest
        assert "deep" in error.message


def test_a_move_to_where_it_is_deeper_counts_the_height_of_what_moves() -> None:
    document = Document({"a": [[[1]]], "b": {"c": {}}})
    apply(document, [move("/a", "/b/a")], limits=Limits(depth_max=5))
    error = _refusal(document, [move("/b/a", "/b/c/a")], Limits(depth_max=5))
    assert error.code is Code.DOCUMENT_TOO_LARGE


@pytest.mark.parametrize(
    "wasteful",
    [
        [copy_("/big", "/x"), remove("/x")],
        [copy_("/big", "/x")],
        [move("/big", "/a/big"), move("/a/big", "/big")],
        [test_("/big", [0] * 1_000)],
    ],
)
def test_a_batch_that_works_a_lot_for_nothing_is_stopped(wasteful: list[Operation]) -> None:
    document = Document({"big": [0] * 1_000, "a": {}})
    limits = Limits(work_nodes_max=20_000)
    apply(document, wasteful, limits=limits)
    error = _refusal(document, wasteful * 50, limits)
    assert error.code is Code.BATCH_TOO_LARGE


def test_a_copy_is_charged_for_measuring_and_for_copying() -> None:
    document = Document({"big": [0] * 999})
    copying = [copy_("/big", "/x")]
    assert _refusal(document, copying, Limits(work_nodes_max=1_999)).code is Code.BATCH_TOO_LARGE
    apply(document, copying, limits=Limits(work_nodes_max=2_000))


def test_too_many_operations_are_refused_before_the_first_one_runs() -> None:
    document = Document({})
    error = _refusal(document, [add("/a", 1)] * 1_001, Limits())
    assert (error.code, error.field) == (Code.BATCH_TOO_LARGE, "operations")


def test_a_value_that_would_overflow_the_document_is_refused() -> None:
    document = Document({"a": [0] * 90})
    limits = Limits(nodes_max=100)
    assert _refusal(document, [add("/b", [0] * 9)], limits).code is Code.DOCUMENT_TOO_LARGE
    apply(document, [add("/b", [0] * 7)], limits=limits)
    assert document.nodes == 100
    apply(document, [replace("/a", [1] * 90)], limits=limits)
    assert _refusal(document, [add("/c", 0)], limits).code is Code.DOCUMENT_TOO_LARGE


def test_long_names_count_wherever_they_come_from() -> None:
    name = "n" * 600
    limits = Limits(size_bytes_max=1_000)
    for grow in ([add(f"/{name}/{name}", 1)], [add(f"/{name}", 1), copy_(f"/{name}", f"/{name}2")]):
        assert _refusal(Document({}), grow, limits).code is Code.DOCUMENT_TOO_LARGE
    too_long: list[Operation] = [add("/" + "n" * 2_000, 1)]
    assert (
        _refusal(Document({}), too_long, Limits(text_bytes_max=1_000)).code
        is Code.DOCUMENT_TOO_LARGE
    )


def test_a_document_over_lowered_limits_can_still_shrink() -> None:
    value: Any = {"a": [0] * 50, "b": 1}
    document = Document(value)
    limits = Limits(nodes_max=10)
    assert _refusal(document, [add("/c", 1)], limits).code is Code.DOCUMENT_TOO_LARGE
    apply(document, [test_("/b", 1), move("/b", "/c"), remove("/a")], limits=limits)
    assert document.value == {"c": 1}
