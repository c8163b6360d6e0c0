"""Counts whole frames in byte streams, one counter per protocol. The Python twin of loadgen.c's parsers.

A counter is fed whatever a read returned and keeps an unfinished frame for the next time. It tells
publications from everything else, answers pings (in `answers`), and counts the answers to its own
requests (`steps`: connected, subscribed).
"""

from collections.abc import Callable

from arauto.bench.failure import BenchError
from arauto.codec.base import Codec
from arauto.codec.events import (
    Ack,
    ErrorEvent,
    Gap,
    Ping,
    Pong,
    Publication,
    SessionInfo,
    SubscribeReply,
)
from arauto.codec.json import JsonCodec
from arauto.codec.numbers import EventType
from arauto.codec.proto import ProtoCodec

__all__ = [
    "Counter",
    "MqttCounter",
    "NatsCounter",
    "RedisCounter",
    "WebSocketCounter",
    "client_frame",
]

_FRAME_BYTES_MAX = 16 << 20


class Counter:
    """What the counters share; `_parse` is the protocol."""

    def __init__(self) -> None:
        self.publications = 0
        self.acked = 0
        self.refused = 0
        self.pings = 0
        self.gaps = 0
        self.others = 0
        self.steps = 0
        self.answers = bytearray()
        self.on_publication: Callable[[bytes], None] | None = None
        """Called with each publication's frame, for who wants to look inside."""
        self._carry = b""

    @property
    def rest_bytes(self) -> int:
        """Bytes of a frame that has not ended yet."""
        return len(self._carry)

    def feed(self, data: bytes) -> None:
        """Take what was read.

        Raises:
            BenchError: the server answered with an error, or not in its protocol.
        """
        data = self._carry + data
        used = self._parse(data)
        self._carry = data[used:]
        if len(self._carry) > _FRAME_BYTES_MAX:
            raise BenchError(f"a frame is longer than {_FRAME_BYTES_MAX} bytes")

    def _parse(self, data: bytes) -> int:
        """Count the whole frames at the start of `data`; return how many bytes they took."""
        raise NotImplementedError

    def _publication(self, frame: bytes) -> None:
        self.publications += 1
        if self.on_publication is not None:
            self.on_publication(frame)


def _server_error(text: bytes | str) -> BenchError:
    shown = text.decode(errors="replace") if isinstance(text, bytes) else text
    return BenchError(f"the server answered with an error: {shown.strip()[:300]}")


def client_frame(opcode: int, body: bytes) -> bytes:
    """Return a masked WebSocket frame. The mask is zero: legal, and it costs nothing."""
    size = len(body)
    if size < 126:
        head = bytes((0x80 | opcode, 0x80 | size))
    elif size < 65_536:
        head = bytes((0x80 | opcode, 0x80 | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, 0x80 | 127)) + size.to_bytes(8, "big")
    return head + bytes(4) + body


class WebSocketCounter(Counter):
    """Arauto, either flavour. `upgraded=False` starts with the answer to the HTTP upgrade."""

    def __init__(self, flavour: str, *, upgraded: bool = True) -> None:
        super().__init__()
        self._codec: Codec = ProtoCodec() if flavour == "proto" else JsonCodec()
        # The server writes the event first, so a few bytes tell a publication from the rest.
        self._prefix = (
            bytes((0x08, EventType.PUBLISH)) if flavour == "proto" else b'{"event":"publish",'
        )
        self._upgraded = upgraded
        self._fragments = bytearray()

    def _parse(self, data: bytes) -> int:
        at = 0
        if not self._upgraded:
            at = data.find(b"\r\n\r\n") + 4
            if at < 4:
                return 0
            if not data.startswith(b"HTTP/1.1 101"):
                raise BenchError(f"the WebSocket upgrade was refused: {data[:200]!r}")
            self._upgraded = True
        while len(data) - at >= 2:
            size, head = data[at + 1], 2
            if size > 127:
                raise BenchError("a bad WebSocket frame header")
            if size > 125:
                head = 4 if size == 126 else 10
                if len(data) - at < head:
                    break
                size = int.from_bytes(data[at + 2 : at + head], "big")
            if len(data) - at - head < size:
                break
            self._frame(data[at], data[at + head : at + head + size])
            at += head + size
        return at

    def _frame(self, first: int, body: bytes) -> None:
        opcode = first & 0x0F
        if opcode in (1, 2) and first & 0x80:
            self._message(body)
        elif opcode in (0, 1, 2):
            self._fragments += body
            if first & 0x80:
                whole = bytes(self._fragments)
                self._fragments.clear()
                self._message(whole)
        elif opcode == 8:
            code = int.from_bytes(body[:2], "big")
            reason = body[2:].decode(errors="replace")
            raise BenchError(f"the server closed a connection: {code} {reason}")
        elif opcode == 9:
            self.pings += 1
            self.answers += client_frame(10, body)
        else:
            self.others += 1

    def _message(self, body: bytes) -> None:
        if body.startswith(self._prefix):
            self._publication(body)
            return
        match event := self._codec.decode_event(body):
            case Publication():
                self._publication(body)
            case Ack(results=results):
                refused = sum(result.error is not None for result in results)
                self.refused += refused
                self.acked += len(results) - refused
            case Ping(id=number):
                self.pings += 1
                pong = self._codec.encode_request(Pong(id=number))
                self.answers += client_frame(1 if self._codec.is_text else 2, pong)
            case SessionInfo():
                self.steps += self.steps == 0
            case SubscribeReply(results=results):
                failed = next((result.error for result in results if result.error), None)
                if failed is not None:
                    raise _server_error(failed.message)
                self.steps += 1
            case ErrorEvent(code=code, message=message):
                raise _server_error(f"{code} {message}")
            case Gap():
                self.gaps += 1
            case _:
                del event
                self.others += 1


