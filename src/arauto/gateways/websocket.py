"""The WebSocket gateway: upgrade requests become sessions, messages become requests."""

import re
from collections.abc import Callable
from urllib.parse import urlsplit

import structlog
from picows import WSMsgType

from arauto.codec.events import ErrorEvent
from arauto.config.edges import WsConfig
from arauto.errors import ArautoError, Code
from arauto.gateways.buffers import ReadBuffers
from arauto.gateways.framing import BINARY, TEXT, FramedConnection
from arauto.gateways.guard import Upgrade, response
from arauto.gateways.pages import Page, Pages
from arauto.gateways.query import is_strict, last, read_query
from arauto.gateways.reader import take_over
from arauto.hub.fanout import Format
from arauto.hub.hub import Hub
from arauto.hub.refusals import Asker
from arauto.model import Identity
from arauto.session.auth.tokens import bearer_of
from arauto.session.environment import SessionEnvironment
from arauto.session.identify import enter
from arauto.session.session import Session

__all__ = ["WebSocketConnection", "WebSocketGateway"]

_log = structlog.get_logger("arauto.gateways")

_QUERY_LEN_MAX = 20
#: Pings that are answered of those that came before the session; RFC 6455 wants the last one answered.
_EARLY_PONGS_MAX = 16
_KEY = re.compile(rb"[A-Za-z0-9+/]{22}==\Z")


class WebSocketGateway:
    """Turns upgrade requests into sessions."""

    def __init__(
        self,
        env: SessionEnvironment,
        formats: dict[str, Format],
        *,
        pages: Pages,
        limits: WsConfig,
    ) -> None:
        """`formats` by subprotocol; the first is used where the client names none."""
        self.env = env
        self._formats = formats
        self._default = next(iter(formats.values()))
        self._pages = pages
        self.send_buffer_bytes = limits.send_buffer_bytes
        self.message_bytes_max = limits.max_message_bytes
        self.fragments_max = limits.max_fragments
        self._read_buffer_bytes = limits.read_buffer_bytes
        self.buffers = ReadBuffers(limits.read_buffers_bytes_max)
        self.connections: dict[WebSocketConnection, None] = {}

    def upgrade(self, request: Upgrade) -> bytes | None:
        """An `UpgradeHandler`: take the transport over, or return the response that refuses."""
        try:
            target = urlsplit(request.target.decode("latin-1"))
        except ValueError:
            return self._deny(request, "", _refused("the address is malformed"), 400)
        if target.path != "/v1/ws":
            return self._deny(request, "", _refused("WebSocket lives at /v1/ws"), 404)
        try:
            query = read_query(target.query.encode("latin-1"), _QUERY_LEN_MAX)
            is_strict(query)
        except ArautoError as error:
            return self._deny(request, "", error, 400)
        hub = last(query, "hub")
        headers = dict(request.headers)
        if headers.get(b"sec-websocket-version") != b"13":
            old = _refused("speak version 13 of the WebSocket protocol")
            return self._deny(request, hub, old, 426, b"Sec-WebSocket-Version: 13\r\n")
        if not _KEY.match(headers.get(b"sec-websocket-key", b"")):
            no_key = _refused("Sec-WebSocket-Key is 16 bytes in base64")
            return self._deny(request, hub, no_key, 400)
        page = _page(headers, request.secure, hub)
        try:
            self._pages.check_host(page.host)
        except ArautoError as error:
            return self._deny(request, hub, error)
        welcome = self._pages.is_welcome_now(page)
        if welcome is None:
            # Only the hub's settings say, and they have to be read.
            request.transport.pause_reading()
            self.env.hub.tasks.spawn(self._upgrade_later(request, page, query, headers))
            return None
        if not welcome:
            return self._deny(request, hub, self._pages.denial(page))
        return self._accept(request, query, headers)

    async def _upgrade_later(
        self,
        request: Upgrade,
        page: Page,
        query: dict[str, list[str]],
        headers: dict[bytes, bytes],
    ) -> None:
        try:
            welcome = await self._pages.is_welcome(page)
            if request.transport.is_closing():
                request.leave()
                return
            request.transport.resume_reading()
            if welcome:
                refusal = self._accept(request, query, headers)
            else:
                refusal = self._deny(request, page.hub, self._pages.denial(page))
        except BaseException:
            # Whatever it is; unread and unanswered, the connection would stay for ever.
            request.leave()
            request.transport.abort()
            raise
        if refusal is not None:
            request.leave()
            request.transport.write(refusal)
            request.transport.close()

    def _deny(
        self,
        request: Upgrade,
        hub: str,
        error: ArautoError,
        status: int = 403,
        headers: bytes = b"",
    ) -> bytes:
        asker = Asker(transport="websocket", address=request.address)
        self.env.refusals_of(hub).note(error, asker, request="connect")
        return response(status, error.code, error.told, field=error.field, headers=headers)

    def _accept(
        self, request: Upgrade, query: dict[str, list[str]], headers: dict[bytes, bytes]
    ) -> bytes | None:
        hub = last(query, "hub")
        # As many headers as the client likes, which are one list (RFC 6455, section 11.3.4).
        lines = [value for name, value in request.headers if name == b"sec-websocket-protocol"]
        offer = b",".join(lines).decode("latin-1")
        offered = [name.strip() for name in offer.split(",") if name.strip()]
        chosen = next((name for name in offered if name in self._formats), "")
        if offered and not chosen:
            known = " or ".join(self._formats)
            return self._deny(request, hub, _refused(f"offer the subprotocol {known}"), 400)
        token = last(query, "token") or bearer_of(
            headers.get(b"authorization", b"").decode("latin-1")
        )
        format = self._formats[chosen] if chosen else self._default
        connection = WebSocketConnection(
            self, hub, token, format, request.address, request.leave, is_strict=is_strict(query)
        )
        take_over(
            request,
            headers,
            chosen,
            connection,
            self.buffers,
            hub=hub,
            read_buffer_bytes=self._read_buffer_bytes,
            message_bytes_max=self.message_bytes_max,
        )
        return None

    def drain(self, code: Code, reason: str) -> None:
        """Ask every client to go elsewhere."""
        for connection in list(self.connections):
            connection.end(code, reason)


