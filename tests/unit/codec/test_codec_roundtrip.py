"""Laws that hold for every record, in both flavours."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arauto.codec.base import Codec
from arauto.codec.checks import _CHECKS
from arauto.codec.events import CloseRequest, Event, Request
from arauto.codec.json import JsonCodec
from arauto.codec.json_client import EVENT_FROM_SHAPE, REQUEST_TO_SHAPE
from arauto.codec.json_event_shapes import AnyEvent
from arauto.codec.json_events import EVENT_TO_SHAPE
from arauto.codec.json_request_shapes import AnyRequest
from arauto.codec.json_requests import REQUEST_FROM_SHAPE
from arauto.codec.numbers import EventType
from arauto.codec.proto import ProtoCodec
from arauto.codec.proto_client import EVENT_DECODERS, REQUEST_ENCODERS
from arauto.codec.proto_events import EVENT_ENCODERS
from arauto.codec.proto_requests import REQUEST_DECODERS
from tests.unit.codec.samples import decode_whole
from tests.unit.codec.strategies import events, requests

PROTO: Codec = ProtoCodec()
JSON: Codec = JsonCodec()
flavours = pytest.mark.parametrize("codec", [PROTO, JSON], ids=["proto", "json"])


def exact(value: Any) -> Any:
    """Return the value in a form whose == sees types: to Python 1, 1.0 and True are equal."""
    if isinstance(value, msgspec.Struct):
        return type(value), exact({name: getattr(value, name) for name in value.__struct_fields__})
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [exact(item) for item in value]
    return type(value), repr(value)


@flavours
@given(data=st.data())
def test_a_request_survives_the_wire(codec: Codec, data: st.DataObject) -> None:
    request = data.draw(requests)
    wire = codec.encode_request(request)
    assert exact(decode_whole(codec, wire)) == exact(request)


@flavours
@given(data=st.data())
def test_an_event_survives_the_wire(codec: Codec, data: st.DataObject) -> None:
    event = data.draw(events)
    assert exact(codec.decode_event(codec.encode_event(event))) == exact(event)


@given(request=requests)
def test_both_flavours_say_the_same_request(request: Request) -> None:
    by_proto = decode_whole(PROTO, PROTO.encode_request(request))
    by_json = decode_whole(JSON, JSON.encode_request(request))
    assert exact(by_proto) == exact(by_json)


@given(event=events)
def test_both_flavours_say_the_same_event(event: Event) -> None:
    by_proto = PROTO.decode_event(PROTO.encode_event(event))
    by_json = JSON.decode_event(JSON.encode_event(event))
    assert exact(by_proto) == exact(by_json)


@flavours
@given(data=st.data())
def test_the_id_of_any_request_can_be_found_without_decoding_it(
    codec: Codec, data: st.DataObject
) -> None:
    request = data.draw(requests)
    wanted = 0 if isinstance(request, CloseRequest) else request.id
    assert codec.request_id(codec.encode_request(request)) == wanted


def test_no_record_is_forgotten_in_any_table() -> None:
    request_types = set(get_args(Request))
    event_types = set(get_args(Event))
    assert request_types == set(REQUEST_ENCODERS) == set(REQUEST_TO_SHAPE)
    assert request_types == set(_CHECKS) | {CloseRequest}
    assert event_types == set(EVENT_ENCODERS) == set(EVENT_TO_SHAPE)
    assert set(get_args(AnyRequest)) == set(REQUEST_FROM_SHAPE)
    assert set(get_args(AnyEvent)) == set(EVENT_FROM_SHAPE)
    assert {number for number, _ in REQUEST_ENCODERS.values()} == set(REQUEST_DECODERS)
    assert {number for number, _ in EVENT_ENCODERS.values()} == set(EVENT_DECODERS)


def test_both_flavours_name_the_events_alike() -> None:
    for record, (number, _) in REQUEST_ENCODERS.items():
        shape = type(REQUEST_TO_SHAPE[record](_example(record)))
        assert shape.__struct_config__.tag == EventType(number).name.lower()


def _example(record: type) -> object:
    """Build a request with the plainest values its fields take."""
    plain = {
        "channel": "a",
        "key": "k",
        "method": "m",
        "stream": "s",
        "payload": b"",
        "credentials": b"",
    }
    for name in ("items", "channels", "operations", "notifications"):
        plain[name] = ()
    fields = record.__struct_fields__  # type: ignore[attr-defined]
    return record(**{name: plain[name] for name in fields if name in plain})
