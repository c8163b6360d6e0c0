"""The binary flavour, `arauto.v1.proto`: protobuf envelopes. Pure.

The envelope is put together and taken apart by hand where it has its usual shape, because it is two fields
around every message and a second protobuf object per message would cost a third of the work. Anything
unusual goes through the generated class; a property test holds the two to the same answers.
"""

from collections.abc import Generator
from typing import Final

from google.protobuf.message import DecodeError

from arauto.codec import arauto_pb2 as pb
from arauto.codec.checks import bad_field, check_request
from arauto.codec.events import Event, Publication, Request
from arauto.codec.numbers import EventType
from arauto.codec.proto_client import EVENT_DECODERS, REQUEST_ENCODERS
from arauto.codec.proto_events import EVENT_ENCODERS
from arauto.codec.proto_fast import read_publish
from arauto.codec.proto_publication import write_publication
from arauto.codec.proto_requests import REQUEST_DECODERS
from arauto.codec.proto_values import (
    ProtoValueWriter,
    bad_payload,
    check_known,
    check_unknown_size,
)
from arauto.codec.unknown import Unknown
from arauto.codec.value_steps import value_steps
from arauto.errors import ArautoError, Code
from arauto.limits import UINT53_MAX, UNKNOWN_BYTES_MAX
from arauto.model import Message

__all__ = ["ProtoCodec"]

_EVENT_NUMBERS: Final = frozenset(int(event) for event in EventType)
_EVENT_TAG: Final = 0x08
_PAYLOAD_TAG: Final = 0x12

#: What stands before the payload's length, by event.
_PREFIXES: Final = {
    event: bytes((_EVENT_TAG, event, _PAYLOAD_TAG)) for event in EventType if event < 128
}


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


#: Ready lengths for the payloads most messages have.
_LENGTHS: Final = tuple(_varint(length) for length in range(2048))


def _wrap(event: EventType, payload: bytes) -> bytes:
    length = len(payload)
    if length == 0:
        return _PREFIXES[event][:2]
    return _PREFIXES[event] + (_LENGTHS[length] if length < 2048 else _varint(length)) + payload


def _unwrap_quick(data: bytes) -> tuple[int, bytes] | None:
    """Return the event number and the payload of an envelope in its usual shape."""
    size = len(data)
    if size > 3 and data[0] == _EVENT_TAG and data[2] == _PAYLOAD_TAG and data[1] < 128:
        length = data[3]
        start = 4
        if length > 127:
            if size < 5 or data[4] > 127:
                return None
            length = length & 127 | data[4] << 7
            start = 5
        if size - start == length:
            return data[1], data[start:]
    return None


def _unwrap_any(data: bytes, unknown: Unknown | None) -> tuple[int, bytes]:
    """The same for a request in any shape; what the schema does not have is noted in `unknown`, or refused.

    Raises:
        ArautoError: BAD_ENVELOPE or BAD_FIELD.
    """
    envelope = _envelope(data)
    if len(data) > UNKNOWN_BYTES_MAX:
        check_unknown_size(envelope, "envelope")
    check_known(envelope, "envelope", unknown)
    return envelope.event, envelope.payload


def _unwrap(data: bytes) -> tuple[int, bytes]:
    """The same in any shape, whatever else the envelope has: for what comes from a server.

    Raises:
        ArautoError: BAD_ENVELOPE.
    """
    quick = _unwrap_quick(data)
    if quick is not None:
        return quick
    envelope = _envelope(data)
    return envelope.event, envelope.payload


def _envelope(data: bytes) -> pb.Envelope:
    try:
        return pb.Envelope.FromString(data)
    except DecodeError:
        raise ArautoError(Code.BAD_ENVELOPE, "must be one protobuf Envelope") from None


_PUBLISH: Final = int(EventType.PUBLISH)


class ProtoCodec:
    """Implements `Codec` with protobuf. Stateless."""

    name = "arauto.v1.proto"
    is_text = False

    def decode_request(self, data: bytes) -> Request:
        quick_envelope = _unwrap_quick(data)
        event, payload = quick_envelope if quick_envelope is not None else _unwrap_any(data, None)
        if event == _PUBLISH:
            quick = read_publish(payload)
            if quick is not None:
                return quick
        return self._read(event, payload, None)

    def decode_known(self, data: bytes, unknown: Unknown) -> Request:
        event, payload = _unwrap_any(data, unknown)
        return self._read(event, payload, unknown)

    def _read(self, event: int, payload: bytes, unknown: Unknown | None) -> Request:
        decode = REQUEST_DECODERS.get(event)
        if decode is None:
            raise _refused_event(event)
        try:
            request = decode(payload, unknown)
        except DecodeError:
            raise bad_payload() from None
        check_request(request)
        return request

    def encode_event(self, event: Event) -> bytes:
        number, encode = EVENT_ENCODERS[type(event)]
        return _wrap(number, encode(event))

    def encode_message(self, message: Message) -> bytes:
        quick = write_publication(message)
        return quick if quick is not None else self.encode_event(Publication(message=message))

    def encode_value(self, packed: bytes) -> Generator[None, None, bytes]:
        return value_steps(packed, ProtoValueWriter())

    def encode_request(self, request: Request) -> bytes:
        check_request(request)
        number, encode = REQUEST_ENCODERS[type(request)]
        try:
            return _wrap(number, encode(request))
        except UnicodeEncodeError:
            raise bad_field("", "must have only text that UTF-8 can carry") from None

    def decode_event(self, data: bytes) -> Event:
        number, payload = _unwrap(data)
        decode = EVENT_DECODERS.get(number)
        if decode is None:
            raise ArautoError(Code.UNKNOWN_EVENT, "is no event that a server sends", field="event")
        try:
            return decode(payload)
        except DecodeError:
            raise bad_payload() from None

    def request_id(self, data: bytes) -> int:
        try:
            # Every request has its id in field 1, as Ping does; the other fields do not matter here.
            request_id = pb.Ping.FromString(_unwrap(data)[1]).id
        except (ArautoError, DecodeError):
            return 0
        return request_id if request_id <= UINT53_MAX else 0


def _refused_event(event: int) -> ArautoError:
    if event in _EVENT_NUMBERS:
        return ArautoError(Code.NOT_FROM_CLIENT, "only the server sends this event", field="event")
    return ArautoError(Code.UNKNOWN_EVENT, "must be one of the Event numbers", field="event")
