"""A lean WebSocket client for loads and storms: answers go to callbacks, and silence is an answer too."""

import asyncio
from collections.abc import Callable
from urllib.parse import quote

import msgspec
from picows import WSCloseCode, WSError, WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from arauto.codec.events import ErrorEvent, Event, Ping, Pong, Request, SessionInfo
from arauto.codec.proto import ProtoCodec

__all__ = ["Answer", "Link", "LostError", "open_link"]

Answer = Callable[[Event | None], None]
"""Called once per request: with its answer, or with None if the connection ended without one."""

_CODEC = ProtoCodec()
_TIMEOUT_S = 30.0
#: Heartbeats and the like are no longer than this.
_SHORT_BYTES = 64


class LostError(ConnectionError):
    """The connection ended before the answer came: the outcome is not known."""


class Link(WSListener):
    """One connection."""

    def __init__(self, on_event: Callable[[Event], None] | None = None) -> None:
        self._on_event = on_event
        self._waiting: dict[int, Answer] = {}
        self._id = 0
        self.greeting: asyncio.Future[SessionInfo | None]
        self.greeting = asyncio.get_running_loop().create_future()
        self.lost = asyncio.Event()
        self.on_lost: Callable[[], None] | None = None
        self.close_code = 0
        self.is_deaf = False
        """Count publications instead of reading them; whatever is short is read all the same."""
        self.frames = 0
        self.last_error: ErrorEvent | None = None
        """The last error that answers no request: why the node ends the connection."""
        self._transport: WSTransport | None = None

    @property
    def unanswered(self) -> int:
        return len(self._waiting)

    def ask(self, request: Request, answer: Answer) -> None:
        """Send a request; `answer` hears of it once."""
        if self.lost.is_set() or self._transport is None:
            answer(None)
            return
        self._id += 1
        self._waiting[self._id] = answer
        numbered = msgspec.structs.replace(request, id=self._id)
        self._transport.send(WSMsgType.BINARY, _CODEC.encode_request(numbered))

    async def call(self, request: Request) -> Event:
        """Send a request and wait for its answer.

        Raises:
            LostError: there was none.
        """
        future: asyncio.Future[Event | None] = asyncio.get_running_loop().create_future()
        self.ask(request, lambda event: None if future.done() else future.set_result(event))
        async with asyncio.timeout(_TIMEOUT_S):
            event = await future
        if event is None:
            raise LostError(f"closed with {self.close_code}")
        return event

    def tell(self, request: Request) -> None:
        """Send a request that has no answer."""
        assert self._transport is not None
        self._transport.send(WSMsgType.BINARY, _CODEC.encode_request(request))

    def pause(self) -> None:
        """Stop reading; the node's data piles up on its way here."""
        assert self._transport is not None
        self._transport.underlying_transport.pause_reading()

    def drop(self) -> None:
        """End the connection without a word."""
        if self._transport is not None:
            self._transport.underlying_transport.abort()

    def say_goodbye(self) -> None:
        """End the connection as the protocol of WebSockets wants it."""
        assert self._transport is not None
        self._transport.send_close(WSCloseCode.OK)
        self._transport.disconnect()

    async def close(self) -> None:
        self.drop()
        await self.lost.wait()

    # --- picows callbacks --------------------------------------------------------------------------

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type is WSMsgType.CLOSE:
            self.close_code = int(frame.get_close_code())  # type: ignore[call-overload]
            transport.send_close(frame.get_close_code())
            transport.disconnect()
            return
        data = frame.get_payload_as_bytes()
        if self.is_deaf and len(data) > _SHORT_BYTES:
            self.frames += 1
        else:
            self._take(_CODEC.decode_event(data))

    def _take(self, event: Event) -> None:
        answer = self._waiting.pop(getattr(event, "id", 0), None)
        if answer is not None:
            answer(event)
        elif isinstance(event, SessionInfo):
            self.greeting.set_result(event)
        elif isinstance(event, Ping) and self._transport is not None:
            self._transport.send(WSMsgType.BINARY, _CODEC.encode_request(Pong(id=event.id)))
        else:
            if isinstance(event, ErrorEvent):
                self.last_error = event
            if self._on_event is not None:
                self._on_event(event)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self.lost.set()
        if not self.greeting.done():
            self.greeting.set_result(None)
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            answer(None)
        if self.on_lost is not None:
            self.on_lost()


async def open_link(
    url: str,
    hub: str = "shop",
    *,
    token: str = "",
    on_event: Callable[[Event], None] | None = None,
) -> Link:
    """Connect and wait for the node's greeting.

    Raises:
        OSError: nobody listens, or the connection ended at once.
    """
    query = f"hub={hub}" + (f"&token={quote(token)}" if token else "")
    async with asyncio.timeout(_TIMEOUT_S):
        try:
            _, link = await ws_connect(
                lambda: Link(on_event),
                f"{url}/v1/ws?{query}",
                extra_headers=[("Sec-WebSocket-Protocol", _CODEC.name)],
                websocket_handshake_timeout=_TIMEOUT_S,
            )
        except WSError as error:
            raise LostError(str(error)) from error
        if not isinstance(link, Link):
            # picows has already let go of it.
            raise LostError("closed right after the handshake")
        if await link.greeting is None:
            raise LostError(f"closed with {link.close_code} before the greeting")
    return link
