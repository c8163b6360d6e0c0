"""What holds for any bytes whatever, one law per target. Shared by the fuzz targets and by tests.

Nothing here needs atheris: `fuzz_<name>.py` runs a law under the fuzzer, and test_codec_laws.py under
tests/unit/codec runs each with Hypothesis. A law returns if all is well; what it raises is a finding.
"""

import json
import re
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

import msgspec
from google.protobuf.message import DecodeError

from arauto.codec import websocket as ws
from arauto.codec.base import Codec
from arauto.codec.events import (
    DocumentChangeRequest,
    Publication,
    PublishRequest,
    Request,
    SubscribeReply,
    SubscribeResult,
)
from arauto.codec.json import JsonCodec
from arauto.codec.proto import ProtoCodec, _envelope, _unwrap_quick
from arauto.codec.proto_fast import read_publish
from arauto.codec.proto_requests import decode_publish
from arauto.codec.sse import SseCodec, StreamPositions, parse_last_event_id
from arauto.codec.unknown import Unknown, UnknownFieldError
from arauto.codec.unread import operations_of
from arauto.errors import ArautoError, Code, DisconnectError
from arauto.model import JSON, TEXT, Message
from arauto.names import ancestors, check_channel, check_hub, check_pattern, matches

__all__ = ["check_json", "check_names", "check_proto", "check_sse", "check_websocket"]

#: No single input may keep a node busy for longer.
_CPU_S_MAX = 1.0

_PROTO, _JSON, _SSE = ProtoCodec(), JsonCodec(), SseCodec()
_CODEC_CODES = (
    Code.BAD_ENVELOPE,
    Code.UNKNOWN_EVENT,
    Code.NOT_FROM_CLIENT,
    Code.BAD_FIELD,
    Code.BATCH_TOO_LARGE,
)

Law = Callable[[bytes], None]


def within_a_second(law: Law) -> Law:
    @wraps(law)
    def timed(data: bytes) -> None:
        start_s = time.process_time()
        law(data)
        spent_s = time.process_time() - start_s
        assert spent_s < _CPU_S_MAX, f"{len(data)} bytes took {spent_s:.1f} s"

    return timed


def _expect(error: ArautoError, *codes: Code) -> None:
    if error.code not in codes:
        raise AssertionError(f"undocumented error {error.code!r}") from error
    if len(str(error)) >= 200:
        raise AssertionError("an error repeats what was sent") from error


def _whole(request: Request) -> Request:
    """The request with the values that a server reads later."""
    if isinstance(request, DocumentChangeRequest):
        return msgspec.structs.replace(request, operations=operations_of(request))
    return request


def _check_tolerance(codec: Codec, data: bytes) -> None:
    """What is read without the fields we do not know is a request like any other."""
    try:
        request = _whole(codec.decode_known(data, Unknown()))
    except ArautoError as error:
        _expect(error, *_CODEC_CODES)
    else:
        assert _whole(codec.decode_request(codec.encode_request(request))) == request


def _check_codec(codec: Codec, data: bytes) -> None:
    """Only documented errors come out; what is understood can be said again and means the same."""
    request_id = codec.request_id(data)
    try:
        request = _whole(codec.decode_request(data))
    except ArautoError as error:
        _expect(error, *_CODEC_CODES)
        if isinstance(error, UnknownFieldError):
            _check_tolerance(codec, data)
    else:
        assert getattr(request, "id", 0) == request_id or request_id == 0
        assert _whole(codec.decode_request(codec.encode_request(request))) == request
        unknown = Unknown()
        assert _whole(codec.decode_known(data, unknown)) == request
        assert not unknown.count
    try:
        event = codec.decode_event(data)
    except ArautoError as error:
        _expect(error, *_CODEC_CODES)
    else:
        assert codec.decode_event(codec.encode_event(event)) == event


def _outcome(call: Callable[[bytes], object], data: bytes) -> object:
    try:
        return call(data)
    except ArautoError as error:
        return error.code, error.field
    except DecodeError:
        return None


@within_a_second
def check_proto(data: bytes) -> None:
    """The protobuf flavour, and its two hand-written readers against the generated ones."""
    _check_codec(_PROTO, data)
    taken_apart = _unwrap_quick(data)
    if taken_apart is not None:
        envelope = _envelope(data)
        assert taken_apart == (envelope.event, envelope.payload)
    quick: PublishRequest | None = read_publish(data)
    assert quick is None or quick == _outcome(lambda payload: decode_publish(payload, None), data)


