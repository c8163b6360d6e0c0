"""What a URL asks for is read to the letter or refused, never as something near it."""

import pytest

from arauto.errors import ArautoError, Code
from arauto.gateways.query import is_strict, last, read_query


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (b"hub=shop", False),
        (b"strict=true", True),
        (b"strict=1", True),
        (b"strict=false", False),
        (b"strict=0", False),
    ],
)
def test_strict_is_on_or_off(query: bytes, expected: bool) -> None:
    assert is_strict(read_query(query, 10)) is expected


@pytest.mark.parametrize(
    "given", [b"strict=", b"strict", b"strict=xx", b"strict=TRUE", b"strict=2"]
)
def test_strict_as_anything_else_is_refused(given: bytes) -> None:
    with pytest.raises(ArautoError) as caught:
        is_strict(read_query(b"hub=shop&" + given, 10))
    assert (caught.value.code, caught.value.field) == (Code.BAD_FIELD, "strict")


@pytest.mark.parametrize("given", [b"s:%C3%28", b"s:%FF", b"s:\xc3(", b"%ED%A0%80", b"\xc3%A9"])
def test_what_is_not_utf_8_is_refused_and_not_replaced(given: bytes) -> None:
    with pytest.raises(ArautoError) as caught:
        read_query(b"channel=" + given, 10)
    assert (caught.value.code, caught.value.field) == (Code.BAD_FIELD, "query")


@pytest.mark.parametrize("given", [b"caf%C3%A9", b"caf\xc3\xa9"])
def test_a_name_is_the_same_escaped_and_as_it_is(given: bytes) -> None:
    assert last(read_query(b"channel=a&channel=" + given, 10), "channel") == "caf\u00e9"


@pytest.mark.parametrize("field", ["hub", "token", "strict", "lastEventId"])
@pytest.mark.parametrize("values", [("1", "0"), ("1", "1"), ("1", ""), ("", "1")])
def test_what_counts_once_is_given_once(field: str, values: tuple[str, str]) -> None:
    query = "&".join(f"{field}={value}" for value in values)
    with pytest.raises(ArautoError) as caught:
        read_query(f"channel=a&channel=b&{query}".encode(), 10)
    assert (caught.value.code, caught.value.field) == (Code.BAD_FIELD, field)
    assert "channel" not in caught.value.message


def test_channels_and_what_a_later_version_may_mean_come_as_often_as_they_like() -> None:
    assert read_query(b"channel=a&channel=b&later=1&later=2&hub=c", 10) == {
        "channel": ["a", "b"],
        "later": ["1", "2"],
        "hub": ["c"],
    }


def test_too_many_fields_are_refused() -> None:
    with pytest.raises(ArautoError) as caught:
        read_query(b"a=1&" * 11, 10)
    assert caught.value.code == Code.BAD_FIELD
