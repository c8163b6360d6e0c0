"""Bytes on a socket, as an attacker would send them."""

import asyncio
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.integration.conftest import RunningNode
from tests.integration.session.talk import publish, subscribed
from tests.integration.wire import Wire, connect

__all__ = ["KEY", "Raw", "frame", "hold_steady", "opened", "resident_bytes", "upgraded", "witness"]

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
_TIMEOUT_S = 15.0


def frame(payload: bytes, opcode: int = 0x2, *, fin: bool = True, rsv: int = 0) -> bytes:
    """A client's frame, masked with zeros."""
    first = (0x80 if fin else 0) | (rsv << 4) | opcode
    size_bytes = len(payload)
    if size_bytes < 126:
        head = bytes((first, 0x80 | size_bytes))
    elif size_bytes < 65_536:
        head = struct.pack(">BBH", first, 0x80 | 126, size_bytes)
    else:
        head = struct.pack(">BBQ", first, 0x80 | 127, size_bytes)
    return head + b"\x00" * 4 + payload


class Raw:
    """One TCP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        with suppress(ConnectionError):  # refused before all of it was sent
            await self.writer.drain()

    async def until_closed(self) -> bytes:
        """Everything that still comes."""
        data = b""
        async with asyncio.timeout(_TIMEOUT_S):
            with suppress(ConnectionError):
                while piece := await self.reader.read(65_536):
                    data += piece
        return data

    async def frame(self) -> tuple[int, bytes]:
        """The opcode and payload of the next frame from the server."""
        async with asyncio.timeout(_TIMEOUT_S):
            first, size_bytes = await self.reader.readexactly(2)
            if size_bytes == 126:
                (size_bytes,) = struct.unpack(">H", await self.reader.readexactly(2))
            elif size_bytes == 127:
                (size_bytes,) = struct.unpack(">Q", await self.reader.readexactly(8))
            return first & 0x0F, await self.reader.readexactly(size_bytes)

    async def close_code(self) -> int:
        """The code of the close frame, past whatever comes before it; 0 if the socket just ends."""
        try:
            while True:
                opcode, payload = await self.frame()
                if opcode == 0x8:
                    return int.from_bytes(payload[:2], "big")
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


@asynccontextmanager
async def opened(node: RunningNode) -> AsyncIterator[Raw]:
    raw = Raw(*await asyncio.open_connection("127.0.0.1", node.port))
    try:
        yield raw
    finally:
        await raw.close()


@asynccontextmanager
async def upgraded(
    node: RunningNode, flavour: str = "arauto.v1.proto", hub: str = "shop", headers: str = ""
) -> AsyncIterator[Raw]:
    """A WebSocket after its handshake and its first event."""
    async with opened(node) as raw:
        await raw.send(
            f"GET /v1/ws?hub={hub} HTTP/1.1\r\nHost: 127.0.0.1:{node.port}\r\n"
            f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Protocol: {flavour}\r\n{headers}\r\n".encode()
        )
        async with asyncio.timeout(_TIMEOUT_S):
            head = await raw.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 "), head
        await raw.frame()
        yield raw


def resident_bytes() -> int:
    """Memory this process (the node runs in it) holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@asynccontextmanager
async def witness(node: RunningNode) -> AsyncIterator[Wire]:
    """A well-behaved client beside an attack: it must be connected and receiving afterwards (T12)."""
    wire = await connect(node.url)
    await subscribed(wire, "witness")
    yield wire
    wire.send(publish("witness", b"still here"))
    assert await wire.messages(1) == [b"still here"]
    assert not wire.closed.is_set()
    await wire.close()


async def hold_steady(node: RunningNode, connections: int = 0) -> None:
    """Wait until the node counts no more connections than there are."""
    async with asyncio.timeout(_TIMEOUT_S):
        while node.node.port.admission.count != connections:  # noqa: ASYNC110 - it counts, it does not tell
            await asyncio.sleep(0.01)
