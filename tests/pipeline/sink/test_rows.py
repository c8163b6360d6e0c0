"""What a row becomes: its id, its marks, and what cannot be published."""

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from arauto.errors import ArautoError, Code
from arauto.model import RESERVED_HEADERS
from arauto.pipeline.sink.options import SinkOptions
from arauto.pipeline.sink.rows import HOPS_MAX, LoopError, rows_of, to_message

OPTIONS = SinkOptions(url="http://127.0.0.1:1", token="t", hub="shop")
ROW: dict[str, object] = {"channel": "a:1", "payload": "hello"}


def test_text_is_published_as_text_and_bytes_as_bytes() -> None:
    assert to_message(ROW, OPTIONS)[1].content_type == "text/plain"
    assert to_message(ROW | {"payload": b"\x00"}, OPTIONS)[1].content_type == ""


def test_the_rows_own_content_type_wins_over_the_option() -> None:
    options = SinkOptions(url="", token="t", hub="shop", content_type="application/json")
    assert to_message(ROW, options)[1].content_type == "application/json"
    assert to_message(ROW | {"content_type": "text/csv"}, options)[1].content_type == "text/csv"


def test_the_rows_own_hub_wins_over_the_option() -> None:
    assert to_message(ROW, OPTIONS)[0] == "shop"
    assert to_message(ROW | {"hub": "bar"}, OPTIONS)[0] == "bar"


def test_the_same_row_has_the_same_id_and_any_other_has_another() -> None:
    changes: list[dict[str, object]] = [
        {},
        {"hub": "bar"},
        {"channel": "a:2"},
        {"payload": "hallo"},
        {"content_type": "text/csv"},
        {"key": "k"},
        {"headers": [("a", "b")]},
        {"user": "ann"},
    ]
    ids = [to_message(ROW | change, OPTIONS)[1].id for change in changes]
    assert len(set(ids)) == len(changes)
    assert ids == [to_message(ROW | change, OPTIONS)[1].id for change in changes]


def test_headers_in_another_order_make_no_other_id() -> None:
    there = to_message(ROW | {"headers": [("a", "1"), ("b", "2")]}, OPTIONS)[1]
    back = to_message(ROW | {"headers": [("b", "2"), ("a", "1")]}, OPTIONS)[1]
    assert there.id == back.id


def test_an_id_of_the_row_is_taken_as_it_is_and_a_made_one_gets_the_prefix() -> None:
    options = SinkOptions(url="", token="t", hub="shop", id_prefix="q7-")
    assert to_message(ROW | {"id": "mine"}, options)[1].id == "mine"
    assert to_message(ROW, options)[1].id == "q7-" + to_message(ROW, OPTIONS)[1].id


def test_messages_say_where_they_come_from() -> None:
    options = SinkOptions(url="", token="t", hub="shop", rule="fx-spike")
    row = ROW | {"user": "ann", "headers": [("x-hops", "2"), ("x-origin", "me"), ("n", None)]}
    assert to_message(row, options)[1].headers == {
        "x-origin": "pipeline",
        "x-hops": "3",
        "x-rule": "fx-spike",
        "x-user": "ann",
    }


def test_no_client_can_set_what_the_sink_marks_messages_with() -> None:
    options = SinkOptions(url="", token="t", hub="shop", rule="fx-spike")
    marks = to_message(ROW | {"user": "ann"}, options)[1].headers
    assert marks
    assert marks.keys() <= RESERVED_HEADERS


def test_a_message_goes_round_eight_times_and_no_more() -> None:
    headers: dict[str, str] = {}
    for _ in range(HOPS_MAX):
        made = to_message(ROW | {"headers": list(headers.items())}, OPTIONS)[1].headers
        headers = dict(made or {})
    with pytest.raises(LoopError):
        to_message(ROW | {"headers": list(headers.items())}, OPTIONS)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"channel": None}, "channel"),
        ({"payload": None}, "payload"),
        ({"headers": [("x-hops", "many")]}, "headers"),
    ],
)
def test_a_row_that_cannot_be_published_says_why(change: dict[str, object], field: str) -> None:
    with pytest.raises(ArautoError) as caught:
        to_message(ROW | change, OPTIONS)
    assert (caught.value.code, caught.value.field) == (Code.BAD_FIELD, field)


def test_a_row_without_any_hub_is_refused() -> None:
    with pytest.raises(ArautoError, match="hub is null"):
        to_message(ROW | {"hub": None}, SinkOptions(url="", token="t"))


def test_rows_come_out_of_arrow_as_they_are() -> None:
    headers = pa.array([[("a", "b")], None], pa.map_(pa.string(), pa.string()))
    batch = pa.record_batch({"payload": pa.array([b"1", b"2"]), "headers": headers})
    assert list(rows_of(batch)) == [
        {"payload": b"1", "headers": [("a", "b")]},
        {"payload": b"2", "headers": None},
    ]
