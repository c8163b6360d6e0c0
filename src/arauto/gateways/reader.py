"""Bytes of a WebSocket connection on their way to picows, and how much of them is kept.

picows reads into a buffer per connection that doubles whenever it fills up and never gets smaller. Here it is
told how much to read at a time, so that the buffer ends at what the largest message needs; what it takes
beyond its first size is counted (`buffers.py`); and it can be had small again, by beginning anew behind a
handshake that nobody sees.
"""

import logging
from typing import Any, cast

from picows import WSAutoPingStrategy, WSUpgradeResponse, WSUpgradeResponseWithListener
from picows.picows import WSProtocol  # type: ignore[attr-defined]

from arauto.errors import Code
from arauto.gateways.buffers import ReadBuffers
from arauto.gateways.framing import FramedConnection
from arauto.gateways.guard import Upgrade

__all__ = ["FrameReader", "take_over"]

#: picows makes a logger per connection out of a plain Logger; an adapter is shared as it is.
_log = logging.LoggerAdapter(logging.getLogger("picows.server"), {})

#: What picows keeps free behind the buffer, and the least size it makes one.
_SPARE_BYTES = 256
_SIZE_MIN = 2_048
#: A buffer of this size holds all that many small messages need; larger only for a message that is larger.
_PLENTY_BYTES = 65_536
_HEADER_BYTES = 14
#: Where the bytes of a connection go that is not listened to any more.
_nowhere = memoryview(bytearray(_PLENTY_BYTES))

_WHY = "messages that were begun and not ended take too much room"

_REQUEST = (
    b"GET / HTTP/1.1\r\nHost: arauto\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n"
)