class NatsCounter(Counter):
    """NATS client protocol."""

    def _parse(self, data: bytes) -> int:
        at = 0
        while (end := data.find(b"\r\n", at)) != -1:
            line = data[at:end]
            after = end + 2
            if line.startswith((b"MSG ", b"HMSG ")):
                after += int(line[line.rfind(b" ") + 1 :]) + 2
                if after > len(data):
                    break
                self._publication(data[at:after])
            elif line == b"PING":
                self.pings += 1
                self.answers += b"PONG\r\n"
            elif line == b"PONG":
                self.steps += 1
            elif line.startswith(b"-"):
                raise _server_error(line)
            else:
                self.others += 1  # INFO, +OK
            at = after
        return at


class RedisCounter(Counter):
    """Redis publish/subscribe, RESP 2."""

    def _parse(self, data: bytes) -> int:
        at = 0
        while (end := data.find(b"\r\n", at)) != -1:
            after: int | None = end + 2
            kind = data[at : at + 1]
            if kind == b"*":
                after = self._array(data, at, end)
                if after is None:
                    break
            elif kind == b"-":
                raise _server_error(data[at:end])
            elif kind == b":":
                self.acked += 1  # PUBLISH says how many it reached
            elif kind == b"+":
                self.steps += 1  # PONG
            else:
                raise BenchError("an unexpected RESP reply")
            at = after or 0
        return at

    def _array(self, data: bytes, start: int, end: int) -> int | None:
        items: list[bytes] = []
        at = end + 2
        for _ in range(int(data[start + 1 : end])):
            end = data.find(b"\r\n", at)
            if end == -1:
                return None
            if data[at : at + 1] == b"$":
                size = int(data[at + 1 : end])
                items.append(data[end + 2 : end + 2 + size])
                at = end + 2 + size + 2
                if at > len(data):
                    return None
            else:
                items.append(b"")
                at = end + 2
        if items[0] == b"message":
            self._publication(data[start:at])
        elif items[0] == b"subscribe":
            self.steps += 1
        else:
            self.others += 1
        return at


class MqttCounter(Counter):
    """MQTT 3.1.1, QoS 0."""

    def _parse(self, data: bytes) -> int:
        at = 0
        while len(data) - at >= 2:
            size, shift, body = 0, 0, at + 1
            while body < len(data):
                byte = data[body]
                size |= (byte & 0x7F) << shift
                shift += 7
                body += 1
                if byte < 0x80:
                    break
            else:
                break
            if shift > 28:
                raise BenchError("a bad MQTT length")
            if len(data) - body < size:
                break
            self._packet(data[at] >> 4, data[at : body + size], data[body : body + size])
            at = body + size
        return at

    def _packet(self, kind: int, packet: bytes, body: bytes) -> None:
        if kind == 3:
            self._publication(packet)
        elif kind == 2:
            if len(body) < 2 or body[1]:
                raise BenchError("MQTT connect refused")
            self.steps += 1
        elif kind == 9:
            if len(body) < 3 or body[2] & 0x80:
                raise BenchError("MQTT subscription refused")
            self.steps += 1
        else:
            self.others += 1
