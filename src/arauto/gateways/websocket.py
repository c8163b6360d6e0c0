"""The WebSocket gateway: frames in, frames out. Everything else is the session's.

picows parses frames on the transport that the HTTP port hands over. Here messages are reassembled and text
is checked, pings are answered through the bounded outbox, and prebuilt frames are written as they are.
"""

import logging
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from picows import (
    WSAutoPingStrategy,
    WSFrame,
    WSListener,
    WSMsgType,
    WSTransport,
    WSUpgradeResponse,
    WSUpgradeResponseWithListener,
)
from picows.picows import WSProtocol  # type: ignore[attr-defined]

from arauto.codec.events import ErrorEvent
from arauto.codec.websocket import Assembler, close_code, close_payload, frame
from arauto.errors import ArautoError, Code, DisconnectError
from arauto.gateways.guard import Upgrade, response
from arauto.gateways.origin import is_allowed
from arauto.hub.fanout import Format
from arauto.hub.hub import Hub
from arauto.session.environment import SessionEnvironment
from arauto.session.identify import authenticate
from arauto.session.session import Session

__all__ = ["WebSocketConnection", "WebSocketGateway"]

#: picows makes a logger per connection out of a plain Logger; an adapter is shared as it is.
_picows_log = logging.LoggerAdapter(logging.getLogger("picows.server"), {})

_OP_CLOSE, _OP_PONG = 0x8, 0xA
_BINARY, _TEXT = WSMsgType.BINARY, WSMsgType.TEXT

#: How long a closing connection may take to say goodbye before it is cut.
_GOODBYE_S = 2.0


class WebSocketGateway:
    """Turns upgrade requests into sessions."""

    def __init__(
        self,
        env: SessionEnvironment,
        formats: dict[str, Format],
        *,
        allowed_origins: tuple[str, ...],
        message_bytes_max: int,
        fragments_max: int,
        read_buffer_bytes: int,
    ) -> None:
        """`formats` by subprotocol; the first is used where the client names none."""
        self.env = env
        self._formats = formats
        self._default = next(iter(formats.values()))
        self._allowed_origins = allowed_origins
        self.message_bytes_max = message_bytes_max
        self.fragments_max = fragments_max
        self._read_buffer_bytes = read_buffer_bytes
        self.connections: dict[WebSocketConnection, None] = {}

    def upgrade(self, request: Upgrade) -> bytes | None:
        """An `UpgradeHandler`: take the transport over, or return the response that refuses."""
        target = urlsplit(request.target.decode("latin-1"))
        if target.path != "/v1/ws":
            return response(404, "WebSocket lives at /v1/ws", code=int(Code.HANDSHAKE_REFUSED))
        query = parse_qs(target.query, max_num_fields=20)
        hub = query.get("hub", [""])[-1]
        headers = dict(request.headers)
        if not self._origin_allowed(headers, request.secure, hub):
            self.env.hub.metrics.node.refuse(int(Code.ORIGIN_DENIED))
            return response(
                403, "pages of this origin may not connect", code=int(Code.ORIGIN_DENIED)
            )
        offered = [
            p.strip()
            for p in headers.get(b"sec-websocket-protocol", b"").decode("latin-1").split(",")
        ]
        chosen = next((name for name in offered if name in self._formats), "")
        if offered != [""] and not chosen:
            known = " or ".join(self._formats)
            return response(400, f"offer the subprotocol {known}", code=int(Code.HANDSHAKE_REFUSED))
        token = query.get("token", [""])[-1] or _bearer(headers)
        format = self._formats[chosen] if chosen else self._default
        connection = WebSocketConnection(self, hub, token, format, request.address, request.leave)
        _take_over(
            request, headers, chosen, connection, self._read_buffer_bytes, self.message_bytes_max
        )
        return None

    def _origin_allowed(self, headers: dict[bytes, bytes], secure: bool, hub: str) -> bool:
        origin = headers.get(b"origin")
        if origin is None:
            return True
        host = headers.get(b"host")
        open_hub = self.env.directory.hubs.get(hub)
        allowed = self._allowed_origins
        if open_hub is not None:
            allowed += open_hub.state.settings.allowed_origins
        return is_allowed(
            origin.decode("latin-1"), host.decode("latin-1") if host else None, secure, allowed
        )

    def drain(self, code: Code, reason: str) -> None:
        """Ask every client to go elsewhere."""
        for connection in list(self.connections):
            connection.end(code, reason)


