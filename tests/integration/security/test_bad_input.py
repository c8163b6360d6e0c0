"""Every kind of bad input: an error that names the field and the rule, at worst the sender's connection.

The rows are those of the table in docs/protocol/errors.md. Beside each attack a well-behaved client goes on.
"""

import asyncio
import random
import struct

import pytest

from arauto.codec.base import Codec
from arauto.codec.events import ErrorEvent, Pong
from arauto.codec.json import JsonCodec
from arauto.codec.numbers import EventType
from arauto.codec.proto import ProtoCodec
from arauto.errors import Code
from arauto.settings import HubSettings
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.security.raw import (
    Raw,
    frame,
    hold_steady,
    resident_bytes,
    upgraded,
    witness,
)
from tests.integration.session.talk import publish, subscribed
from tests.integration.wire import connect

PROTO, JSON = "arauto.v1.proto", "arauto.v1.json"
TEXT, BINARY, CONTINUATION, CLOSE, PING = 0x1, 0x2, 0x0, 0x8, 0x9

_codecs: dict[str, Codec] = {PROTO: ProtoCodec(), JSON: JsonCodec()}


async def answer(raw: Raw, flavour: str) -> ErrorEvent:
    opcode, payload = await raw.frame()
    assert opcode == (TEXT if flavour == JSON else BINARY)
    event = _codecs[flavour].decode_event(payload)
    assert isinstance(event, ErrorEvent), event
    return event


def request(payload: bytes, flavour: str) -> bytes:
    return frame(payload, TEXT if flavour == JSON else BINARY)


def unmasked(payload: bytes) -> bytes:
    return bytes((0x82, len(payload))) + payload


#: What is wrong: flavour, what is sent, and the close code (0: the socket may just end).
FRAMES: dict[str, tuple[str, bytes, set[int]]] = {
    "reserved bits": (PROTO, frame(b"x", rsv=4), {1002}),
    "a reserved opcode": (PROTO, frame(b"x", 0x3), {1002}),
    "a reserved control opcode": (PROTO, frame(b"x", 0xB), {1002}),
    "an unmasked frame": (PROTO, unmasked(b"x"), {1002}),
    "a control frame in fragments": (PROTO, frame(b"x", PING, fin=False), {1002}),
    "a control frame of 126 bytes": (PROTO, frame(b"x" * 126, PING), {1002}),
    "a continuation of nothing": (PROTO, frame(b"x", CONTINUATION), {1002}),
    "a message inside another": (PROTO, frame(b"x", BINARY, fin=False) + frame(b"y"), {1002}),
    "a frame over the limit": (PROTO, frame(b"x" * 1_100_000), {1009}),
    "a length of 2^63": (PROTO, struct.pack(">BBQ", 0x82, 0xFF, 2**63) + b"\x00" * 4, {1002, 1009}),
    "a length of 2^40": (PROTO, struct.pack(">BBQ", 0x82, 0xFF, 2**40) + b"\x00" * 4, {1009}),
    "a message over the limit in pieces": (
        PROTO,
        frame(b"x" * 600_000, fin=False) + frame(b"x" * 600_000, CONTINUATION),
        {1009},
    ),
    "10,000 tiny fragments": (
        PROTO,
        frame(b"x", fin=False) + frame(b"x", CONTINUATION, fin=False) * 10_000,
        {1009},
    ),
    "text that is not UTF-8": (JSON, frame(b'{"event":"\xff"}', TEXT), {1007}),
    "text that is not UTF-8 across fragments": (
        JSON,
        frame(b"\xce", TEXT, fin=False) + frame(b"\x28", CONTINUATION),
        {1007},
    ),
    "an encoded surrogate": (JSON, frame(b"\xed\xa0\x80", TEXT), {1007}),
    "a close code that must not be sent": (PROTO, frame(struct.pack(">H", 1005), CLOSE), {1002}),
    "a close code of one byte": (PROTO, frame(b"\x03", CLOSE), {1002}),
    "a close reason that is not UTF-8": (PROTO, frame(b"\x03\xe8\xff", CLOSE), {1007}),
    "text on the binary flavour": (PROTO, frame(b"{}", TEXT), {1002}),
    "binary on the text flavour": (JSON, frame(b"{}", BINARY), {1002}),
}