class _Behind:
    """A connection's transport, for a parser that begins anew: the handshake was answered long ago."""

    __slots__ = ("_real", "is_open")

    def __init__(self, real: Any) -> None:
        self._real = real
        self.is_open = False

    def write(self, data: bytes) -> None:
        if self.is_open:
            self._real.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class FrameReader(WSProtocol):  # type: ignore[misc]
    """What the transport reads into. A `Holder`."""

    __slots__ = (
        "_buffers",
        "_connection",
        "_first_bytes",
        "_fragments_bytes",
        "_has_finished",
        "_is_deaf",
        "_message_bytes_max",
        "_real",
        "_room_bytes",
        "_size_bytes",
        "_subprotocol",
        "held_bytes",
        "hub",
    )

    def __init__(
        self,
        connection: FramedConnection,
        hub: str,
        subprotocol: str,
        buffers: ReadBuffers,
        *,
        read_buffer_bytes: int,
        message_bytes_max: int,
    ) -> None:
        self._connection = connection
        self._subprotocol = subprotocol
        self._buffers = buffers
        self._message_bytes_max = message_bytes_max
        self._first_bytes = max(read_buffer_bytes, _SIZE_MIN) - _SPARE_BYTES
        self._fragments_bytes = 0
        self._has_finished = False
        """Whether a message that came in pieces has become whole with what was read last."""
        self._is_deaf = False
        self._real: Any = None
        self.hub = hub
        self.held_bytes = 0
        self._reset()

    def _reset(self) -> None:
        self._size_bytes = self._room_bytes = self._first_bytes
        super().__init__(
            None, None, False, self._accept, _log, True, None, False, 20, 20,
            WSAutoPingStrategy.PING_WHEN_IDLE, False, self._message_bytes_max, None,
            self._first_bytes + _SPARE_BYTES,
        )  # fmt: skip

    def _accept(self, _: object) -> WSUpgradeResponseWithListener:
        extra = [("Sec-WebSocket-Protocol", self._subprotocol)] if self._subprotocol else None
        response = WSUpgradeResponse.create_101_response(extra)
        return WSUpgradeResponseWithListener(response, self._connection)

    def connection_made(self, transport: Any) -> None:
        if self._real is None:
            self._real = transport
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._buffers.give_all(self)
        super().connection_lost(exc)
        # They would keep each other until somebody looks for such circles.
        self._connection.reader = None

    # --- reading -----------------------------------------------------------------------------------

    def get_buffer(self, size_hint: int) -> memoryview:
        if self._is_deaf:
            return _nowhere[:]
        room = cast(memoryview, WSProtocol.get_buffer(self, size_hint))
        self._room_bytes = len(room)
        if self._size_bytes >= _PLENTY_BYTES:
            return self._measured(room)
        return room

    def _measured(self, room: memoryview) -> memoryview:
        """Of a large buffer so much that it does not grow, unless it is the message that is larger."""
        size_bytes = self._size_bytes
        kept_bytes = size_bytes - len(room)
        most_bytes = size_bytes * 9 // 10 - _SPARE_BYTES
        largest_fits = most_bytes >= self._message_bytes_max + _HEADER_BYTES
        if largest_fits or kept_bytes < size_bytes // 2:
            if kept_bytes < most_bytes:
                return room[: most_bytes - kept_bytes]
            # No message is that large: picows has refused it, and goes on gathering until the end.
            self._is_deaf = True
            return _nowhere[:]
        return room

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_deaf:
            return
        size_bytes = self._size_bytes
        end = size_bytes - self._room_bytes + nbytes
        # As picows does.
        if 100 * end // size_bytes > 90 or size_bytes - end <= _SPARE_BYTES:
            if not self._buffers.take(self, size_bytes):
                self.cut_off()
                return
            self._size_bytes = size_bytes * 2
        self._has_finished = False
        WSProtocol.buffer_updated(self, nbytes)
        if self._connection.is_refused:
            # picows goes on reading until it closes, a moment later: also the frame that it has refused.
            self._is_deaf = True
        if self.held_bytes:
            self._look(end)

    def _look(self, end: int) -> None:
        kept_bytes = self._size_bytes - len(WSProtocol.get_buffer(self, -1))
        if self._is_deaf:
            return
        if kept_bytes < end and (self._has_finished or not self._fragments_bytes):
            is_idle = not kept_bytes and not self._fragments_bytes
            self._buffers.went_on(self, is_idle=is_idle)
        else:
            # The beginning of a message waits in what may have been idle; or another piece of it came, or a
            # ping between the pieces, which ends nothing.
            self._buffers.began(self)

    def hold_fragments(self, size_bytes: int) -> bool:
        """So much of a message that comes in pieces is held; False if the connection was cut off for it."""
        more_bytes = size_bytes - self._fragments_bytes
        if more_bytes <= 0:
            if more_bytes:
                self._has_finished = True
                self._buffers.give(self, -more_bytes)
        elif not self._buffers.take(self, more_bytes):
            self._is_deaf = True
            self._connection.cut_off(Code.OVERLOADED, _WHY)
            return False
        self._fragments_bytes = size_bytes
        return True

    # --- letting go --------------------------------------------------------------------------------

    def shrink(self) -> None:
        """See `Holder`. Never from within its own `buffer_updated`."""
        if self._real.is_closing():
            return  # it goes with the connection
        behind = _Behind(self._real)
        self._reset()
        self.connection_made(behind)
        _feed(self, _REQUEST)
        behind.is_open = True

    def cut_off(self) -> None:
        """See `Holder`."""
        self._fragments_bytes = 0
        self._buffers.give_all(self)
        self._connection.cut_off(Code.OVERLOADED, _WHY)
        self.shrink()
        self._is_deaf = True


def take_over(
    request: Upgrade,
    headers: dict[bytes, bytes],
    subprotocol: str,
    listener: FramedConnection,
    buffers: ReadBuffers,
    *,
    hub: str = "",
    read_buffer_bytes: int,
    message_bytes_max: int,
) -> None:
    """Give the transport to picows, with the upgrade request it has to answer."""
    reader = FrameReader(
        listener,
        hub,
        subprotocol,
        buffers,
        read_buffer_bytes=read_buffer_bytes,
        message_bytes_max=message_bytes_max,
    )
    listener.reader = reader
    # picows keeps the request it parses as long as the connection lives, so it gets a short one.
    wanted = (b"upgrade", b"connection", b"sec-websocket-key", b"sec-websocket-version")
    lines = [name + b": " + headers[name] + b"\r\n" for name in wanted if name in headers]
    data = b"GET / HTTP/1.1\r\nHost: arauto\r\n" + b"".join(lines) + b"\r\n"
    reader.connection_made(request.transport)
    request.transport.set_protocol(reader)
    _feed(reader, data)
    if not listener.is_connected:
        # picows refused the handshake, and tells its listener nothing of it.
        request.leave()
    elif request.early:
        _feed(reader, request.early)


def _feed(reader: FrameReader, data: bytes) -> None:
    while data:
        room = reader.get_buffer(len(data))
        piece, data = data[: len(room)], data[len(room) :]
        room[: len(piece)] = piece
        room.release()
        reader.buffer_updated(len(piece))
