"""The JSON flavour's own ways: embedded payloads and what attackers try with them, document values."""

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.codec.events import (
    DocumentChangeRequest,
    DocumentGetReply,
    Event,
    Ping,
    Publication,
    PublishItem,
    PublishRequest,
    Request,
)
from arauto.codec.json import JsonCodec
from arauto.codec.json_values import _is_shallow
from arauto.codec.unread import operations_of
from arauto.errors import ArautoError, Code
from arauto.limits import JSON_DEPTH_MAX
from arauto.model import JSON, TEXT, Message
from tests.unit.codec.samples import decode_whole
from tests.unit.codec.strategies import contents, json_bytes, values

CODEC = JsonCodec()


def published(text: str) -> PublishItem:
    """Decode one publish whose message has this JSON text beside its channel."""
    request = CODEC.decode_request(
        b'{"event":"publish","messages":[{"channel":"a",' + text.encode() + b"}]}"
    )
    assert isinstance(request, PublishRequest)
    return request.items[0]


def delivered(payload: bytes, content_type: str = JSON) -> dict[str, Any]:
    """Return the delivery of a payload as any JSON reader sees it, keys twice refused."""
    message = Message(
        hub="shop",
        channel="a",
        payload=payload,
        content_type=content_type,
        epoch=1,
        offset=2,
        ts_ms=3,
        user="ann",
    )
    return strictly(CODEC.encode_event(Publication(message=message)))


def strictly(data: bytes) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs), "a key occurs twice"
        return dict(pairs)

    def never(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    decoded: dict[str, Any] = json.loads(data, object_pairs_hook=once, parse_constant=never)
    return decoded


# --- the three forms of a payload ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "payload", "content_type"),
    [
        ('"data":{"x": 1}', b'{"x": 1}', JSON),
        ('"data":null', b"null", JSON),
        ('"data": "text" ', b'"text"', JSON),
        ('"data":1e400', b"1e400", JSON),
        ('"data":123456789012345678901234567890', b"123456789012345678901234567890", JSON),
        ('"data":{"a":1,"a":2}', b'{"a":1,"a":2}', JSON),
        ('"text":"Ol\\u00e1"', "Olá".encode(), TEXT),
        ('"text":""', b"", TEXT),
        ('"base64":"AAH/"', b"\0\1\xff", ""),
        ('"base64":"","content_type":"image/png"', b"", "image/png"),
        ('"base64":"e30=","content_type":"application/json"', b"{}", JSON),
    ],
)
def test_a_payload_is_data_text_or_base64(text: str, payload: bytes, content_type: str) -> None:
    item = published(text)
    assert (item.payload, item.content_type) == (payload, content_type)


def test_a_key_sent_twice_counts_as_its_last() -> None:
    assert CODEC.decode_request(b'{"event":"ping","id":1,"id":2}') == Ping(id=2)
    assert published('"data":1,"data":2').payload == b"2"


def test_the_event_may_stand_anywhere_in_the_object() -> None:
    assert CODEC.decode_request(b'{"id":1,"event":"ping"}') == Ping(id=1)


def test_white_space_around_the_object_is_allowed() -> None:
    assert CODEC.decode_request(b' \r\n{"event" : "ping"}\t') == Ping()


# --- deliveries ----------------------------------------------------------------------------------------


def test_json_is_delivered_as_data() -> None:
    event = delivered(b'{"x":[1,2]}')
    assert event["data"] == {"x": [1, 2]}
    assert "content_type" not in event


def test_text_is_delivered_as_text() -> None:
    event = delivered("Olá\n\u2028".encode(), TEXT)
    assert event["text"] == "Olá\n\u2028"


def test_anything_else_is_delivered_as_base64() -> None:
    event = delivered(b"\xff\xd8", "image/jpeg")
    assert (event["base64"], event["content_type"]) == ("/9g=", "image/jpeg")


#: Payloads that a publisher calls JSON, and that would do harm if they were believed.
ATTACKS = {
    "a field of its own": b'1,"user":"admin"',
    "a field after an object": b'{},"user":"admin"',
    "closing the envelope": b'1}{"event":"error","code":5003,"message":""',
    "closing the envelope, with a line": b'1}\n{"event":"error","code":5003,"message":""}',
    "opening a string": b'"a',
    "closing a string": b'a","user":"admin',
    "a comment": b"1/*",
    "nothing": b"",
    "white space": b" ",
    "NaN": b"NaN",
    "not UTF-8": b'"\xff"',
    "an encoded surrogate": b'"\xed\xa0\x80"',
    "an overlong encoding of a quote": b'"\xc0\xa2,"x":"',
    "half a surrogate pair": b'"\\ud800"',
    "a line break inside a string": b'"a\nb"',
    "a NUL after the value": b"1\0",
    "a byte order mark": b"\xef\xbb\xbf1",
    "nested too deep": b"[" * 129 + b"]" * 129,
    "nested beyond all measure": b"[" * 100_000 + b"]" * 100_000,
    "opened and never closed": b"[" * 100_000,
}


@pytest.mark.parametrize("payload", ATTACKS.values(), ids=ATTACKS)
def test_a_publisher_cannot_write_into_the_envelope(payload: bytes) -> None:
    event = delivered(payload)
    assert event.keys() == {
        *("event", "channel", "base64", "content_type", "serial", "ts_ms", "user"),
    }
    assert (event["event"], event["user"], event["content_type"]) == ("publish", "ann", JSON)


@given(contents)
def test_a_delivery_is_strict_json_whatever_the_payload(content: tuple[bytes, str]) -> None:
    event = delivered(*content)
    assert event["event"] == "publish"
    assert event["user"] == "ann"
    assert len(event.keys() & {"data", "text", "base64"}) == 1