@pytest.mark.parametrize(("flavour", "sent", "codes"), FRAMES.values(), ids=FRAMES)
async def test_a_bad_frame_costs_the_connection_that_sent_it(
    node: RunningNode, flavour: str, sent: bytes, codes: set[int]
) -> None:
    async with witness(node):
        async with upgraded(node, flavour) as raw:
            await raw.send(sent)
            assert await raw.close_code() in codes
        await hold_steady(node, 1)


@pytest.mark.parametrize(("flavour", "sent", "codes"), FRAMES.values(), ids=FRAMES)
async def test_a_bad_frame_is_counted_once_with_its_hub(
    node: RunningNode, flavour: str, sent: bytes, codes: set[int]
) -> None:
    async with witness(node):
        async with upgraded(node, flavour) as raw:
            await raw.send(sent)
            close_code = await raw.close_code()
        await hold_steady(node, 1)
        assert node.node.metrics.hub("shop").refused == {COUNTED[close_code]: 1}


#: As what a connection counts that was closed with that code.
COUNTED = {1002: Code.PROTOCOL_VIOLATION, 1007: Code.BAD_TEXT, 1009: Code.FRAME_TOO_LARGE}

#: Frames that announce more than they may.
ANNOUNCED = ["a length of 2^63", "a length of 2^40", "10,000 tiny fragments"]


async def test_memory_stays_bounded_under_bad_frames(node: RunningNode) -> None:
    """T10: lengths are not believed, and nothing is set aside for them."""

    async def attack() -> None:
        for flavour, sent, _ in (FRAMES[name] for name in ANNOUNCED):
            async with upgraded(node, flavour) as raw:
                await raw.send(sent)
                await raw.close_code()

    async with witness(node):
        await attack()
        before = resident_bytes()
        for _ in range(5):
            await attack()
        assert resident_bytes() - before < 10_000_000


def proto(event: int, body: bytes = b"") -> bytes:
    """A protobuf envelope: field 1 the event, field 2 the payload."""
    inner = b"\x12" + bytes((len(body),)) + body if body else b""
    return b"\x08" + bytes((event,)) + inner


#: What is wrong: flavour, message, code, field ("" for none).
MESSAGES: dict[str, tuple[str, bytes, Code, str]] = {
    "truncated protobuf": (PROTO, b"\x08\x0a\x12\x7f\x01", Code.BAD_ENVELOPE, ""),
    "garbage": (PROTO, b"\xff\xff\xff\xff\xff", Code.BAD_ENVELOPE, ""),
    "an empty frame": (PROTO, b"", Code.UNKNOWN_EVENT, "event"),
    "an event number that does not exist": (PROTO, proto(99), Code.UNKNOWN_EVENT, "event"),
    "an event only servers send": (PROTO, proto(EventType.ERROR), Code.NOT_FROM_CLIENT, "event"),
    "truncated JSON": (JSON, b'{"event":"ping"', Code.BAD_ENVELOPE, ""),
    "two objects": (JSON, b'{"event":"ping"}{}', Code.BAD_ENVELOPE, ""),
    "an array": (JSON, b"[]", Code.BAD_ENVELOPE, ""),
    "NaN": (JSON, b'{"event":"ping","id":NaN}', Code.BAD_ENVELOPE, ""),
    "a byte order mark": (JSON, b'\xef\xbb\xbf{"event":"ping"}', Code.BAD_ENVELOPE, ""),
    "nesting without end": (JSON, b"[" * 100_000, Code.BAD_ENVELOPE, ""),
    "an event name that does not exist": (JSON, b'{"event":"hack"}', Code.UNKNOWN_EVENT, "event"),
    "a server's event name": (JSON, b'{"event":"ack"}', Code.NOT_FROM_CLIENT, "event"),
    "no event": (JSON, b'{"id":1}', Code.BAD_ENVELOPE, "event"),
    "a missing field": (JSON, b'{"event":"history","id":1}', Code.BAD_FIELD, "channel"),
    "a field of the wrong type": (
        JSON,
        b'{"event":"history","id":1,"channel":7}',
        Code.BAD_FIELD,
        "channel",
    ),
    "a field mistyped": (JSON, b'{"event":"ping","ID":1}', Code.BAD_FIELD, ""),
    "an essential field": (JSON, b'{"event":"ping","id":1,"must_wait":true}', Code.BAD_FIELD, ""),
    "20,000 unknown fields": (
        PROTO,
        b"\x08\x01" + b"\x98\x06\x01" * 20_000,
        Code.BAD_FIELD,
        "envelope",
    ),
    "a null": (JSON, b'{"event":"history","id":1,"channel":null}', Code.BAD_FIELD, "channel"),
    "a negative id": (JSON, b'{"event":"ping","id":-1}', Code.BAD_FIELD, "id"),
    "a fraction": (JSON, b'{"event":"ping","id":1.5}', Code.BAD_FIELD, "id"),
    "an id over 2^53": (JSON, b'{"event":"ping","id":9007199254740993}', Code.BAD_FIELD, "id"),
    "no items": (JSON, b'{"event":"publish","id":1,"messages":[]}', Code.BAD_FIELD, "messages"),
    "1,001 items": (
        JSON,
        b'{"event":"unsubscribe","id":1,"channels":[' + b",".join([b'"a"'] * 1_001) + b"]}",
        Code.BATCH_TOO_LARGE,
        "channels",
    ),
    "no payload": (
        JSON,
        b'{"event":"publish","id":1,"messages":[{"channel":"a"}]}',
        Code.BAD_FIELD,
        "messages[0]",
    ),
    "base64 that is not": (
        JSON,
        b'{"event":"publish","id":1,"messages":[{"channel":"a","base64":"*"}]}',
        Code.BAD_FIELD,
        "messages[0].base64",
    ),
    "a header with a line break": (
        JSON,
        b'{"event":"publish","id":1,"messages":[{"channel":"a","text":"x","headers":{"a":"b\\r\\nc"}}]}',
        Code.BAD_FIELD,
        "messages[0].headers",
    ),
    "an operation that is none of the six": (
        JSON,
        b'{"event":"document_change","id":1,"channel":"doc:a","operations":[{"op":"drop","path":"/a"}]}',
        Code.BAD_FIELD,
        "operations[0].op",
    ),
    "a restore key without end": (
        JSON,
        b'{"event":"session_restore","id":1,"key":"' + b"k" * 10_000 + b'"}',
        Code.BAD_FIELD,
        "key",
    ),
}


