"""A client without comforts: sends requests, keeps events, hides nothing. For tests of the server."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from arauto.codec.base import Codec
from arauto.codec.events import Event, Publication, Request
from arauto.codec.json import JsonCodec
from arauto.codec.proto import ProtoCodec

__all__ = ["Wire", "connect"]

T = TypeVar("T")
_CODECS: dict[str, Codec] = {codec.name: codec for codec in (ProtoCodec(), JsonCodec())}
_TIMEOUT_S = 10.0


class Wire(WSListener):
    """One WebSocket connection; `events` holds everything that came and was not taken yet."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.events: list[Event] = []
        self.closed = asyncio.Event()
        self.close_code = 0
        self._news = asyncio.Event()
        self.transport: WSTransport

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type is WSMsgType.CLOSE:
            self.close_code = int(frame.get_close_code())  # type: ignore[call-overload]
            transport.send_close(frame.get_close_code())
            transport.disconnect()
            return
        if frame.msg_type in (WSMsgType.TEXT, WSMsgType.BINARY):
            self.events.append(self.codec.decode_event(frame.get_payload_as_bytes()))
            self._news.set()

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self.closed.set()
        self._news.set()

    def send(self, request: Request) -> None:
        self.send_raw(self.codec.encode_request(request))

    def send_raw(self, data: bytes) -> None:
        kind = WSMsgType.TEXT if self.codec.is_text else WSMsgType.BINARY
        self.transport.send(kind, data)

    async def next(self, kind: type[T], where: Callable[[T], bool] = lambda _: True) -> T:
        """Wait for the next event of a kind (that meets a condition) and take it out."""
        async with asyncio.timeout(_TIMEOUT_S):
            while True:
                for index, event in enumerate(self.events):
                    if isinstance(event, kind) and where(event):
                        del self.events[index]
                        return event
                if self.closed.is_set():
                    raise ConnectionError(f"closed with {self.close_code} before {kind.__name__}")
                self._news.clear()
                await self._news.wait()

    async def ask(self, request: Request, kind: type[T]) -> T:
        """Send a request and wait for an answer of a kind with the same id."""
        self.send(request)
        wanted = request.id  # type: ignore[union-attr]
        return await self.next(kind, lambda event: getattr(event, "id", wanted) == wanted)

    async def messages(self, count: int) -> list[bytes]:
        """The payloads of the next `count` publications."""
        return [(await self.next(Publication)).message.payload for _ in range(count)]

    async def close(self) -> None:
        self.transport.disconnect()
        await self.closed.wait()


async def connect(
    url: str, hub: str = "shop", flavour: str = "arauto.v1.proto", **query: Any
) -> Wire:
    """Open a connection."""
    extra = "".join(f"&{name}={value}" for name, value in query.items())
    _, wire = await ws_connect(
        lambda: Wire(_CODECS[flavour]),
        f"{url}/v1/ws?hub={hub}{extra}",
        extra_headers=[("Sec-WebSocket-Protocol", flavour)],
    )
    assert isinstance(wire, Wire)
    return wire
