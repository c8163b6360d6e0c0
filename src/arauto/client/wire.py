"""One WebSocket: records in, records out. Knows the codec, nothing of sessions.

picows hands over raw frames; fragments are put together within a limit. Everything runs in
callbacks on the event loop; there is no task per connection or per message.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import cast

from picows import (
    WSCloseCode,
    WSError,
    WSFrame,
    WSHandshakeError,
    WSListener,
    WSMsgType,
    WSTransport,
    ws_connect,
)
from picows.url import WSParsedURL

from arauto.client.failures import ConnectionLostError, from_close, from_http
from arauto.codec.base import Codec
from arauto.codec.events import Event, Request
from arauto.codec.websocket import Assembler
from arauto.errors import ArautoError, Code, DisconnectError

__all__ = ["Wire", "open_wire"]

_log = logging.getLogger("arauto.client")
#: What the WebSocket library says of each connection is for who looks for its faults; a level can be set.
_library_log = _log.getChild("wire")
if _library_log.level == logging.NOTSET:
    _library_log.setLevel(logging.WARNING)

#: Transport bytes beyond which requests wait in the bounded queue instead.
_WRITE_HIGH_BYTES = 262_144


class Wire(WSListener):
    """The listening side of one connection. After `on_lost` nothing more is reported."""

    def __init__(
        self,
        codec: Codec,
        on_event: Callable[[Event], None],
        on_lost: "Callable[[Wire, ArautoError], None]",
        on_writable: Callable[[], None],
        message_bytes_max: int,
    ) -> None:
        self._codec = codec
        self._on_event = on_event
        self._on_lost = on_lost
        self._on_writable = on_writable
        self._message_bytes_max = message_bytes_max
        self._kind = WSMsgType.TEXT if codec.is_text else WSMsgType.BINARY
        self._transport: WSTransport | None = None
        self._assembler: Assembler | None = None
        """There while a message in fragments is under way."""
        self._error: ArautoError | None = None
        self.is_lost = False
        self._is_writable = True
        self.heard = False
        """Set by every frame that comes in; the heartbeat clears it."""
        self.spoke = False
        """Set by every record that goes out; the heartbeat clears it."""

    # --- towards the node --------------------------------------------------------------------------

    @property
    def takes_more(self) -> bool:
        """Whether sending is worth while: connected, not closing, and its buffer not full."""
        transport = self._transport
        return (
            transport is not None
            and self._is_writable
            and not self.is_lost
            and not transport.underlying_transport.is_closing()
        )

    def send(self, request: Request) -> None:
        """Write one record. Does nothing once the connection is lost.

        Raises:
            ArautoError: BAD_FIELD if the request breaks a rule of the protocol; nothing was written.
        """
        transport = self._transport
        if transport is None or self.is_lost or transport.underlying_transport.is_closing():
            return
        try:
            data = self._codec.encode_request(request)
        except ArautoError:
            raise
        except Exception as error:
            # Whatever a caller slipped in: its request alone fails, not those that leave beside it.
            text = f"the request cannot be written: {error}"
            raise ArautoError(Code.BAD_FIELD, text) from error
        self.spoke = True
        transport.send(self._kind, data)

    def close(self) -> None:
        """Start the closing handshake; `on_lost` follows when the node answered or hung up."""
        if self._transport is not None and not self.is_lost:
            self._transport.send_close(WSCloseCode.OK)

    def abort(self, error: ArautoError) -> None:
        """Hang up at once, for the reason given."""
        if self.is_lost:
            return
        self._error = self._error or error
        if self._transport is not None:
            self._transport.disconnect(False)

    async def wait_lost(self) -> None:
        """Wait until the connection is gone for good."""
        if self._transport is not None:
            # What picows raises here was reported through `on_lost` already.
            with contextlib.suppress(WSError, OSError):
                await self._transport.wait_disconnected()

    # --- picows calls these ------------------------------------------------------------------------

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        transport.underlying_transport.set_write_buffer_limits(high=_WRITE_HIGH_BYTES)
        if self._error is not None:
            transport.disconnect(False)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        self.heard = True
        kind = frame.msg_type
        if kind == self._kind and frame.fin and self._assembler is None:
            self._receive(frame.get_payload_as_bytes())
        elif kind == WSMsgType.CLOSE:
            self._receive_close(transport, frame)
        elif kind in (WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.CONTINUATION):
            self._receive_fragment(frame)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        self._on_lost(self, self._error or ConnectionLostError("the connection broke"))

    def pause_writing(self) -> None:
        self._is_writable = False

    def resume_writing(self) -> None:
        self._is_writable = True
        self._on_writable()

    # --- from the node -----------------------------------------------------------------------------

    def _receive(self, data: bytes) -> None:
        try:
            event = self._codec.decode_event(data)
        except ArautoError as error:
            if error.code is Code.UNKNOWN_EVENT:
                # A newer node may say more than this version understands.
                _log.info("ignored an event: %s", error)
                return
            self._abort_nonsense(error)
            return
        self._on_event(event)

    def _receive_fragment(self, frame: WSFrame) -> None:
        if self._assembler is None:
            self._assembler = Assembler(self._message_bytes_max)
        try:
            done = self._assembler.feed(
                frame.msg_type.value, frame.get_payload_as_bytes(), fin=bool(frame.fin)
            )
        except DisconnectError as error:
            self._abort_nonsense(error)
            return
        if done is None:
            return
        self._assembler = None
        opcode, data = done
        if opcode == self._kind.value:
            self._receive(data)
        else:
            self._abort_nonsense("text and binary are mixed up")

    def _abort_nonsense(self, what: object) -> None:
        self.abort(ConnectionLostError(f"the node sent nonsense: {what}", Code.SERVER_ERROR))

    def _receive_close(self, transport: WSTransport, frame: WSFrame) -> None:
        body = frame.get_payload_as_bytes()
        reason = body[2:].decode(errors="replace")
        self._error = self._error or from_close(int.from_bytes(body[:2]), reason)
        if not transport.is_close_frame_sent:
            transport.send_close(WSCloseCode.OK)
        # Whoever says Close reads no more: do not wait for it to take what is still unsent.
        transport.disconnect(transport.underlying_transport.get_write_buffer_size() == 0)


async def open_wire(
    url: str,
    wire: Wire,
    *,
    subprotocol: str,
    headers: dict[str, str],
    timeout_s: float,
    frame_bytes_max: int,
    ssl_context: ssl.SSLContext | None,
) -> None:
    """Connect a wire. Events may be reported before this returns.

    Raises:
        ArautoError: the node cannot be reached, did not answer in time, or refused.
    """
    opened: list[socket.socket] = []

    async def connect(target: WSParsedURL) -> socket.socket:
        sock = await _connect(target.host, target.port)
        opened.append(sock)
        return sock

    try:
        await ws_connect(
            lambda: wire,
            url,
            ssl_context=ssl_context,
            websocket_handshake_timeout=timeout_s,
            logger_name=_library_log,
            max_frame_size=frame_bytes_max,
            extra_headers={"Sec-WebSocket-Protocol": subprotocol, **headers},
            max_redirects=0,
            socket_factory=connect,
        )
    except BaseException as error:
        for sock in opened:
            # Whoever was cancelled here leaves a transport that waits for the handshake: end it.
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        translated = _translate(error)
        if translated is None:
            raise
        raise translated from error
    if wire._transport is None:
        raise ConnectionLostError("the node hung up during the handshake")
    agreed = wire._transport.response.headers.get("Sec-WebSocket-Protocol")
    if agreed != subprotocol:
        refusal = ArautoError(Code.HANDSHAKE_REFUSED, f"the node does not speak {subprotocol}")
        wire.abort(refusal)
        raise refusal


def _translate(error: BaseException) -> ArautoError | None:
    if isinstance(error, WSHandshakeError) and error.response is not None:
        return from_http(int(error.response.status), error.raw_body or b"")
    if isinstance(error, TimeoutError):
        return ConnectionLostError("the node did not answer the handshake in time")
    if isinstance(error, ssl.SSLCertVerificationError):
        return ArautoError(Code.HANDSHAKE_REFUSED, f"the certificate is not trusted: {error}")
    if isinstance(error, OSError):
        return ConnectionLostError(f"the node cannot be reached: {error}")
    if isinstance(error, WSError):
        return ArautoError(Code.HANDSHAKE_REFUSED, str(error))
    return None


async def _connect(host: str, port: int) -> socket.socket:
    """A connected socket to the first address that answers."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure = OSError(f"no address for {host}")
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, cast("tuple[str, int]", address))
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure
