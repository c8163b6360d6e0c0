"""What `arauto pub` takes its arguments and lines for."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.cli.payloads import Form, read_payload
from arauto.model import JSON, TEXT


@pytest.mark.parametrize("text", ["7", '"x"', '{"a": [1, null]}', " [1]\n", "true"])
def test_json_is_recognised(text: str) -> None:
    assert read_payload(text.encode(), Form.GUESS).content_type == JSON


@pytest.mark.parametrize("text", ["", "Bom dia", "{'a': 1}", "NaN", "01", "[1,]", "café"])
def test_what_is_not_json_is_text(text: str) -> None:
    assert read_payload(text.encode(), Form.GUESS).content_type == TEXT


def test_text_may_look_like_json() -> None:
    assert read_payload(b'{"a": 1}', Form.TEXT).content_type == TEXT


@pytest.mark.parametrize("form", [Form.GUESS, Form.TEXT])
def test_bytes_that_are_no_text_are_refused(form: Form) -> None:
    with pytest.raises(ValueError, match="not UTF-8"):
        read_payload(b"\xff\xfe", form)


@pytest.mark.parametrize("data", [b"Bom dia", b"", b"\xff", b"[" * 100_000])
def test_what_must_be_json_and_is_not_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        read_payload(data, Form.JSON)


@given(st.text(), st.sampled_from([Form.GUESS, Form.TEXT]))
def test_the_bytes_travel_as_they_were_given(text: str, form: Form) -> None:
    assert read_payload(text.encode(), form).data == text.encode()


@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(), st.lists))
def test_every_json_value_is_taken_for_json(value: object) -> None:
    data = json.dumps(value).encode()
    assert read_payload(data, Form.GUESS) == read_payload(data, Form.JSON)