@given(json_bytes)
def test_embedded_json_arrives_byte_for_byte(payload: bytes) -> None:
    message = Message(
        hub="", channel="a", payload=payload, content_type=JSON, epoch=1, offset=1, ts_ms=1
    )
    event = CODEC.decode_event(CODEC.encode_event(Publication(message=message)))
    assert isinstance(event, Publication)
    assert (event.message.payload, event.message.content_type) == (payload, JSON)


# --- depth -----------------------------------------------------------------------------------------------


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


@st.composite
def deep_json(draw: st.DrawFn) -> tuple[bytes, int]:
    """JSON text with brackets in its strings too, and how deep it is."""
    around = draw(st.integers(JSON_DEPTH_MAX - 4, JSON_DEPTH_MAX + 1))
    inner = draw(
        st.recursive(
            st.text(alphabet='[]{}"\\a', max_size=8),
            lambda children: (
                st.lists(children, max_size=3)
                | st.dictionaries(st.text(alphabet='[]{}"\\', max_size=4), children, max_size=3)
            ),
            max_leaves=10,
        )
    )
    text = json.dumps(inner)
    shapes = draw(st.integers(0, 2**around - 1))
    for level in range(around):
        text = f"[{text}]" if shapes >> level & 1 else f'{{"]":{text}}}'
    wide = "[" + ",".join(["[]"] * 100) + "]"
    return f"[{wide},{text}]".encode(), max(2, around + depth_of(inner)) + 1


@given(deep_json())
def test_depth_is_counted_outside_strings(case: tuple[bytes, int]) -> None:
    data, depth = case
    assert _is_shallow(data) == (depth <= JSON_DEPTH_MAX)


@pytest.mark.parametrize("bracket", [b"[]", b'{"a":1}'])
def test_wide_data_is_not_deep(bracket: bytes) -> None:
    assert _is_shallow(b"[" + b",".join([bracket] * 5000) + b"]")


@pytest.mark.timeout(30)
def test_counting_depth_takes_no_time_on_hostile_data() -> None:
    for data in (
        b'"' + b'\\"' * 500_000 + b'"',
        b"[" + b",".join([b"[" * 126 + b"]" * 126] * 4_000) + b"]",
        b"[" + b",".join([b'["\\\\"]'] * 150_000) + b"]",
        b"[" + b",".join([b"[" * 9 + b"]" * 9] * 50_000) + b"]",
    ):
        assert _is_shallow(data)


# --- document values ---------------------------------------------------------------------------------------


def change(value: str) -> Any:
    request = decode_whole(
        CODEC,
        b'{"event":"document_change","channel":"doc:a","operations":'
        b'[{"op":"add","path":"/a","value":' + value.encode() + b"}]}",
    )
    assert isinstance(request, DocumentChangeRequest)
    return operations_of(request)[0].value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"$binary":"AAH/"}', b"\0\1\xff"),
        ('{"$binary":""}', b""),
        ('{"$binary":"AA==","more":1}', {"$binary": "AA==", "more": 1}),
        ('{"$literal":{"$binary":"AA=="}}', {"$binary": "AA=="}),
        ('{"$literal":{"$literal":1}}', {"$literal": 1}),
        ('{"$literal":{"a":{"$binary":"AA=="}}}', {"a": b"\0"}),
        ('{"$literal":{"$binary":{"$binary":"AA=="}}}', {"$binary": b"\0"}),
        ('{"$literal":1,"$binary":2}', {"$literal": 1, "$binary": 2}),
        ('[{"$binary":"AA=="}]', [b"\0"]),
        ("1.0", 1.0),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("null", None),
        ('{"":{}}', {"": {}}),
    ],
)
def test_binary_values_and_their_escapes_are_resolved(text: str, value: Any) -> None:
    assert change(text) == value
    assert type(change(text)) is type(value)


@given(values)
def test_any_document_value_is_strict_json(value: Any) -> None:
    event = DocumentGetReply(id=1, channel="doc:a", version=1, value=value)
    assert strictly(CODEC.encode_event(event))["version"] == 1


def test_a_document_64_levels_deep_passes() -> None:
    value = change("[" * 64 + "]" * 64)
    assert depth_of(value) == 64


def test_a_value_no_document_can_hold_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match="float"):
        CODEC.encode_event(DocumentGetReply(id=1, channel="a", version=1, value=float("nan")))


# --- odds and ends -----------------------------------------------------------------------------------------


def test_text_that_utf_8_cannot_carry_is_refused_before_it_is_sent() -> None:
    request = PublishRequest(items=(PublishItem(channel="\ud800", payload=b""),))
    with pytest.raises(ArautoError) as caught:
        CODEC.encode_request(request)
    assert caught.value.code is Code.BAD_FIELD


def test_what_a_server_would_refuse_is_refused_before_it_is_sent() -> None:
    request = PublishRequest(items=(PublishItem(channel="a", payload=b"", key="\0"),))
    with pytest.raises(ArautoError) as caught:
        CODEC.encode_request(request)
    assert caught.value.field == "messages[0].key"


@given(st.binary(max_size=80))
def test_no_bytes_make_the_decoders_raise_anything_else(data: bytes) -> None:
    for decode in (partial(decode_whole, CODEC), CODEC.decode_event):
        result: Request | Event | None = None
        try:
            result = decode(data)
        except ArautoError as error:
            assert 1000 <= error.code < 4000  # noqa: PT017 - both outcomes are right
            assert result is None