@pytest.mark.parametrize(("flavour", "sent", "code", "field"), MESSAGES.values(), ids=MESSAGES)
async def test_a_bad_message_is_refused_with_field_and_rule_and_the_connection_goes_on(
    node: RunningNode, flavour: str, sent: bytes, code: Code, field: str
) -> None:
    async with witness(node), upgraded(node, flavour) as raw:
        await raw.send(request(sent, flavour))
        error = await answer(raw, flavour)
        assert error.code == code
        assert error.field.startswith(field)
        assert error.message
        assert not error.retryable
        ping = b'{"event":"ping","id":5}' if flavour == JSON else proto(EventType.PING, b"\x08\x05")
        await raw.send(request(ping, flavour))
        _, payload = await raw.frame()
        assert _codecs[flavour].decode_event(payload) == Pong(id=5)


#: Names no channel can have; each says which rule it breaks.
BAD_NAMES = {
    "empty": "",
    "NUL": "a\x00b",
    "a line break": "a\nb",
    "white space": "a b",
    "a no-break space": "a\xa0b",
    "a byte order mark": "a\ufeff",
    "a line separator": "a\u2028b",
    "an ideographic space": "a\u3000b",
    "a zero width space": "a\u200b",
    "a text turned around": "a\u202eb",
    "a soft hyphen": "a\u00adb",
    "a tag": "a\U000e0061",
    "a variation selector": "a\ufe0f",
    "private use": "a\ue000",
    "not assigned": "a\uffff",
    "256 bytes": "x" * 256,
    "256 bytes of UTF-8": "é" * 128,
    "not in normal form C": "e\u0301",
    "an empty path segment": "/a//b",
    "a slash at the end": "/a/",
}
#: Names that are fine as patterns, or fine as plain names, but must never be a path to anything else.
ODD_NAMES = [
    "..",
    "../other:room",
    "%2e%2e",
    "a/../b",
    "shop2:room",
    "SHOP2",
    "\u017fhop",
    "doc:../x",
]


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES)
async def test_a_malformed_name_is_refused_item_by_item(node: RunningNode, name: str) -> None:
    wire = await connect(node.url)
    wire.send(publish(name, b"x", id=1))
    wire.send(publish(name + "*", b"x", id=2))
    reply = await subscribed(wire, name, "good")
    assert [result.error.code if result.error else 0 for result in reply.results] == [
        Code.BAD_CHANNEL_NAME,
        0,
    ]
    refusal = reply.results[0].error
    assert refusal is not None
    assert refusal.field == "channel"
    assert "channel name" in refusal.message or "topic path" in refusal.message
    assert list(node.node.directory.hubs["shop"].channels) == ["good"]
    await wire.close()


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_an_odd_name_is_a_channel_like_any_other(node: RunningNode, name: str) -> None:
    other = await connect(node.url, hub="shop2")
    await subscribed(other, "*", "room", "other:room")
    wire = await connect(node.url)
    await subscribed(wire, name)
    wire.send(publish(name, b"mine"))
    assert await wire.messages(1) == [b"mine"]
    other.send(publish("room", b"theirs"))
    assert await other.messages(1) == [b"theirs"]
    await wire.close()
    await other.close()


