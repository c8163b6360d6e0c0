"""The text flavour, `arauto.v1.json`: the same messages as JSON objects. Pure.

The parser (msgspec) builds typed shapes in one pass and refuses what does not fit them; this module turns
its refusals into ours. Its own words are used only where they come from the schema: a text that
repeats what the client sent could carry a payload or a secret into logs and answers.

What JSON leaves open is settled like this: a key that occurs twice counts as its last occurrence
(but two different `event`s are refused); NaN, Infinity, unpaired surrogates, a byte order mark, comments and
trailing commas are not JSON; numbers that are no whole number do not fit whole-number fields.
"""

import re
from collections.abc import Generator
from typing import Any, Final

import msgspec

from arauto.codec.checks import bad_field, check_request
from arauto.codec.events import Event, Publication, Request
from arauto.codec.json_client import EVENT_FROM_SHAPE, REQUEST_TO_SHAPE
from arauto.codec.json_event_shapes import AnyEvent
from arauto.codec.json_events import EVENT_TO_SHAPE
from arauto.codec.json_open import FIELD_NAMES, AnyOpenRequest, note_unknown, shape_behind
from arauto.codec.json_request_shapes import AnyRequest
from arauto.codec.json_requests import REQUEST_FROM_SHAPE
from arauto.codec.json_values import JsonValueWriter
from arauto.codec.numbers import EventType
from arauto.codec.unknown import Names, Unknown, UnknownFieldError
from arauto.codec.value_steps import value_steps
from arauto.errors import ArautoError, Code
from arauto.limits import UINT53_MAX
from arauto.model import Message

__all__ = ["JsonCodec"]

_EVENTS: Final = Names(event.name.lower() for event in EventType)
# "… - at `$.messages[0].channel`"; a dict's key shows as [...], so a path holds schema names only.
_PATH = re.compile(r" - at `\$\.?([^`]*)`\Z")
_STEP = re.compile(r"\[(?:\d{1,5}|\.\.\.)\]|\.")
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_EXPECTED = re.compile(r"Expected `(\w+)`(?:, got `(\w+)`)?")


# Two structs, because what one cannot read must not hide the other.
class _EventHead(msgspec.Struct):
    event: Any = msgspec.UNSET


class _IdHead(msgspec.Struct):
    id: Any = 0


_decode_event_head = msgspec.json.Decoder(_EventHead).decode
_decode_id_head = msgspec.json.Decoder(_IdHead).decode


class JsonCodec:
    """Implements `Codec` with JSON. Stateless."""

    name = "arauto.v1.json"
    is_text = True

    __slots__ = ("_decode_event", "_decode_open", "_decode_request", "_encode")

    def __init__(self) -> None:
        self._decode_request = msgspec.json.Decoder(AnyRequest).decode
        self._decode_open = msgspec.json.Decoder(AnyOpenRequest).decode
        self._decode_event = msgspec.json.Decoder(AnyEvent).decode
        self._encode = msgspec.json.Encoder().encode

    def decode_request(self, data: bytes) -> Request:
        try:
            # The parser does not look into the strings of embedded values.
            if not data.isascii():
                data.decode()
            shape = self._decode_request(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _refusal(error, data, Code.NOT_FROM_CLIENT) from None
        request = REQUEST_FROM_SHAPE[type(shape)](shape)
        check_request(request)
        return request

    def decode_known(self, data: bytes, unknown: Unknown) -> Request:
        try:
            if not data.isascii():
                data.decode()
            shape = self._decode_open(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _refusal(error, data, Code.NOT_FROM_CLIENT) from None
        kind = shape_behind(shape)
        note_unknown(data, kind, unknown)
        request = REQUEST_FROM_SHAPE[kind](shape)
        check_request(request)
        return request

    def encode_event(self, event: Event) -> bytes:
        return self._encode(EVENT_TO_SHAPE[type(event)](event))

    def encode_message(self, message: Message) -> bytes:
        return self.encode_event(Publication(message=message))

    def encode_value(self, packed: bytes) -> Generator[None, None, bytes]:
        return value_steps(packed, JsonValueWriter())

    def encode_request(self, request: Request) -> bytes:
        check_request(request)
        try:
            return self._encode(REQUEST_TO_SHAPE[type(request)](request))
        except UnicodeEncodeError:
            raise bad_field("", "must have only text that UTF-8 can carry") from None

    def decode_event(self, data: bytes) -> Event:
        try:
            if not data.isascii():
                data.decode()
            shape = self._decode_event(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _refusal(error, data, Code.UNKNOWN_EVENT) from None
        return EVENT_FROM_SHAPE[type(shape)](shape)

    def request_id(self, data: bytes) -> int:
        try:
            request_id = _decode_id_head(data).id
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return 0
        if type(request_id) is int and 0 <= request_id <= UINT53_MAX:
            return request_id
        return 0


def _refusal(error: Exception, data: bytes, wrong_way: Code) -> ArautoError:
    """Return our error for the parser's. `wrong_way` is for events that travel the other way only."""
    if isinstance(error, UnicodeDecodeError):
        return ArautoError(Code.BAD_ENVELOPE, "must be UTF-8")
    if isinstance(error, RecursionError):
        return ArautoError(Code.BAD_ENVELOPE, "must not be nested so deep")
    if not isinstance(error, msgspec.ValidationError):
        return _not_an_object()
    # The first thing that does not fit ends the parse, so the rest may still be no JSON at all.
    try:
        head = _decode_event_head(data)
    except (msgspec.DecodeError, RecursionError):
        return _not_an_object()
    if head.event is msgspec.UNSET:
        return ArautoError(Code.BAD_ENVELOPE, "is required", field="event")
    if not isinstance(head.event, str):
        return ArautoError(Code.BAD_ENVELOPE, "must be a string", field="event")
    if head.event not in _EVENTS.known:
        meant = _EVENTS.meant_by(head.event)
        hint = f"; did you mean {meant}?" if meant else ""
        return ArautoError(
            Code.UNKNOWN_EVENT, f"must be one of the event names{hint}", field="event"
        )
    return _field_refusal(str(error), wrong_way)


def _not_an_object() -> ArautoError:
    return ArautoError(Code.BAD_ENVELOPE, "must be one JSON object and nothing else")


def _field_refusal(text: str, wrong_way: Code) -> ArautoError:
    found = _PATH.search(text)
    field = found[1] if found else ""
    if text.startswith("Object contains unknown field"):
        # Its name is the sender's, who may have written what looks like a path.
        is_path = FIELD_NAMES.issuperset(filter(None, _STEP.split(field)))
        return UnknownFieldError(field if is_path else "")
    if field == "event":
        return ArautoError(wrong_way, "only the other side sends this event", field="event")
    missing = _MISSING.match(text)
    if missing:
        return bad_field(f"{field}.{missing[1]}".removeprefix("."), "is required")
    expected = _EXPECTED.match(text)
    if expected:
        got = f", not {expected[2]}" if expected[2] else ""
        return bad_field(field, f"must be of type {expected[1]}{got}")
    if text.startswith("Invalid base64"):
        return bad_field(field, "must be standard base64 with padding")
    if text.startswith("Invalid enum value"):
        return bad_field(field, "must be one of the documented words")
    return bad_field(field, "must be a number this protocol can carry")