def _strict(text: bytes) -> dict[str, Any]:
    """Read a JSON object as strictly as any client might; a key twice at its top is a finding."""
    top: list[tuple[str, Any]] = []

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        top[:] = pairs  # the outermost object comes last
        return dict(pairs)

    def never(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    value: dict[str, Any] = json.loads(text, object_pairs_hook=note, parse_constant=never)
    assert len(value) == len(top), "a key occurs twice"
    return value


def _published(payload: bytes, content_type: str) -> Publication:
    return Publication(
        message=Message(
            hub="h",
            channel="a",
            payload=payload,
            epoch=1,
            offset=1,
            ts_ms=1,
            content_type=content_type,
            user="ann",
        )
    )


_ENVELOPE_KEYS = frozenset({"event", "channel", "serial", "ts_ms", "user"})
_PAYLOAD_KEYS = frozenset({"data", "text", "base64", "content_type"})


@within_a_second
def check_json(data: bytes) -> None:
    """The JSON flavour; and no payload, whatever it is said to be, escapes from its delivery."""
    _check_codec(_JSON, data)
    for content_type in (JSON, TEXT, ""):
        event = _strict(_JSON.encode_event(_published(data, content_type)))
        assert event.keys() - _PAYLOAD_KEYS == _ENVELOPE_KEYS
        assert (event["event"], event["channel"], event["user"]) == ("publish", "a", "ann")


@within_a_second
def check_sse(data: bytes) -> None:
    """A Last-Event-ID is refused or says again what it said; and no payload breaks out of its event."""
    text = data.decode("latin-1")
    try:
        positions = parse_last_event_id(text)
    except ArautoError as error:
        _expect(error, Code.BAD_FIELD)
    else:
        results = tuple(SubscribeResult(channel=c, serial=s) for c, s in positions.items())
        reply = _SSE.encode_event(SubscribeReply(id=1, results=results))
        stream = StreamPositions({}).rewrite(reply)
        if positions:
            line = stream.partition(b"\n")[0].removeprefix(b"id: ").decode()
            assert parse_last_event_id(line) == positions
    for content_type in (JSON, TEXT, ""):
        chunk = _SSE.encode_event(_published(data, content_type))
        assert b"\r" not in chunk
        assert [line.partition(b":")[0] for line in chunk.split(b"\n")] == [
            *(b"id", b"event", b"data"),
            *(b"", b""),
        ]
        assert StreamPositions({}).rewrite(chunk) == chunk


@within_a_second
def check_websocket(data: bytes) -> None:
    """Frames read from the data (two bytes of header each) against a plain model of RFC 6455."""
    _close_is_read_or_refused(data)
    assembler = ws.Assembler(200, fragments_len_max=16)
    joined: bytes | None = None
    first = 0
    at = 0
    while at + 2 <= len(data):
        head, size = data[at], data[at + 1]
        payload = data[at + 2 : at + 2 + size]
        at += 2 + size
        opcode, fin = head & 15, bool(head & 128)
        try:
            done = assembler.feed(opcode, payload, fin=fin, rsv=head >> 4 & 7)
        except DisconnectError as error:
            _expect(error, Code.PROTOCOL_VIOLATION, Code.BAD_TEXT, Code.FRAME_TOO_LARGE)
            return
        if opcode >= 8:
            assert done == (opcode, payload)
            continue
        if opcode:
            assert joined is None
            first, joined = opcode, b""
        assert joined is not None
        joined += payload
        assert len(joined) <= 200
        assert done == ((first, joined) if fin else None)
        if done is not None:
            if first == ws.TEXT:
                joined.decode()
            joined = None


def _close_is_read_or_refused(data: bytes) -> None:
    try:
        code, reason = ws.parse_close(data)
    except DisconnectError as error:
        _expect(error, Code.PROTOCOL_VIOLATION, Code.BAD_TEXT)
    else:
        assert not data or ws.close_payload(code, reason) == data


@within_a_second
def check_names(data: bytes) -> None:
    """Names are refused or kept as they are; matching agrees with a plain regular expression."""
    pattern, _, channel = data.decode(errors="surrogateescape").partition("\n")
    for check in (check_hub, check_channel, check_pattern):
        try:
            assert check(pattern) == pattern
        except ArautoError as error:
            _expect(error, Code.BAD_HUB_NAME, Code.BAD_CHANNEL_NAME)
    try:
        check_pattern(pattern)
        check_channel(channel)
    except ArautoError:
        return
    assert matches(pattern, channel) == _oracle(pattern, channel)
    for above in ancestors(channel) if channel.startswith("/") else ():
        assert matches(above, channel)


def _oracle(pattern: str, channel: str) -> bool:
    if pattern == channel:
        return True
    if pattern.startswith("/"):
        return channel.startswith(pattern.rstrip("/") + "/")
    parts = []
    for segment in pattern.split(":"):
        if segment == "#":
            parts.append("[^:]+")
        else:
            parts.append(".*".join(map(re.escape, segment.split("*"))))
    return re.fullmatch(":".join(parts), channel, re.DOTALL) is not None
