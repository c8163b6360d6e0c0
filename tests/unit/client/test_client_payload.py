"""Python objects to payloads and back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.client.payload import decode, encode
from arauto.errors import ArautoError, Code
from arauto.model import BINARY, JSON, TEXT

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON_VALUES.filter(lambda value: not isinstance(value, str)))
def test_json_values_come_back_as_they_went(value: Any) -> None:
    payload, content_type = encode(value)
    assert content_type == JSON
    assert decode(payload, content_type) == value


@given(st.text())
def test_text_travels_as_text(text: str) -> None:
    payload, content_type = encode(text)
    assert (content_type, decode(payload, content_type)) == (TEXT, text)


@given(st.binary())
def test_bytes_travel_as_they_are(data: bytes) -> None:
    assert encode(data) == (data, BINARY)
    assert decode(data, BINARY) == data


@pytest.mark.parametrize("data", [bytearray(b"ab"), memoryview(b"ab")])
def test_anything_like_bytes_counts_as_bytes(data: Any) -> None:
    assert encode(data) == (b"ab", BINARY)


def test_a_content_type_of_json_makes_a_string_json() -> None:
    assert encode("a", JSON) == (b'"a"', JSON)


def test_bytes_keep_the_content_type_they_are_given() -> None:
    assert encode(b"<a/>", "application/xml") == (b"<a/>", "application/xml")


@pytest.mark.parametrize(
    ("content_type", "value"),
    [
        ("application/json; charset=utf-8", {"a": 1}),
        ("application/geo+json", {"a": 1}),
        ("Application/JSON", {"a": 1}),
        ("text/csv", '{"a":1}'),
        ("application/octet-stream", b'{"a":1}'),
    ],
)
def test_the_content_type_decides_what_data_is(content_type: str, value: Any) -> None:
    assert decode(b'{"a":1}', content_type) == value


@pytest.mark.parametrize(
    ("payload", "content_type"),
    [(b"{", JSON), (b"\xff", TEXT), (b"[" * 100_000, JSON), (b"\xff", JSON), (b"", JSON)],
)
def test_a_payload_that_is_not_what_it_says_is_an_error_with_a_code(
    payload: bytes, content_type: str
) -> None:
    with pytest.raises(ArautoError) as caught:
        decode(payload, content_type)
    assert caught.value.code is Code.BAD_FIELD


class _Odd:
    pass


def _endless() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        (_Odd(), None),
        ({"a": _Odd()}, None),
        ({"a": 1}, "text/plain"),
        ("\ud800", None),
        (_endless(), None),
    ],
)
def test_what_cannot_be_written_is_refused(data: Any, content_type: str | None) -> None:
    with pytest.raises(ArautoError) as caught:
        encode(data, content_type)
    assert (caught.value.code, caught.value.field) == (Code.BAD_FIELD, "data")