def _bearer(headers: dict[bytes, bytes]) -> str:
    kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _take_over(
    request: Upgrade,
    headers: dict[bytes, bytes],
    subprotocol: str,
    listener: WSListener,
    read_buffer_bytes: int,
    message_bytes_max: int,
) -> None:
    extra = [("Sec-WebSocket-Protocol", subprotocol)] if subprotocol else None

    def accept(_: object) -> WSUpgradeResponseWithListener:
        return WSUpgradeResponseWithListener(WSUpgradeResponse.create_101_response(extra), listener)

    protocol = WSProtocol(
        None, None, False, accept, _picows_log, True, None, False, 20, 20,
        WSAutoPingStrategy.PING_WHEN_IDLE, False,
        message_bytes_max, None, read_buffer_bytes,
    )  # fmt: skip
    # picows keeps the request it parses as long as the connection lives, so it gets a short one.
    wanted = (b"upgrade", b"connection", b"sec-websocket-key", b"sec-websocket-version")
    lines = [name + b": " + headers[name] + b"\r\n" for name in wanted if name in headers]
    data = b"GET / HTTP/1.1\r\nHost: arauto\r\n" + b"".join(lines) + b"\r\n"
    protocol.connection_made(request.transport)
    request.transport.set_protocol(protocol)
    while data:
        room = protocol.get_buffer(len(data))
        piece, data = data[: len(room)], data[len(room) :]
        room[: len(piece)] = piece
        room.release()
        protocol.buffer_updated(len(piece))


