"""The protobuf flavour's own ways: envelopes by hand, the quick reader, unknown fields, the schema."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given
from hypothesis import strategies as st

from arauto.codec import arauto_pb2 as pb
from arauto.codec.events import (
    Echo,
    Ping,
    PublishItem,
    PublishRequest,
    Request,
    SubscribeItem,
    SubscribeRequest,
)
from arauto.codec.numbers import EventType
from arauto.codec.proto import ProtoCodec, _envelope, _unwrap, _unwrap_quick, _wrap
from arauto.codec.proto_client import REQUEST_ENCODERS
from arauto.codec.proto_fast import read_publish
from arauto.codec.proto_requests import decode_publish
from arauto.codec.unknown import Unknown
from arauto.errors import ArautoError, Code
from arauto.model import JSON, TEXT, Direction, Serial
from scripts.gen_proto import stale
from tests.unit.codec.samples import decode_whole
from tests.unit.codec.strategies import contents, ids, names, requests

CODEC = ProtoCodec()


def test_the_generated_code_is_up_to_date() -> None:
    assert stale() == []


def test_the_schema_and_the_records_agree_on_numbers() -> None:
    events = {f"EVENT_{event.name}": int(event) for event in EventType}
    assert dict(pb.Event.items()) == {"EVENT_UNSPECIFIED": 0, **events}
    assert dict(pb.Echo.items()) == {f"ECHO_{echo.name}": int(echo) for echo in Echo}
    assert dict(pb.Direction.items()) == {f"DIRECTION_{each.name}": int(each) for each in Direction}


def test_every_record_has_a_message_of_its_name() -> None:
    tree = ast.parse(Path("src/arauto/codec/events.py").read_text(encoding="utf-8"))
    not_messages = {"EventType", "Echo", "EncodedValue", "UnreadOperations", "_Record"}
    records = {node.name for node in tree.body if isinstance(node, ast.ClassDef)} - not_messages
    assert records <= set(pb.DESCRIPTOR.message_types_by_name)


def test_the_id_is_field_1_wherever_there_is_one() -> None:
    for name, message in pb.DESCRIPTOR.message_types_by_name.items():
        if "id" in message.fields_by_name:
            assert message.fields_by_name["id"].number == 1, name


# --- envelopes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size_bytes", [0, 1, 127, 128, 2047, 2048, 16_383, 16_384, 70_000])
def test_an_envelope_made_by_hand_is_the_generated_one(size_bytes: int) -> None:
    payload = b"x" * size_bytes
    made = _wrap(EventType.PUBLISH, payload)
    assert made == pb.Envelope(event=pb.EVENT_PUBLISH, payload=payload).SerializeToString()
    assert _unwrap(made) == (EventType.PUBLISH, payload)


@given(
    st.one_of(
        st.binary(max_size=300),
        st.binary(max_size=300).map(lambda tail: b"\x08\x0a\x12" + tail),
        st.integers(0, 300).map(lambda size: b"\x08\x0a\x12" + bytes([size & 255]) + b"a" * size),
        st.integers(100, 300).map(lambda size: b"\x08\x0a\x12\xff\xff\x01" + b"a" * size),
    )
)
def test_an_envelope_taken_apart_by_hand_gives_what_the_generated_class_gives(data: bytes) -> None:
    quick = _unwrap_quick(data)
    if quick is not None:
        made = _envelope(data)
        assert quick == (made.event, made.payload)


def test_fields_in_another_order_are_understood() -> None:
    assert CODEC.decode_request(b"\x12\x02\x08\x07\x08\x01") == Ping(id=7)


def test_a_field_sent_twice_counts_as_its_last() -> None:
    assert CODEC.decode_request(b"\x08\x02\x08\x01\x12\x04\x08\x07\x08\x09") == Ping(id=9)


# --- the quick reader --------------------------------------------------------------------------------


def general(payload: bytes) -> PublishRequest | None:
    try:
        return decode_publish(payload, None)
    except (ArautoError, DecodeError):
        return None


@given(
    request_id=ids,
    items=st.lists(
        st.builds(
            lambda channel, content: PublishItem(
                channel=channel, payload=content[0], content_type=content[1]
            ),
            st.one_of(names, names.map(lambda name: name * 40)),
            contents,
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_the_quick_reader_reads_the_usual_publish(
    request_id: int, items: list[PublishItem]
) -> None:
    request = PublishRequest(id=request_id, items=tuple(items))
    _, payload = _unwrap(CODEC.encode_request(request))
    assert general(payload) == request
    quick = read_publish(payload)
    # An empty payload is not written at all, and a rare content type has to be checked: both are unusual.
    usual = all(item.payload and item.content_type in ("", JSON, TEXT) for item in items)
    assert quick == request if usual else quick in (request, None)


@st.composite
def damaged_publishes(draw: st.DrawFn) -> bytes:
    """Payloads that are nearly right: cut, repeated, with a byte changed."""
    request = draw(
        st.builds(PublishRequest, id=ids, items=st.just((_ITEM,)) | st.just((_ITEM,) * 3))
    )
    _, payload = _unwrap(CODEC.encode_request(request))
    data = bytearray(payload)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data) - 1))
        data[at : at + 1] = draw(st.binary(max_size=2))
        if not data:
            break
    return bytes(data[: draw(st.integers(0, len(data)))]) if draw(st.booleans()) else bytes(data)


_ITEM = PublishItem(channel="stock:42", payload=b"x" * 10, content_type="text/plain")


@given(st.one_of(st.binary(max_size=60), damaged_publishes()))
def test_the_quick_reader_never_says_anything_the_general_decoder_does_not(payload: bytes) -> None:
    quick = read_publish(payload)
    assert quick is None or quick == general(payload)


# --- unknown fields ----------------------------------------------------------------------------------

#: Field 999, a varint: in no message of the schema.
_UNKNOWN = b"\xb8\x3e\x01"

_FULL: tuple[Request, ...] = (
    SubscribeRequest(items=(SubscribeItem(channel="a", since=Serial(1, 1)),)),
    SubscribeRequest(items=(SubscribeItem(channel="*", positions={"a": Serial(1, 1)}),)),
    PublishRequest(items=(PublishItem(channel="a", payload=b"b", headers={"c": "d"}),)),
)


def parts(message: ProtoMessage) -> Iterator[ProtoMessage]:
    """The message and every message inside it."""
    yield message
    for field, value in message.ListFields():
        kind = field.message_type
        if kind is None:
            continue
        if kind.GetOptions().map_entry:
            if kind.fields_by_name["value"].message_type is not None:
                for item in value.values():
                    yield from parts(item)
        elif field.is_repeated:
            for item in value:
                yield from parts(item)
        else:
            yield from parts(value)


def with_unknown_field_in_each_part(request: Request) -> Iterator[bytes]:
    number, encode = REQUEST_ENCODERS[type(request)]
    payload = encode(request)
    message_type = next(
        getattr(pb, name)
        for name in pb.DESCRIPTOR.message_types_by_name
        if name == type(request).__name__
    )
    count = sum(1 for _ in parts(message_type.FromString(payload)))
    for index in range(count):
        message = message_type.FromString(payload)
        list(parts(message))[index].MergeFromString(_UNKNOWN)
        yield _wrap(number, message.SerializeToString())


@given(st.one_of(requests, st.sampled_from(_FULL)))
def test_an_unknown_field_is_refused_at_every_level(request: Request) -> None:
    for data in with_unknown_field_in_each_part(request):
        with pytest.raises(ArautoError) as caught:
            decode_whole(CODEC, data)
        assert caught.value.code is Code.BAD_FIELD
        assert "unknown" in caught.value.message


def test_an_unknown_field_inside_a_map_entry_is_refused() -> None:
    entry = b"\x0a\x01c\x12\x01d" + _UNKNOWN
    item = b"\x0a\x01a\x12\x01b\x5a" + bytes([len(entry)]) + entry
    payload = b"\x12" + bytes([len(item)]) + item
    assert len(UnknownFieldSet(pb.PublishRequest.FromString(payload).messages[0])) == 1
    with pytest.raises(ArautoError, match="types of the schema"):
        CODEC.decode_known(_wrap(EventType.PUBLISH, payload), Unknown())


def test_a_client_ignores_fields_it_does_not_know() -> None:
    data = _wrap(EventType.PONG, b"\x08\x07" + _UNKNOWN)
    assert CODEC.decode_event(data).id == 7  # type: ignore[union-attr]


def test_text_that_utf_8_cannot_carry_is_refused_before_it_is_sent() -> None:
    request = PublishRequest(items=(PublishItem(channel="\ud800", payload=b""),))
    with pytest.raises(ArautoError) as caught:
        CODEC.encode_request(request)
    assert caught.value.code is Code.BAD_FIELD
