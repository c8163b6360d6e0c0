"""Large requests: counted before anything is made of them, their values read step by step."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given

from arauto.codec import json_unread, proto_requests, proto_unread
from arauto.codec.base import Codec
from arauto.codec.events import (
    DocumentChangeRequest,
    Operation,
    PublishItem,
    PublishRequest,
    RestoreRequest,
    SubscribeItem,
    SubscribeRequest,
    UnreadOperations,
)
from arauto.codec.json import JsonCodec
from arauto.codec.numbers import EventType
from arauto.codec.proto import ProtoCodec, _wrap
from arauto.codec.proto_values import field_bytes
from arauto.codec.unknown import Unknown
from arauto.errors import ArautoError, Code
from arauto.limits import (
    BATCH_LEN_MAX,
    DOCUMENT_VALUES_MAX,
    HEADERS_LEN_MAX,
    POSITIONS_LEN_MAX,
    UNKNOWN_BYTES_MAX,
    VALUE_DEPTH_MAX,
)
from arauto.model import Serial
from tests.unit.codec.samples import decode_whole, whole
from tests.unit.codec.strategies import operations

PROTO, JSON = ProtoCodec(), JsonCodec()
CODECS: tuple[Codec, ...] = (PROTO, JSON)
flavours = pytest.mark.parametrize("codec", CODECS, ids=["proto", "json"])

#: No field, no group, no end: a parser that gets here says that it is no message.
BROKEN = b"\x07"
#: As many parts as make a request large, none of which says anything.
FILL = 9_000


def tagged(number: int) -> bytes:
    return bytes(((number << 3 | 2) & 127 | 128 * (number > 15),)) + b"\x01" * (number > 15)


def many(number: int, count: int, part: bytes = b"") -> bytes:
    return field_bytes(tagged(number), part) * count


def of_item(fields: bytes) -> bytes:
    return field_bytes(tagged(2), b"\x0a\x01x" + fields)


TOO_MANY: dict[str, tuple[EventType, bytes, Code, str]] = {
    "messages": (EventType.PUBLISH, many(2, 1_001, b"abcd"), Code.BATCH_TOO_LARGE, "messages"),
    "items": (EventType.SUBSCRIBE, many(2, 1_001, b"abcd"), Code.BATCH_TOO_LARGE, "items"),
    "channels": (EventType.UNSUBSCRIBE, many(2, 1_001, b"abcd"), Code.BATCH_TOO_LARGE, "channels"),
    "operations": (
        EventType.DOCUMENT_CHANGE,
        many(3, 1_001, b"abcd"),
        Code.BATCH_TOO_LARGE,
        "operations",
    ),
    "notifications": (
        EventType.MARK_NOTIFICATION_AS_READ,
        many(3, 1_001, b"abcd"),
        Code.BATCH_TOO_LARGE,
        "notifications",
    ),
    "headers": (
        EventType.PUBLISH,
        of_item(many(11, HEADERS_LEN_MAX + 1, b"x" * 200)),
        Code.BAD_FIELD,
        "messages[0].headers",
    ),
    "places of a subscription": (
        EventType.SUBSCRIBE,
        of_item(field_bytes(tagged(3), many(1, POSITIONS_LEN_MAX + 1))),
        Code.BAD_FIELD,
        "items[0].positions",
    ),
    "places of a subscription in two parts": (
        EventType.SUBSCRIBE,
        of_item(field_bytes(tagged(3), many(1, POSITIONS_LEN_MAX // 2 + 1)) * 2),
        Code.BAD_FIELD,
        "items[0].positions",
    ),
    "places of a session": (
        EventType.SESSION_RESTORE,
        many(3, POSITIONS_LEN_MAX + 1),
        Code.BAD_FIELD,
        "positions",
    ),
    "anything before items": (
        EventType.SUBSCRIBE,
        b"\x08\x01" * (BATCH_LEN_MAX + UNKNOWN_BYTES_MAX),
        Code.BAD_FIELD,
        "items",
    ),
}


@pytest.mark.parametrize(
    ("event", "payload", "code", "field"), TOO_MANY.values(), ids=TOO_MANY.keys()
)
def test_parts_are_counted_before_the_parser_sees_them(
    event: EventType, payload: bytes, code: Code, field: str
) -> None:
    """What follows the first part that is too many is not even looked at."""
    for data in (_wrap(event, payload), _wrap(event, payload + BROKEN)):
        for decode in (PROTO.decode_request, lambda data: PROTO.decode_known(data, Unknown())):
            with pytest.raises(ArautoError) as caught:
                decode(data)
            assert (caught.value.code, caught.value.field) == (code, field)


def test_what_is_broken_before_there_is_too_much_is_no_message() -> None:
    for event, payload, _, _ in TOO_MANY.values():
        with pytest.raises(ArautoError) as caught:
            PROTO.decode_request(_wrap(event, BROKEN + payload))
        assert caught.value.code is Code.BAD_ENVELOPE


@flavours
def test_as_many_as_there_may_be_are_taken(codec: Codec) -> None:
    places = {f"a:{n}": Serial(n, n) for n in range(POSITIONS_LEN_MAX)}
    item = PublishItem(
        channel="a", payload=b"x" * 100, key="k", headers={f"h{n}": "v" * 200 for n in range(32)}
    )
    for request in (
        PublishRequest(id=1, items=(item,)),
        PublishRequest(id=1, items=(PublishItem(channel="a", payload=b"x", key="k"),) * 1_000),
        SubscribeRequest(id=1, items=(SubscribeItem(channel="a" * 9),) * 1_000),
        SubscribeRequest(id=1, items=(SubscribeItem(channel="a*", positions=places),) * 2),
        RestoreRequest(id=1, key="k", positions=places),
    ):
        assert codec.decode_request(codec.encode_request(request)) == request


def test_unknown_fields_beside_the_items_do_not_count_as_items() -> None:
    group = b"\xa3\x06" + many(2, 1_500) + b"\xa4\x06"  # field 100
    strange = b"\xa8\x06\x01\xa1\x06" + b"x" * 8 + b"\xa5\x06" + b"x" * 4
    payload = b"\x08\x01" + group + strange + many(2, 900, b"\x0a\x03abc")
    request = PROTO.decode_known(_wrap(EventType.SUBSCRIBE, payload), Unknown())
    assert isinstance(request, SubscribeRequest)
    assert len(request.items) == 900


# --- values ----------------------------------------------------------------------------------------


def change(*values: Any) -> DocumentChangeRequest:
    return DocumentChangeRequest(
        id=1,
        channel="doc:a",
        operations=tuple(Operation(op="add", path="/a", value=value) for value in values),
    )


def steps_of(codec: Codec, data: bytes) -> int:
    request = codec.decode_request(data)
    assert isinstance(request, DocumentChangeRequest)
    assert isinstance(request.operations, UnreadOperations)
    return sum(1 for _ in request.operations.read())


LARGE: dict[str, Any] = {
    "list": [None] * 20_000,
    "lists": [[1, "b"]] * 9_000,
    "map": {f"k{n}": n for n in range(9_000)},
    "text": "é" * 50_000,
    "binary": b"\x00\xff" * 20_000,
    "binary in a list": [b"\x00\xff" * 20_000, 1],
    "text in a map": {"a": "b" * 9_000},
    "what looks like an escape": {"$binary": "b" * 9_000},
    "what looks like an escaped one": {"$literal": {"$binary": ["b"] * 9_000}},
    "spaces": ["[]{},\"\\' " * 300] * 20,
    "numbers": [2**63 - 1, -(2**63), 0.5, -0.0, 1e300] * 900,
    "deep": [[[[["x" * 900] * 3] * 3] * 3] * 3],
}


@flavours
@pytest.mark.parametrize("value", LARGE.values(), ids=LARGE.keys())
def test_large_values_are_read_as_they_were_written(codec: Codec, value: Any) -> None:
    request = change(value, 1, value)
    assert decode_whole(codec, codec.encode_request(request)) == request


@flavours
def test_large_values_are_read_step_by_step(codec: Codec) -> None:
    for value in (LARGE["list"], LARGE["lists"], LARGE["map"], LARGE["deep"], LARGE["numbers"]):
        data = codec.encode_request(change(value))
        assert steps_of(codec, data) >= len(data) // 8_192
    many_small = codec.encode_request(change(*[["x" * 500]] * 900))
    assert steps_of(codec, many_small) >= len(many_small) // 8_192


@flavours
@given(operations=operations)
def test_what_is_read_in_steps_is_what_is_read_at_once(codec: Codec, operations: Any) -> None:
    request = DocumentChangeRequest(id=1, channel="doc:a", operations=(operations,) * 3)
    data = codec.encode_request(request)
    with pytest.MonkeyPatch.context() as patch:
        for module in (json_unread, proto_unread):
            patch.setattr(module, "WHOLE_BYTES", 2)
        patch.setattr(proto_requests, "SMALL_BYTES", 0)
        assert decode_whole(codec, data) == request


BAD_JSON: dict[str, tuple[str, Code]] = {
    "a number out of range": ("[" + "0," * 5_000 + "18446744073709551616]", Code.BAD_FIELD),
    "a surrogate": ("[" + "0," * 5_000 + '"\\ud800"]', Code.BAD_ENVELOPE),
    "too deep": ("[" * 65 + "0," * 5_000 + "0" + "]" * 65, Code.BAD_FIELD),
    "too deep for a parser": ("[" * 9_000 + "]" * 9_000, Code.BAD_ENVELOPE),
    "a literal of no map": ('{"$literal":[' + "0," * 5_000 + "0]}", Code.BAD_FIELD),
    "bytes of no base64": ('{"$binary":"' + "!" * 5_000 + '"}', Code.BAD_FIELD),
}


@pytest.mark.parametrize(("value", "code"), BAD_JSON.values(), ids=BAD_JSON.keys())
def test_large_values_of_json_are_held_to_the_same_rules(value: str, code: Code) -> None:
    operation = '{"op":"add","path":"/a","value":' + value + "}"
    data = '{"event":"document_change","id":1,"channel":"doc:a","operations":[' + operation + "]}"
    with pytest.raises(ArautoError) as caught:
        decode_whole(JSON, data.encode())
    assert caught.value.code is code


def nested(depth: int) -> bytes:
    value = b"\x38\x01" + many(9, FILL, b"\x08\x01")
    for _ in range(depth - 1):
        value = b"\x38\x01" + field_bytes(tagged(9), value)
    return value


BAD_PROTO: dict[str, tuple[bytes, Code]] = {
    "a value of no kind": (b"\x38\x01" + many(9, FILL), Code.BAD_FIELD),
    "an unknown field": (b"\x38\x01" + many(9, FILL, b"\x08\x01") + b"\x58\x01", Code.BAD_FIELD),
    "items of no list": (b"\x08\x01" + many(9, FILL, b"\x08\x01"), Code.BAD_FIELD),
    "a list with keys": (b"\x38\x01" + many(9, FILL, b"\x08\x01") + many(10, 1), Code.BAD_FIELD),
    "a map without keys": (b"\x40\x01" + many(9, FILL, b"\x08\x01"), Code.BAD_FIELD),
    "a key twice": (b"\x40\x01" + many(9, FILL, b"\x08\x01") + many(10, FILL), Code.BAD_FIELD),
    "too deep": (nested(VALUE_DEPTH_MAX + 1), Code.BAD_FIELD),
    "no value at all": (b"\x38\x01" + many(9, FILL, b"\x08\x01") + BROKEN, Code.BAD_ENVELOPE),
    "text that is no UTF-8": (b"\x2a\xa0\x9c\x01" + b"\xff" * 20_000, Code.BAD_ENVELOPE),
}


def proto_change(*values: bytes) -> bytes:
    parts = b"".join(field_bytes(tagged(4), value) for value in values)
    operation = field_bytes(tagged(3), b"\x08\x01\x12\x02/a" + parts)
    return _wrap(EventType.DOCUMENT_CHANGE, b"\x08\x01\x12\x05doc:a" + operation)


@pytest.mark.parametrize(("value", "code"), BAD_PROTO.values(), ids=BAD_PROTO.keys())
def test_large_values_of_protobuf_are_held_to_the_same_rules(value: bytes, code: Code) -> None:
    with pytest.raises(ArautoError) as caught:
        decode_whole(PROTO, proto_change(value))
    assert caught.value.code is code


def test_a_value_in_pieces_is_one_value_but_not_in_very_many() -> None:
    pieces = [b"\x38\x01" + many(9, 2_500, b"\x08\x01"), many(9, 2_500, b"\x10\x01")]
    read = whole(PROTO.decode_request(proto_change(*pieces)))
    assert isinstance(read, DocumentChangeRequest)
    assert not isinstance(read.operations, UnreadOperations)
    assert read.operations[0].value == [None] * 2_500 + [True] * 2_500
    with pytest.raises(ArautoError) as caught:
        decode_whole(PROTO, proto_change(*[b"\x08\x01"] * 9_000))
    assert caught.value.code is Code.BAD_FIELD


def too_many_json() -> bytes:
    return msgspec.json.encode(
        {
            "event": "document_change",
            "id": 1,
            "channel": "doc:a",
            "operations": [{"op": "add", "path": "/a", "value": [[]] * (DOCUMENT_VALUES_MAX + 1)}],
        }
    )


def too_many_proto() -> bytes:
    return proto_change(b"\x38\x01" + many(9, DOCUMENT_VALUES_MAX + 1, b"\x38\x01"))


def too_many_members() -> bytes:
    value = json.dumps({f"{n}": n for n in range(DOCUMENT_VALUES_MAX + 1)})
    operation = '{"op":"test","path":"/a","value":' + value + "}"
    data = '{"event":"document_change","channel":"doc:a","operations":[' + operation + "]}"
    return data.encode()


@pytest.mark.parametrize(
    ("codec", "make"),
    [(JSON, too_many_json), (PROTO, too_many_proto), (JSON, too_many_members)],
    ids=["json", "proto", "members"],
)
def test_more_values_than_a_document_has_are_refused_before_one_is_built(
    codec: Codec, make: Callable[[], bytes]
) -> None:
    request = codec.decode_request(make())
    assert isinstance(request, DocumentChangeRequest)
    assert isinstance(request.operations, UnreadOperations)
    with pytest.raises(ArautoError) as caught:
        next(request.operations.read())
    assert caught.value.code is Code.DOCUMENT_TOO_LARGE
    assert caught.value.field == "operations[0].value"