@pytest.mark.parametrize("name", ["a*", "*", "#", "a:#", "a:*:b"])
async def test_nobody_publishes_to_a_pattern(node: RunningNode, name: str) -> None:
    wire = await connect(node.url)
    wire.send(publish(name, b"x"))
    error = await wire.next(ErrorEvent)
    assert (error.code, error.field) == (Code.BAD_CHANNEL_NAME, "channel")
    await wire.close()


#: The query of a connection request, and how it is answered.
HANDSHAKES = {
    "no hub": ("", Code.BAD_HUB_NAME, "hub"),
    "a malformed hub": ("hub=a%20b", Code.BAD_HUB_NAME, "hub"),
    "a hub upwards": ("hub=..%2fshop", Code.BAD_HUB_NAME, "hub"),
    "a hub with NUL": ("hub=shop%00", Code.BAD_HUB_NAME, "hub"),
    "a hub of 65 letters": ("hub=" + "a" * 65, Code.BAD_HUB_NAME, "hub"),
    "an unknown hub": ("hub=nowhere", Code.UNKNOWN_HUB, "hub"),
    "a token nobody can check": ("hub=shop&token=abc", Code.AUTH_FAILED, "credentials"),
    "a token without a signature": (
        "hub=shop&token=eyJhbGciOiJub25lIiwidHlwIjoiYXJhdXRvLXNlc3Npb24rand0In0.e30.",
        Code.TOKEN_INVALID,
        "",
    ),
}


@pytest.fixture
async def closed_node(start_node: StartNode) -> RunningNode:
    """A node that makes no hubs on use, with one hub."""
    node = await start_node(engine={"allowDynamicHubs": False})
    await node.set("hub", "shop", "", HubSettings(default_public=True))
    return node


@pytest.mark.parametrize("flavour", [PROTO, JSON])
@pytest.mark.parametrize(("query", "code", "field"), HANDSHAKES.values(), ids=HANDSHAKES)
async def test_a_refused_connection_request_says_why_before_it_closes(
    closed_node: RunningNode, flavour: str, query: str, code: Code, field: str
) -> None:
    hub, _, extra = query.removeprefix("hub=").partition("&")
    options = dict([extra.split("=", 1)]) if extra else {}
    wire = await connect(closed_node.url, hub=hub, flavour=flavour, **options)
    error = await wire.next(ErrorEvent)
    assert (
        error.code in (code, Code.TOKEN_INVALID, Code.AUTH_FAILED) if extra else error.code == code
    )
    if field:
        assert error.field == field
    await asyncio.wait_for(wire.closed.wait(), 10)
    assert wire.close_code == 4506
    await hold_steady(closed_node)


async def test_random_bytes_on_many_connections_upset_nobody(node: RunningNode) -> None:
    """T12: a second client stays connected and keeps receiving."""
    chance = random.Random(7)
    async with witness(node):
        for _ in range(60):
            async with upgraded(node, chance.choice([PROTO, JSON])) as raw:
                for _ in range(5):
                    junk = chance.randbytes(chance.randrange(60))
                    whole = chance.random() < 0.7
                    await raw.send(frame(junk, chance.choice([1, 2])) if whole else junk)
        await hold_steady(node, 1)