class WebSocketConnection(WSListener):
    """One client. Implements the session's `Connection`."""

    __slots__ = (
        "_assembler",
        "_closing",
        "_early",
        "_format",
        "_gateway",
        "_hub",
        "_leave",
        "_token",
        "_transport",
        "_wanted",
        "address",
        "session",
        "transport",
        "write",
    )

    def __init__(
        self,
        gateway: WebSocketGateway,
        hub: str,
        token: str,
        format: Format,
        address: str,
        leave: Callable[[], None],
    ) -> None:
        self._gateway = gateway
        self._hub = hub
        self._token = token
        self._format = format
        self._wanted = _TEXT if format.codec.is_text else _BINARY
        self._leave = leave
        self._transport: WSTransport | None = None
        self._assembler: Assembler | None = None
        self._early: list[bytes] | None = []
        """Messages that came before the session could be opened; None once it is."""
        self._closing = False
        self.address = address
        self.transport = "websocket"
        self.session: Session | None = None
        self.write: Callable[[bytes], None] = _write_nowhere

    # --- picows callbacks --------------------------------------------------------------------------

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        transport.request.headers = None  # type: ignore[assignment]
        transport.response.headers = None  # type: ignore[assignment]
        underlying = transport.underlying_transport
        underlying.set_write_buffer_limits(0)
        self.write = underlying.write
        self._gateway.connections[self] = None
        hub = self._gateway.env.directory.hubs.get(self._hub)
        if hub is not None and not self._token:
            self._open(hub)
        else:
            underlying.pause_reading()
            self._gateway.env.hub.tasks.spawn(self._open_later())

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        kind = frame.msg_type
        if (
            kind is self._wanted
            and frame.fin
            and self._assembler is None
            and not (frame.rsv1 or frame.rsv2 or frame.rsv3)
        ):
            data = frame.get_payload_as_bytes()
            if kind is _TEXT and not _is_utf8(data):
                self.end(Code.BAD_TEXT, "a text frame was not UTF-8")
                return
            self._message(data)
        else:
            self._odd_frame(frame)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._gateway.connections.pop(self, None)
        self._leave()
        if self.session is not None:
            self.session.closed(Code.CONNECTION_LOST)
        self._early = None
        self._closing = True

    def pause_writing(self) -> None:
        if self.session is not None:
            self.session.outbox.pause()

    def resume_writing(self) -> None:
        if self.session is not None:
            self.session.outbox.resume()

    # --- opening -----------------------------------------------------------------------------------

    def _open(self, hub: Hub) -> Session:
        session = Session(self._gateway.env, hub, self, self._format)
        self.session = session
        early, self._early = self._early, None
        session.start()
        for data in early or ():
            session.receive(data)
        return session

    async def _open_later(self) -> None:
        """Open the hub first, or check the token first, then the session."""
        env = self._gateway.env
        try:
            hub = await env.directory.get(self._hub)
            if self._closing:
                return
            session = Session(env, hub, self, self._format)
            self.session = session
            if self._token:
                await authenticate(session, self._token.encode())
                self._token = ""
            early, self._early = self._early, None
            if session.has_ended():
                return
            session.start()
            if session.identity is not None:
                session.give_restore_key()
            for data in early or ():
                session.receive(data)
        except ArautoError as error:
            self._refuse(error)
            return
        if not self._closing and self._transport is not None:
            self._transport.underlying_transport.resume_reading()

    def _refuse(self, error: ArautoError) -> None:
        self._gateway.env.hub.metrics.node.refuse(int(error.code))
        event = ErrorEvent(
            code=int(error.code),
            message=error.message,
            field=error.field,
            retryable=error.retryable,
        )
        if not self._closing:
            self.write(self._format.encode(event))
            code = Code.OVERLOADED if error.retryable else Code.HANDSHAKE_REFUSED
            self._goodbye(code, error.message)

    # --- receiving ---------------------------------------------------------------------------------

    def _message(self, data: bytes) -> None:
        session = self.session
        if self._early is not None:
            self._early.append(data)
        elif session is not None and not self._closing:
            session.receive(data)

    def _odd_frame(self, frame: WSFrame) -> None:
        kind = frame.msg_type
        if frame.rsv1 or frame.rsv2 or frame.rsv3:
            self.end(Code.PROTOCOL_VIOLATION, "reserved bits must be 0")
        elif kind is WSMsgType.CLOSE:
            self._on_close(frame)
        elif self._closing:
            return
        elif kind is WSMsgType.PING:
            self._on_ping(frame.get_payload_as_bytes())
        elif kind is WSMsgType.PONG:
            if self.session is not None:
                self.session.heard()
        else:
            self._on_fragment(frame)

    def _on_fragment(self, frame: WSFrame) -> None:
        if self._assembler is None:
            gateway = self._gateway
            self._assembler = Assembler(gateway.message_bytes_max)
        try:
            done = self._assembler.feed(
                frame.msg_type.value, frame.get_payload_as_bytes(), fin=bool(frame.fin)
            )
        except DisconnectError as error:
            self.end(error.code, error.message)
            return
        if done is None:
            return
        self._assembler = None
        opcode, data = done
        if opcode != self._wanted.value:
            flavour = "text" if self._wanted is _TEXT else "binary"
            self.end(Code.PROTOCOL_VIOLATION, f"this subprotocol uses {flavour} frames")
            return
        self._message(data)

    def _on_ping(self, payload: bytes) -> None:
        if self.session is not None:
            self.session.heard()
            self.session.outbox.put(frame(payload, _OP_PONG))

    def _on_close(self, frame: WSFrame) -> None:
        transport = self._transport
        if transport is None:
            return
        if not self._closing:
            self._closing = True
            if self.session is not None:
                self.session.outbox.flush()
                self.session.closed(Code.CONNECTION_LOST)
            self.write(_close_frame(frame))
        transport.disconnect()

    # --- the session's Connection ------------------------------------------------------------------

    def pause_reading(self) -> None:
        if self._transport is not None and not self._closing:
            self._transport.underlying_transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._closing:
            self._transport.underlying_transport.resume_reading()

    def end(self, code: Code, reason: str) -> None:
        """Tell the session's client why, then close."""
        if self.session is not None and not self.session.has_ended():
            self.session.disconnect(code, reason)
        else:
            self._goodbye(code, reason)

    def close(self, code: Code, reason: str) -> None:
        if self.session is not None:
            self.session.closed(code)
        self._goodbye(code, reason)

    def close_slow(self, code: Code, reason: str) -> None:
        self.close(code, reason)

    def _goodbye(self, code: Code, reason: str) -> None:
        if self._closing:
            return
        self._closing = True
        self._early = None
        self.write(frame(close_payload(close_code(code), reason), _OP_CLOSE))
        transport = self._transport
        if transport is not None:
            # The client answers with its own close frame; one that does not is cut off.
            underlying = transport.underlying_transport
            underlying.resume_reading()
            self._gateway.env.hub.clock.call_later(_GOODBYE_S, underlying.abort)


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _close_frame(received: WSFrame) -> bytes:
    """The answer to a close frame: its own code back."""
    payload = received.get_payload_as_bytes()
    return frame(payload[:2], _OP_CLOSE)


def _write_nowhere(data: bytes) -> None:
    """Before the handshake and after the end there is nobody to write to."""
