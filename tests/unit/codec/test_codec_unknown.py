"""A newer client meets an older node, and the other way round: what is ignored, refused, counted."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.codec import arauto_pb2 as pb
from arauto.codec import json_request_shapes as shapes
from arauto.codec.base import Codec
from arauto.codec.events import Request
from arauto.codec.json import JsonCodec
from arauto.codec.numbers import EventType
from arauto.codec.proto import ProtoCodec, _wrap
from arauto.codec.unknown import (
    ESSENTIAL_NUMBER_MIN,
    ESSENTIAL_PREFIX,
    Names,
    Unknown,
    UnknownFieldError,
)
from arauto.errors import ArautoError, Code
from arauto.limits import UNKNOWN_BYTES_MAX
from tests.unit.codec.newer import NEWER_EVENTS, NEWER_REQUESTS
from tests.unit.codec.samples import EVENTS, REQUESTS, whole
from tests.unit.codec.strategies import requests

PROTO, JSON = ProtoCodec(), JsonCodec()
FLAVOURS: list[tuple[Codec, int]] = [(PROTO, 0), (JSON, 1)]
flavours = pytest.mark.parametrize(("codec", "at"), FLAVOURS, ids=["proto", "json"])


@flavours
@pytest.mark.parametrize("name", NEWER_REQUESTS)
def test_a_newer_request_is_carried_out_as_far_as_it_is_known_or_refused(
    codec: Codec, at: int, name: str
) -> None:
    sample, code, both = NEWER_REQUESTS[name]
    with pytest.raises(ArautoError) as strict:
        codec.decode_request(both[at])
    unknown = Unknown()
    if sample:
        assert isinstance(strict.value, UnknownFieldError)
        assert whole(codec.decode_known(both[at], unknown)) == REQUESTS[sample]
        assert unknown.count == 1
    else:
        with pytest.raises(ArautoError) as caught:
            codec.decode_known(both[at], unknown)
        assert caught.value.code == code
        assert codec.request_id(both[at]) > 0


@flavours
@pytest.mark.parametrize("name", NEWER_EVENTS)
def test_a_client_reads_the_events_of_a_newer_server(codec: Codec, at: int, name: str) -> None:
    sample, both = NEWER_EVENTS[name]
    if sample:
        assert codec.decode_event(both[at]) == EVENTS[sample]
    else:
        with pytest.raises(ArautoError) as caught:
            codec.decode_event(both[at])
        assert caught.value.code is Code.UNKNOWN_EVENT  # which clients pass over


@given(requests)
def test_what_is_known_reads_the_same_on_both_ways(request: Request) -> None:
    for codec, _ in FLAVOURS:
        unknown = Unknown()
        assert whole(codec.decode_known(codec.encode_request(request), unknown)) == request
        assert unknown.count == 0


_NAMES = [
    Names((*shape.__struct_encode_fields__, "event")) for shape in get_args(shapes.AnyRequest)
]


@given(requests, st.dictionaries(st.text(min_size=8, max_size=12), st.integers(), min_size=1))
def test_any_request_in_json_may_have_any_other_field(
    request: Request, more: dict[str, int]
) -> None:
    # Raw: a number that is read and written again may come out in other digits.
    data = msgspec.json.decode(JSON.encode_request(request), type=dict[str, msgspec.Raw])
    more = {
        name: value
        for name, value in more.items()
        if not any(names.meant_by(name) for names in _NAMES)
        and not name.startswith(ESSENTIAL_PREFIX)
    }
    unknown = Unknown()
    read = JSON.decode_known(msgspec.json.encode({**more, **data}), unknown)
    assert whole(read) == request
    assert unknown.count == len(more)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("idempotencyKey", "idempotency_key"),
        ("idempotency-key", "idempotency_key"),
        ("IDEMPOTENCY_KEY", "idempotency_key"),
        ("idempotency_kye", "idempotency_key"),
        ("ttlMs", "ttl_ms"),
        ("ttl_m", "ttl_ms"),
        ("echoo", "echo"),
        ("ecoh", "echo"),
        ("retane", "retain"),
        ("Key", "key"),
        ("header", "headers"),
    ],
)
def test_a_typing_error_is_refused_with_what_was_meant(written: str, meant: str) -> None:
    item = {"channel": "a", "text": "", written: "hunter2"}
    data = msgspec.json.encode({"event": "publish", "id": 1, "messages": [item]})
    with pytest.raises(ArautoError) as caught:
        JSON.decode_known(data, Unknown())
    assert (caught.value.code, caught.value.field) == (Code.BAD_FIELD, "messages[0]")
    assert f"did you mean {meant}?" in caught.value.message
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["keys", "", "priority", "i", "ids", "x" * 300, "date_ms", "ключ"])
def test_another_name_is_no_typing_error(name: str) -> None:
    assert Names(shapes.PublishItem.__struct_fields__).meant_by(name) == ""


def test_a_lost_update_is_not_made_of_a_typing_error() -> None:
    change = {"channel": "doc:a", "operations": [{"op": "remove", "path": "/a"}], "if_verion": 3}
    data = msgspec.json.encode({"event": "document_change", "id": 1, **change})
    with pytest.raises(ArautoError, match="did you mean if_version"):
        JSON.decode_known(data, Unknown())


@pytest.mark.parametrize("size_bytes", [1_000, UNKNOWN_BYTES_MAX * 4])
def test_more_unknown_fields_than_a_newer_version_could_want_are_refused(size_bytes: int) -> None:
    many = b"\x98\x06\x01" * (size_bytes // 3)
    item = b"\x0a\x01a\x12\x01b" + many
    long = len(item) & 127 | 128, len(item) >> 7 & 127 | 128, len(item) >> 14
    of_an_item = b"\x12" + bytes(long) + item
    plain = {f"strange{n}": 1 for n in range(size_bytes // 10)}
    text = msgspec.json.encode({"event": "presence", "id": 1, "channel": "a", **plain})
    sent: list[tuple[Codec, bytes]] = [
        (PROTO, _wrap(EventType.PRESENCE, b"\x08\x01\x12\x01a" + many)),
        (PROTO, _wrap(EventType.PRESENCE, b"\x08\x01\x12\x01a") + many),
        (PROTO, _wrap(EventType.PUBLISH, of_an_item)),
        (JSON, text),
    ]
    for codec, data in sent:
        if size_bytes <= UNKNOWN_BYTES_MAX:
            codec.decode_known(data, Unknown())
            continue
        with pytest.raises(ArautoError, match="bytes of unknown fields"):
            codec.decode_known(data, Unknown())


def test_a_known_number_in_another_type_is_no_newer_field() -> None:
    data = _wrap(EventType.PRESENCE, b"\x08\x01\x12\x01a\x10\x01")
    with pytest.raises(ArautoError, match="types of the schema"):
        PROTO.decode_known(data, Unknown())


def test_two_different_events_stay_refused_beside_an_unknown_field() -> None:
    with pytest.raises(ArautoError) as caught:
        JSON.decode_known(b'{"event":"ping","stranger":1,"event":"close"}', Unknown())
    assert caught.value.field == "event"


# --- what later versions have to keep ------------------------------------------------------------------


def _messages() -> list[Any]:
    return list(pb.DESCRIPTOR.message_types_by_name.values())


def test_essential_fields_have_a_name_and_a_number_that_say_so() -> None:
    for message in _messages():
        for field in message.fields:
            assert field.name.startswith(ESSENTIAL_PREFIX) == (
                field.number >= ESSENTIAL_NUMBER_MIN
            ), f"{message.name}.{field.name}"


def test_no_name_of_a_request_looks_like_another_mistyped() -> None:
    """Or an older node, which knows one of them, would refuse the other."""
    for shape in (*get_args(shapes.AnyRequest), shapes.PublishItem, shapes.SubscribeItem):
        fields = shape.__struct_encode_fields__
        for name in fields:
            others = [other for other in fields if other != name]
            assert Names(others).meant_by(name) == "", f"{shape.__name__}.{name}"


def test_every_request_has_its_id_where_an_older_node_finds_it() -> None:
    for message in _messages():
        if message.name.endswith("Request") and message.fields:
            assert message.fields_by_number[1].name == "id", message.name
