"""Frames that come in pieces, while other connections need room: no byte of them is lost."""

import asyncio
import random
from struct import pack
from typing import Any

import pytest
from picows import WSMsgType

from arauto.errors import Code
from arauto.gateways.buffers import ReadBuffers
from arauto.gateways.framing import BINARY, FramedConnection
from arauto.gateways.guard import Upgrade
from arauto.gateways.reader import take_over
from arauto.testing.clock import FakeClock

MESSAGE_BYTES_MAX = 100_000
LARGE = b"x" * 60_000
HEADERS = {
    b"upgrade": b"websocket",
    b"connection": b"upgrade",
    b"sec-websocket-key": b"AAAAAAAAAAAAAAAAAAAAAA==",
    b"sec-websocket-version": b"13",
}


class Socket:
    """As far as picows looks at one."""

    family = 0

    def setsockopt(self, *_: object) -> None:
        """There is nothing to set."""

    def getsockopt(self, *_: object) -> int:
        return 0

    def fileno(self) -> int:
        return -1


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"socket": Socket()})
        self.written: list[bytes] = []
        self.protocol: Any = None
        self.is_closed = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing waits here."""

    def get_write_buffer_size(self) -> int:
        return 1  # else picows would write to the socket itself

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def pause_reading(self) -> None:
        """Nothing comes unless the test sends it."""

    resume_reading = pause_reading


class Peer(FramedConnection):
    """A connection and the bytes its client sends."""

    def __init__(self, buffers: ReadBuffers, hub: str) -> None:
        super().__init__(
            FakeClock(),
            message_bytes_max=MESSAGE_BYTES_MAX,
            fragments_max=100,
            leave=lambda: None,
        )
        self.messages: list[bytes] = []
        self.ended: Code | None = None
        self.wire = Wire()
        take_over(
            Upgrade(self.wire, b"/", [], "", secure=False, leave=lambda: None),
            HEADERS,
            "",
            self,
            buffers,
            hub=hub,
            read_buffer_bytes=2_048,
            message_bytes_max=MESSAGE_BYTES_MAX,
        )

    def on_message(self, kind: WSMsgType, data: bytes) -> None:
        self.messages.append(data)

    def on_end(self, code: Code) -> None:
        self.ended = code

    def send(self, data: bytes) -> None:
        while data and not self.wire.is_closed:
            room = self.wire.protocol.get_buffer(len(data))
            piece, data = data[: len(room)], data[len(room) :]
            room[: len(piece)] = piece
            room.release()
            self.wire.protocol.buffer_updated(len(piece))


def frame(payload: bytes, opcode: int = BINARY.value, *, fin: bool = True) -> bytes:
    size_bytes = len(payload)
    first = opcode | (0x80 if fin else 0)
    if size_bytes < 126:
        header = bytes((first, 0x80 | size_bytes))
    elif size_bytes < 65_536:
        header = pack(">BBH", first, 0xFE, size_bytes)
    else:
        header = pack(">BBQ", first, 0xFF, size_bytes)
    return header + b"\0\0\0\0" + payload


@pytest.mark.parametrize("first_bytes", [1, 2, 5, 6, 40])
async def test_the_beginning_of_a_small_message_is_no_room_to_be_had(first_bytes: int) -> None:
    """It once went away with the buffer it waited in, and its rest was read as frames."""
    buffers = ReadBuffers(300_000)
    victim = Peer(buffers, "shop")
    victim.send(frame(LARGE))
    small = frame(b"a small one" * 5)
    victim.send(small[:first_bytes])
    others = [Peer(buffers, "shop") for _ in range(5)]
    for other in others:
        other.send(frame(LARGE))
    assert buffers.shrunk
    victim.send(small[first_bytes:])
    assert victim.messages == [LARGE, b"a small one" * 5]
    assert victim.ended is None


async def test_a_message_that_was_begun_in_an_idle_buffer_gives_way_as_others_do() -> None:
    buffers = ReadBuffers(300_000)
    slow = Peer(buffers, "shop")
    slow.send(frame(LARGE))
    slow.send(frame(LARGE)[:10])
    others = [Peer(buffers, "shop") for _ in range(5)]
    for other in others:
        other.send(frame(LARGE)[:-1])
    assert slow.ended is Code.OVERLOADED
    assert buffers.held_bytes <= 300_000


@pytest.mark.parametrize(
    "sign_of_life", [frame(b"", 0x9), frame(b"x", 0, fin=False)], ids=["ping", "piece"]
)
async def test_pings_and_more_pieces_do_not_put_off_whose_message_never_ends(
    sign_of_life: bytes,
) -> None:
    buffers = ReadBuffers(300_000)
    endless, honest, third = (Peer(buffers, "shop") for _ in range(3))
    endless.send(frame(LARGE, fin=False))
    honest.send(frame(LARGE)[:-1])
    endless.send(sign_of_life)
    third.send(frame(LARGE)[:-1])
    assert (endless.ended, honest.ended) == (Code.OVERLOADED, None)


async def test_whose_messages_in_pieces_become_whole_is_put_off() -> None:
    buffers = ReadBuffers(300_000)
    busy, slow, third = (Peer(buffers, "shop") for _ in range(3))
    busy.send(frame(LARGE, fin=False))
    slow.send(frame(LARGE)[:-1])
    busy.send(frame(b"", 0) + frame(b"and on", fin=False))
    third.send(frame(LARGE)[:-1])
    assert (busy.ended, slow.ended) == (None, Code.OVERLOADED)
    assert busy.messages == [LARGE]


@pytest.mark.parametrize("seed", range(5))
async def test_random_messages_in_random_pieces_arrive_byte_for_byte(seed: int) -> None:
    """While there is room for a few of them only; who is cut off for that is told so."""
    chance = random.Random(seed)
    buffers = ReadBuffers(600_000)
    peers = [Peer(buffers, f"h{n % 3}") for n in range(8)]
    sent: dict[Peer, list[bytes]] = {peer: [] for peer in peers}
    waiting: dict[Peer, bytes] = dict.fromkeys(peers, b"")
    for _ in range(3_000):
        peer = chance.choice(peers)
        if peer.ended is not None:
            assert peer.ended is Code.OVERLOADED
            assert peer.messages == sent[peer][: len(peer.messages)]
            peers.remove(peer)
            peers.append(peer := Peer(buffers, peer.wire.protocol.hub))
            sent[peer], waiting[peer] = [], b""
        if not waiting[peer]:
            size_bytes = chance.choice((0, 30, 125, 126, 3_000, 20_000, 65_535, 65_536, 90_000))
            message = chance.randbytes(size_bytes)
            sent[peer].append(message)
            waiting[peer] = _pieces(chance, message)
        data = waiting[peer]
        count = chance.choice((1, 2, 5, 14, 200, 5_000, 60_000, len(data)))
        peer.send(data[:count])
        waiting[peer] = data[count:]
        assert buffers.held_bytes <= 600_000
    for peer in peers:
        if peer.ended is None:
            peer.send(waiting[peer])
        if peer.ended is None:
            assert peer.messages == sent[peer]
    assert buffers.shrunk > 20, "there was too much room to see anything"


def _pieces(chance: random.Random, message: bytes) -> bytes:
    """Its frames: one, or some with pings between."""
    cuts = sorted(chance.randint(0, len(message)) for _ in range(chance.choice((0, 0, 1, 5))))
    starts, ends = [0, *cuts], [*cuts, len(message)]
    out = b""
    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        out += frame(message[start:end], 0 if at else BINARY.value, fin=at == len(cuts))
        if at < len(cuts) and chance.random() < 0.3:
            out += frame(chance.randbytes(chance.randint(0, 125)), 0x9)
    return out


@pytest.mark.parametrize("rest", [b"", frame(b"another")], ids=["alone", "and another"])
async def test_a_frame_that_was_refused_for_its_size_is_not_received_all_the_same(
    rest: bytes,
) -> None:
    """It was, once all of it had come before the connection was closed for it."""
    peer = Peer(ReadBuffers(0), "shop")
    peer.send(frame(b"x" * (MESSAGE_BYTES_MAX + 1)) + rest)
    assert peer.messages == []


@pytest.mark.parametrize("bad", [b"\x83\x80\0\0\0\0", b"\x82\x01x"], ids=["opcode", "no mask"])
async def test_nothing_behind_a_malformed_frame_is_looked_at(
    bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    peer = Peer(ReadBuffers(0), "shop")
    peer.send(bad)
    written_len, lines_len = len(peer.wire.written), len(caplog.records)
    for _ in range(10):
        peer.send(frame(b"x"))
    assert peer.messages == []
    assert (len(peer.wire.written), len(caplog.records)) == (written_len, lines_len)
