"""The SSE gateway: a one-way session whose channels are named in the URL.

`GET /v1/sse?hub=shop&channel=stock:42&channel=weather:*` with the token in `Authorization: Bearer` or
`token=`. `Last-Event-ID` (sent by browsers on reconnect) recovers what was missed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from arauto.codec.events import ErrorEvent, SubscribeItem, SubscribeRequest
from arauto.codec.sse import KEEPALIVE, StreamPositions, parse_last_event_id
from arauto.errors import ArautoError, Code
from arauto.gateways.pages import Page, Pages
from arauto.gateways.problems import answer_to, told
from arauto.gateways.query import last, read_query
from arauto.hub.fanout import Format
from arauto.hub.refusals import Asker
from arauto.model import Serial
from arauto.names import ALL_CHANNELS, is_wide, matches
from arauto.session.auth.tokens import bearer_of
from arauto.session.callers import caller_key
from arauto.session.cost import deciding_cost, items_cost
from arauto.session.environment import SessionEnvironment
from arauto.session.identify import admit_caller, enter
from arauto.session.session import Session
from arauto.session.subscribe import pointless

__all__ = ["SseGateway"]

_log = structlog.get_logger("arauto.gateways")

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]

_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    # Proxies that buffer would hold events back.
    (b"x-accel-buffering", b"no"),
]


#: How long a stream that ended may take to deliver the rest before it is cut.
_GOODBYE_S = 2.0


class _SseConnection:
    """One stream. Implements the session's `Connection`; `run` is the only writer."""

    __slots__ = (
        "_abort",
        "_chunks",
        "_cut",
        "_ended",
        "_wake",
        "address",
        "positions",
        "send_buffer_bytes",
        "session",
        "transport",
    )

    def __init__(self, address: str, send_buffer_bytes: int, abort: Callable[[], object]) -> None:
        self.address = address
        self.send_buffer_bytes = send_buffer_bytes
        self.transport = "sse"
        self.session: Session | None = None
        self.positions = StreamPositions({})
        self._chunks: list[bytes] = []
        self._wake = asyncio.Event()
        self._ended = False
        self._abort = abort
        self._cut: asyncio.TimerHandle | None = None

    def write(self, data: bytes) -> None:
        # One chunk is under way at a time; what comes meanwhile waits in the bounded outbox.
        self._chunks.append(data)
        self._wake.set()
        if self.session is not None:
            self.session.outbox.pause()

    def pause_reading(self) -> None:
        """Nothing is read from an SSE client."""

    def resume_reading(self) -> None:
        """Nothing is read from an SSE client."""

    def close(self, code: Code, reason: str) -> None:
        session = self.session
        if session is not None:
            if session.outbox.backlog_bytes:
                # Everything that waits is given up, but not the word why.
                farewell = ErrorEvent.of(ArautoError(code, reason), 0)
                self._chunks.append(session.outbox.format.encode(farewell))
            session.closed(code)
        self.end()

    def close_slow(self, code: Code, reason: str) -> None:
        self.close(code, reason)

    def end(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._wake.set()
        # A client that reads no more would keep its stream open for ever.
        self._cut = asyncio.get_running_loop().call_later(_GOODBYE_S, self._abort)

    def released(self) -> None:
        """The stream is over."""
        if self._cut is not None:
            self._cut.cancel()

    def give_up(self, code: Code) -> None:
        """The stream could not be opened."""
        if self.session is not None:
            self.session.closed(code)

    async def run(self, send: Send, keep_alive_s: float) -> None:
        """Send chunks as they come until the session ends."""
        while True:
            try:
                async with asyncio.timeout(keep_alive_s):
                    await self._wake.wait()
            except TimeoutError:
                await send({"type": "http.response.body", "body": KEEPALIVE, "more_body": True})
                self._heard()
                continue
            self._wake.clear()
            chunks, self._chunks = self._chunks, []
            if chunks:
                body = self.positions.rewrite(b"".join(chunks))
                await send({"type": "http.response.body", "body": body, "more_body": True})
                self._heard()
            if self._ended and not self._chunks:
                return
            if self.session is not None:
                self.session.outbox.resume()

    def _heard(self) -> None:
        if self.session is not None:
            self.session.heard()


class SseGateway:
    """An ASGI application for `GET /v1/sse`."""

    def __init__(
        self,
        env: SessionEnvironment,
        format: Format,
        *,
        pages: Pages,
        send_buffer_bytes: int,
        channels_max: int,
        keep_alive_s: float,
    ) -> None:
        self._env = env
        self._format = format
        self._pages = pages
        self._send_buffer_bytes = send_buffer_bytes
        self._channels_max = channels_max
        self._keep_alive_s = keep_alive_s
        self.connections: dict[_SseConnection, None] = {}

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        cors: list[tuple[bytes, bytes]] = []
        connection = _SseConnection(
            scope["client"][0] if scope["client"] else "",
            self._send_buffer_bytes,
            scope.get("arauto.abort", _nothing),
        )
        hub = ""
        try:
            query = self._query(scope)
            hub = last(query, "hub")
            cors = await self._check_origin(scope, headers, query)
            if scope["method"] == "OPTIONS":
                await send({"type": "http.response.start", "status": 204, "headers": cors})
                await send({"type": "http.response.body", "body": b""})
                return
            session = await self._open(connection, headers, query)
        except Exception as failure:
            error = told(failure)
            asker = Asker(transport="sse", address=connection.address)
            self._env.refusals_of(hub).note(error, asker, request="connect")
            connection.give_up(error.code)
            await _refuse(send, error, cors)
            return
        except BaseException:
            connection.give_up(Code.CONNECTION_LOST)
            raise
        self.connections[connection] = None
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS + cors})
        writer = asyncio.ensure_future(connection.run(send, self._keep_alive_s))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait([writer, gone], return_when=asyncio.FIRST_COMPLETED)
            if writer.done() and not gone.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self.connections.pop(connection, None)
            connection.released()
            session.lost(Code.CONNECTION_LOST)
            for task in (writer, gone):
                task.cancel()
            for outcome in await asyncio.gather(writer, gone, return_exceptions=True):
                if isinstance(outcome, Exception):  # ours to mend; it costs this stream only
                    _log.exception("a stream failed", hub=hub, exc_info=outcome)

    def drain(self, code: Code, reason: str) -> None:
        """Ask every client to go elsewhere."""
        for connection in list(self.connections):
            if connection.session is not None:
                connection.session.disconnect(code, reason)

    def _query(self, scope: dict[str, Any]) -> dict[str, list[str]]:
        if scope["method"] not in ("GET", "OPTIONS"):
            raise ArautoError(Code.BAD_FIELD, "use GET here", field="method")
        return read_query(scope["query_string"], self._channels_max + 10)

    async def _check_origin(
        self, scope: dict[str, Any], headers: dict[bytes, str], query: dict[str, list[str]]
    ) -> list[tuple[bytes, bytes]]:
        """The CORS headers of an allowed page; raises for others."""
        origin = headers.get(b"origin")
        secure = scope["scheme"] == "https"
        hub = last(query, "hub")
        page = Page(origin, headers.get(b"host"), secure=secure, hub=hub)
        await self._pages.check(page)
        if origin is None:
            return []
        return [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-allow-headers", b"authorization, last-event-id"),
            (b"vary", b"Origin"),
        ]

    async def _open(
        self, connection: _SseConnection, headers: dict[bytes, str], query: dict[str, list[str]]
    ) -> Session:
        channels = [name for name in query.get("channel", ()) if name]
        if not 0 < len(channels) <= self._channels_max:
            raise ArautoError(
                Code.BAD_FIELD,
                f"name 1 to {self._channels_max} channels in the URL",
                field="channel",
            )
        _check_any(pointless(channels))
        last_id = headers.get(b"last-event-id") or last(query, "lastEventId")
        positions = parse_last_event_id(last_id) if last_id else None
        connection.positions = StreamPositions(positions or {})
        env, name = self._env, last(query, "hub")
        token = bearer_of(headers.get(b"authorization", "")) or last(query, "token")
        id = env.new_id()
        cost = items_cost(len(channels))
        if not token:
            caller, _ = await admit_caller(env, name, "", connection.address, cost)
            # Whoever may read nothing there opens no hub by trying.
            _check_any(pointless(channels, caller, await env.directory.look(name)))
        hub, identity = await enter(env, name, id, token, connection.address)
        bucket = None
        if identity is not None:
            is_set_up = hub.state.is_set_up
            key = caller_key(name, identity.user, connection.address, is_set_up=is_set_up)
            bucket = env.callers.admit(key, hub.quotas, env.hub.clock.monotonic_s(), cost)
        session = Session(env, hub, connection, self._format, id=id)
        connection.session = session
        session.start(identity)
        if bucket is not None and session.granted is not None:
            # Else an EventSource would wait on a stream that is open and stays silent.
            refusal = pointless(channels, session, hub.state)
            bucket.owe(deciding_cost(session.granted.effort))
            _check_any(refusal)
        items = tuple(_item(name, positions) for name in dict.fromkeys(channels))
        session.handle(SubscribeRequest(id=1, items=items))
        return session


def _check_any(refusal: ArautoError | None) -> None:
    if refusal is not None:
        raise refusal


def _item(name: str, positions: dict[str, Serial] | None) -> SubscribeItem:
    if positions is None:
        return SubscribeItem(channel=name)
    if is_wide(name):
        covered = {c: s for c, s in positions.items() if c == ALL_CHANNELS or matches(name, c)}
        return SubscribeItem(channel=name, positions=covered)
    # A channel the id no longer had room for may have missed anything: let the answer say so.
    return SubscribeItem(channel=name, since=positions.get(name, Serial(0, 0)))


def _nothing() -> None:
    """Where the server offers no way to cut a connection."""


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refuse(send: Send, error: ArautoError, cors: list[tuple[bytes, bytes]]) -> None:
    status, headers, body = answer_to(error)
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *cors]})
    await send({"type": "http.response.body", "body": body})