def _refused(rule: str) -> ArautoError:
    return ArautoError(Code.HANDSHAKE_REFUSED, rule)


def _page(headers: dict[bytes, bytes], secure: bool, hub: str) -> Page:
    origin, host = headers.get(b"origin"), headers.get(b"host")
    return Page(
        origin.decode("latin-1") if origin is not None else None,
        host.decode("latin-1") if host is not None else None,
        secure=secure,
        hub=hub,
    )


class WebSocketConnection(FramedConnection):
    """One client. Implements the session's `Connection`."""

    __slots__ = (
        "_early",
        "_early_pongs",
        "_format",
        "_gateway",
        "_hub",
        "_is_strict",
        "_token",
        "_wanted",
        "address",
        "send_buffer_bytes",
        "session",
        "transport",
    )

    def __init__(
        self,
        gateway: WebSocketGateway,
        hub: str,
        token: str,
        format: Format,
        address: str,
        leave: Callable[[], None],
        *,
        is_strict: bool,
    ) -> None:
        super().__init__(
            gateway.env.hub.clock,
            message_bytes_max=gateway.message_bytes_max,
            fragments_max=gateway.fragments_max,
            leave=leave,
        )
        self._gateway = gateway
        self._hub = hub
        self._token = token
        self._format = format
        self._is_strict = is_strict
        self._wanted = TEXT if format.codec.is_text else BINARY
        self._early: list[bytes] | None = []
        """Messages that came before the session could be opened; None once it is."""
        self._early_pongs: tuple[bytes, ...] = ()
        self.address = address
        self.transport = "websocket"
        self.send_buffer_bytes = gateway.send_buffer_bytes
        self.session: Session | None = None

    # --- opening -----------------------------------------------------------------------------------

    def on_open(self) -> None:
        gateway = self._gateway
        gateway.connections[self] = None
        hub = gateway.env.directory.hubs.get(self._hub)
        if hub is not None and not self._token:
            try:
                self._begin(hub)
            except ArautoError as error:
                self._refuse(error)
        else:
            self.pause_reading()
            gateway.env.hub.tasks.spawn(self._open_later())

    def _begin(self, hub: Hub) -> None:
        self.session = Session(
            self._gateway.env, hub, self, self._format, is_strict=self._is_strict
        )
        self._start(self.session)

    def _start(self, session: Session, identity: Identity | None = None) -> None:
        early, self._early = self._early, None
        pongs, self._early_pongs = self._early_pongs, ()
        session.start(identity)
        for pong in pongs:
            session.outbox.put(pong)
        if identity is not None:
            session.restorable.give_key()
        for data in early or ():
            if not session.has_ended():
                session.receive(data)

    async def _open_later(self) -> None:
        """Check the token first, then open the hub, then the session."""
        env = self._gateway.env
        try:
            id = env.new_id()
            hub, identity = await enter(env, self._hub, id, self._token, self.address)
            self._token = ""
            if self.has_ended():
                return
            self.session = session = Session(
                env, hub, self, self._format, id=id, is_strict=self._is_strict
            )
            self._start(session, identity)
        except ArautoError as error:
            self._refuse(error)
            return
        except Exception:
            # Ours to mend; unread and unanswered, the connection would stay for ever.
            _log.exception("a session could not be opened", hub=self._hub)
            self.end(Code.SERVER_ERROR, "the server failed to open the session")
            return
        if session.held_back() is None:  # else when those that came early are done
            self.resume_reading()

    def has_ended(self) -> bool:
        return self.closing

    def _refuse(self, error: ArautoError) -> None:
        asker = Asker(transport=self.transport, address=self.address)
        self._gateway.env.refusals_of(self._hub).note(error, asker, request="connect")
        event = ErrorEvent.of(error)
        if self.closing:
            return
        self.write(self._format.encode(event))
        code = Code.OVERLOADED if error.retryable else Code.HANDSHAKE_REFUSED
        if self.session is not None:
            self.session.closed(code)
        self.goodbye(code, error.told)

    # --- receiving ---------------------------------------------------------------------------------

    def on_message(self, kind: WSMsgType, data: bytes) -> None:
        if kind is not self._wanted:
            flavour = "text" if self._wanted is TEXT else "binary"
            self.end_for(Code.PROTOCOL_VIOLATION, f"this subprotocol uses {flavour} frames")
        elif self._early is not None:
            self._early.append(data)
        elif self.session is not None:
            self.session.receive(data)

    def on_violation(self, code: Code, reason: str) -> None:
        id, user = (self.session.id, self.session.user) if self.session is not None else ("", "")
        asker = Asker(id, user, self.transport, self.address)
        refusals = self._gateway.env.refusals_of(self._hub)
        refusals.note(ArautoError(code, reason), asker, request="frame")

    def on_alive(self) -> bool:
        # Before there is a session nothing more is read, so few can come.
        return self.session is None or self.session.heard()

    def on_pong(self, data: bytes) -> None:
        # Through the bounded outbox: pings of a client that does not read must not pile up.
        if self.session is not None:
            self.session.outbox.put(data)
        else:
            self._early_pongs = (*self._early_pongs, data)[-_EARLY_PONGS_MAX:]

    def on_end(self, code: Code) -> None:
        self._gateway.connections.pop(self, None)
        self._early = None
        if self.session is not None:
            self.session.outbox.flush()
            self.session.lost(code)

    def pause_writing(self) -> None:
        if self.session is not None:
            self.session.outbox.pause()

    def resume_writing(self) -> None:
        if self.session is not None:
            self.session.outbox.resume()

    # --- the session's Connection ------------------------------------------------------------------

    def end(self, code: Code, reason: str) -> None:
        """Tell the session's client why, then close."""
        if self.session is not None and not self.session.has_ended():
            self.session.disconnect(code, reason)
        else:
            self.goodbye(code, reason)

    def close(self, code: Code, reason: str) -> None:
        if self.session is not None:
            self.session.closed(code)
        self.goodbye(code, reason)

    def close_slow(self, code: Code, reason: str) -> None:
        self.close(code, reason)
