"""A WebSocket client on a bare socket, which reads exactly as much as it is told to."""

import asyncio
import base64
import os
import socket
import struct

from arauto.codec.events import Event, Request, SubscribeItem, SubscribeReply, SubscribeRequest
from arauto.codec.proto import ProtoCodec

__all__ = ["RawReader"]

_CODEC = ProtoCodec()
_BINARY, _CLOSE = 0x2, 0x8


class RawReader:
    """One connection. Its receive buffer is as small as the system allows, so it is full soon."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self._socket.setblocking(False)
        self._buffer = b""

    async def open(self, port: int, hub: str, channel: str) -> None:
        """Connect and subscribe."""
        loop = asyncio.get_running_loop()
        await loop.sock_connect(self._socket, ("127.0.0.1", port))
        key = base64.b64encode(os.urandom(16)).decode()
        await self._send(
            f"GET /v1/ws?hub={hub} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n"
            f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
            f"Sec-WebSocket-Protocol: {_CODEC.name}\r\n\r\n".encode()
        )
        while b"\r\n\r\n" not in self._buffer:
            await self._fill()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101"), head
        await self._request(SubscribeRequest(id=1, items=(SubscribeItem(channel=channel),)))
        while not isinstance(await self._next_event(), SubscribeReply):
            pass

    async def read_byte(self) -> bool:
        """Read one byte; False if the connection has ended."""
        try:
            await self._fill(1)
        except ConnectionError:
            return False
        return True

    async def drain(self) -> int:
        """Read to the end; return the close code if one came, 0 if the connection was just cut."""
        try:
            while True:
                opcode, payload = await self._next_frame()
                if opcode == _CLOSE:
                    return int(struct.unpack("!H", payload[:2])[0])
        except ConnectionError:
            return 0

    def close(self) -> None:
        self._socket.close()

    async def _request(self, request: Request) -> None:
        data = _CODEC.encode_request(request)
        assert len(data) < 126
        # A mask of zeros leaves the data as they are.
        await self._send(bytes((0x80 | _BINARY, 0x80 | len(data), 0, 0, 0, 0)) + data)

    async def _send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def _next_event(self) -> Event:
        _, payload = await self._next_frame()
        return _CODEC.decode_event(payload)

    async def _next_frame(self) -> tuple[int, bytes]:
        head = await self._take(2)
        size = head[1]
        if size == 126:
            size = struct.unpack("!H", await self._take(2))[0]
        elif size == 127:
            size = struct.unpack("!Q", await self._take(8))[0]
        return head[0] & 0x0F, await self._take(size)

    async def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            await self._fill()
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    async def _fill(self, size_max: int = 65_536) -> None:
        data = await asyncio.get_running_loop().sock_recv(self._socket, size_max)
        if not data:
            raise ConnectionResetError("ended")
        self._buffer += data
