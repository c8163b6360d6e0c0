"""Byte streams as servers send them, made by hand (or by Arauto's codec), with what is in them."""

from arauto.codec.base import Codec
from arauto.codec.events import (
    Ack,
    AckItem,
    ErrorEvent,
    Event,
    Gap,
    Occupancy,
    Ping,
    Pong,
    Publication,
    SessionInfo,
    SubscribeReply,
    SubscribeResult,
)
from arauto.codec.json import JsonCodec
from arauto.codec.proto import ProtoCodec
from arauto.model import TEXT, Message, Serial

__all__ = ["arauto", "mqtt", "nats", "publication", "redis", "ws_frame"]


def ws_frame(first: int, body: bytes) -> bytes:
    """A frame as servers send them: not masked."""
    size = len(body)
    if size < 126:
        return bytes((first, size)) + body
    if size < 65_536:
        return bytes((first, 126)) + size.to_bytes(2, "big") + body
    return bytes((first, 127)) + size.to_bytes(8, "big") + body


def publication(offset: int, size: int = 100) -> Publication:
    payload = b"@ts:" + b"%016x" % offset + b"x" * (size - 20)
    message = Message("bench", "b:000000", payload, 7 << 40, offset, 1_700_000_000_000, TEXT)
    return Publication(message=message)


def _codec(flavour: str) -> Codec:
    return ProtoCodec() if flavour == "proto" else JsonCodec()


def arauto(flavour: str) -> tuple[bytes, dict[str, int]]:
    """Every kind of event a generator can meet, in both lengths of frame header and in fragments."""
    codec = _codec(flavour)
    opcode = 1 if codec.is_text else 2

    def frame(event: Event) -> bytes:
        return ws_frame(0x80 | opcode, codec.encode_event(event))

    session = SessionInfo(hub="bench", session="s1", node="n1", authenticated=False)
    result = SubscribeResult(channel="b:000000", serial=Serial(7 << 40, 3))
    error = ErrorEvent(code=3000, message="slow down")
    items = (AckItem(serial=Serial(1, 2)), AckItem(error=error), AckItem(serial=Serial(1, 300)))
    split = codec.encode_event(publication(130))
    parts = [
        frame(session),
        frame(SubscribeReply(id=1, results=(result,))),
        frame(publication(1)),
        frame(publication(127, size=20)),
        frame(publication(128)),
        frame(Ping(id=300)),
        ws_frame(0x89, b"are you there"),
        ws_frame(0x8A, b""),
        ws_frame(opcode, split[:1]) + ws_frame(0x00, split[1:40]) + ws_frame(0x80, split[40:]),
        frame(Ack(id=9, results=items)),
        frame(Pong(id=1)),
        frame(Gap(channel="b:000000", after=Serial(1, 1), upto=Serial(1, 5), reason="slow")),
        frame(Occupancy(channel="b:000000", count=3)),
        frame(publication(2**40, size=300)),
    ]
    wanted = {"publications": 5, "acked": 2, "refused": 1, "pings": 2, "gaps": 1, "others": 3}
    return b"".join(parts), wanted


def nats() -> tuple[bytes, dict[str, int]]:
    stream = (
        b'INFO {"server_id":"N","headers":true,"max_payload":1048576}\r\n'
        b"PONG\r\n"
        b"MSG b:000000 1 5\r\nhello\r\n"
        b"PING\r\n"
        b"MSG b:000000 1 0\r\n\r\n"
        b"MSG b:000000 1 reply.to 12\r\nMSG a 1 5\r\n\r\r\n"  # a payload that looks like a frame
        b"HMSG b:000000 1 12 17\r\nNATS/1.0\r\n\r\nhello\r\n"
        b"+OK\r\n"
    )
    return stream, {"publications": 4, "pings": 1, "others": 2}


def redis() -> tuple[bytes, dict[str, int]]:
    stream = (
        b"*3\r\n$9\r\nsubscribe\r\n$8\r\nb:000000\r\n:1\r\n"
        b"*3\r\n$7\r\nmessage\r\n$8\r\nb:000000\r\n$5\r\nhello\r\n"
        b"*3\r\n$7\r\nmessage\r\n$8\r\nb:000000\r\n$0\r\n\r\n"
        b"*3\r\n$7\r\nmessage\r\n$8\r\nb:000000\r\n$7\r\n*3\r\n$7\n\r\n"
        b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"
        b":1000\r\n"
        b":0\r\n"
    )
    return stream, {"publications": 3, "acked": 2, "others": 1}


def mqtt() -> tuple[bytes, dict[str, int]]:
    topic = b"\x00\x08b:000000"
    long = topic + b"x" * 200  # a length of two bytes
    stream = (
        b"\x20\x02\x00\x00"
        + b"\x90\x03\x00\x01\x00"
        + bytes((0x30, len(topic) + 5))
        + topic
        + b"hello"
        + bytes((0x30, len(long) & 0x7F | 0x80, len(long) >> 7))
        + long
        + b"\xd0\x00"
        + bytes((0x30, len(topic)))
        + topic
    )
    return stream, {"publications": 3, "others": 1}
