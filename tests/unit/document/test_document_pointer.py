"""JSON Pointers, strict and friendly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.errors import ArautoError, Code
from arauto.features.document.pointer import (
    array_index,
    format_pointer,
    is_index,
    parse_pointer,
)


def _parse(text: str, *, strict: bool = True, segments_max: int = 64) -> list[str]:
    return parse_pointer(text, strict=strict, segments_max=segments_max, field="path")


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("", []),
        ("/", [""]),
        ("/a/b/0", ["a", "b", "0"]),
        ("/a//", ["a", "", ""]),
        ("/x~1y/m~0n", ["x/y", "m~n"]),
        ("/~01/~10", ["~1", "/0"]),
        ("/ /é/-", [" ", "é", "-"]),
    ],
)
def test_pointers_of_the_standard(text: str, segments: list[str]) -> None:
    assert _parse(text) == segments
    assert _parse(text, strict=False) == segments
    assert format_pointer(segments) == text


def test_friendly_pointers_may_leave_out_the_first_slash() -> None:
    assert _parse("a/b/0", strict=False) == ["a", "b", "0"]
    with pytest.raises(ArautoError) as caught:
        _parse("a/b/0")
    assert (caught.value.code, caught.value.field) == (Code.BAD_OPERATION, "path")


@pytest.mark.parametrize("text", ["/~", "/a~", "/~2", "/~a", "/a/~~0"])
@pytest.mark.parametrize("strict", [True, False])
def test_an_escape_that_does_not_exist_is_refused(text: str, strict: bool) -> None:
    with pytest.raises(ArautoError) as caught:
        _parse(text, strict=strict)
    assert caught.value.code is Code.BAD_OPERATION


def test_a_pointer_deeper_than_any_document_is_refused_before_it_is_split() -> None:
    assert len(_parse("/a" * 64)) == 64
    with pytest.raises(ArautoError) as caught:
        _parse("/" * 1_000_000)
    assert caught.value.code is Code.DOCUMENT_TOO_LARGE


@given(st.lists(st.text(alphabet="ab/~01-é", max_size=4), max_size=6))
def test_formatting_and_parsing_are_inverse(segments: list[str]) -> None:
    assert _parse(format_pointer(segments)) == segments
    assert _parse(format_pointer(segments), strict=False) == segments


@pytest.mark.parametrize(
    ("segment", "index"),
    [("0", 0), ("7", 7), ("10", 10), ("-", 3)],
)
def test_an_index_is_decimal_without_leading_zeros(segment: str, index: int) -> None:
    assert is_index(segment)
    assert array_index(segment, 3) == index


@pytest.mark.parametrize(
    "segment", ["", "01", "00", "-1", "+1", "1e0", "1.0", " 1", "1\n", "٣", "a"]
)
def test_what_looks_like_an_index_is_none(segment: str) -> None:
    assert not is_index(segment)
    assert array_index(segment, 3) is None


def test_an_index_of_a_million_digits_costs_nothing() -> None:
    index = array_index("9" * 1_000_000, 3)
    assert index is not None
    assert index > 4_000_000
