"""A scripted node: a real WebSocket server that answers as a test tells it to.

Each connection is a `Peer`. What the client sends is first offered to the handler the test set for that
kind of request, then to the small default behaviour below, and is always kept in `Peer.requests`.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import msgspec
from picows import (
    WSFrame,
    WSListener,
    WSMsgType,
    WSTransport,
    WSUpgradeRequest,
    WSUpgradeResponse,
    WSUpgradeResponseWithListener,
    ws_create_server,
)

from arauto.codec.base import Codec
from arauto.codec.events import (
    Ack,
    AckItem,
    AuthReply,
    AuthRequest,
    CloseRequest,
    Event,
    Ping,
    Pong,
    Publication,
    PublishRequest,
    Request,
    SessionInfo,
    SubscribeReply,
    SubscribeRequest,
    SubscribeResult,
    UnsubscribeReply,
    UnsubscribeRequest,
)
from arauto.codec.json import JsonCodec
from arauto.codec.proto import ProtoCodec
from arauto.codec.websocket import CLOSE, close_payload, frame
from arauto.model import Message, Serial

__all__ = ["EPOCH", "FakeNode", "Peer", "message"]

EPOCH = 7
R = TypeVar("R")
_CODECS: dict[str, Codec] = {codec.name: codec for codec in (ProtoCodec(), JsonCodec())}


def message(channel: str, offset: int, payload: bytes = b"", **fields: Any) -> Message:
    """A message as the node's channel would stamp it."""
    return Message(
        **{
            "hub": "shop",
            "channel": channel,
            "payload": payload or b"%d" % offset,
            "epoch": EPOCH,
            "offset": offset,
            "ts_ms": 1_700_000_000_000 + offset,
            **fields,
        }
    )


class Peer(WSListener):
    """One connection, seen from the node."""

    def __init__(self, node: "FakeNode", codec: Codec, headers: dict[str, str], query: Any) -> None:
        self.node = node
        self.codec = codec
        self.headers = headers
        self.query = query
        self.transport: WSTransport | None = None
        self.requests: list[Request] = []
        self._unread: deque[Request] = deque()
        self._arrived = asyncio.Event()
        self.ended = asyncio.Event()
        self.close_code = 0
        self.is_closing = False

    # --- what a test does --------------------------------------------------------------------------

    async def expect(self, kind: type[R]) -> R:
        """The next request of that kind; others before it are passed over."""
        while True:
            while self._unread:
                request = self._unread.popleft()
                if isinstance(request, kind):
                    return request
            self._arrived.clear()
            await asyncio.wait_for(self._arrived.wait(), 10)

    def count(self, kind: type[Request]) -> int:
        return sum(isinstance(request, kind) for request in self.requests)

    def send(self, *events: Event) -> None:
        for event in events:
            self.send_raw(self.codec.encode_event(event))

    def send_raw(self, data: bytes) -> None:
        assert self.transport is not None
        kind = WSMsgType.TEXT if self.codec.is_text else WSMsgType.BINARY
        self.transport.send(kind, data)

    def publish(self, *messages: Message) -> None:
        self.send(*(Publication(message=item) for item in messages))

    def close(self, code: int, reason: str = "") -> None:
        assert self.transport is not None
        self.is_closing = True
        self.transport.underlying_transport.write(frame(close_payload(code, reason), CLOSE))

    def drop(self) -> None:
        """Break the connection without a word."""
        assert self.transport is not None
        self.transport.disconnect(False)

    async def wait_ended(self) -> None:
        await asyncio.wait_for(self.ended.wait(), 10)

    # --- picows ------------------------------------------------------------------------------------

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport
        self.node.greet(self)
        self.node.peers.put_nowait(self)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            self.close_code = int.from_bytes(frame.get_payload_as_bytes()[:2])
            if not self.is_closing:
                transport.send_close(frame.get_close_code())
            transport.disconnect()
            return
        request = self.codec.decode_request(frame.get_payload_as_bytes())
        self.requests.append(request)
        self._unread.append(request)
        self._arrived.set()
        handler = self.node.handlers.get(type(request))
        if handler is not None:
            handler(self, request)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self.ended.set()


class FakeNode:
    """The server. `handlers` may be replaced by a test, kind by kind; None = stay silent."""

    def __init__(self) -> None:
        self.peers: asyncio.Queue[Peer] = asyncio.Queue()
        self.all_peers: list[Peer] = []
        self.handlers: dict[type, Callable[[Peer, Any], None] | None] = {
            AuthRequest: self.on_auth,
            CloseRequest: self.on_close,
            Ping: self.on_ping,
            PublishRequest: self.on_publish,
            SubscribeRequest: self.on_subscribe,
            UnsubscribeRequest: self.on_unsubscribe,
        }
        self.info = SessionInfo(hub="shop", session="", node="n1", authenticated=False)
        self.silent = False
        self.refuse_with: tuple[int, bytes] | None = None
        self.subprotocol: str | None = None
        self.offsets: dict[str, int] = {}
        self.keys: dict[str, Serial] = {}
        self.published: list[Any] = []
        self._server: asyncio.Server | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self._port}"

    async def start(self) -> None:
        self._server = await ws_create_server(self._accept, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is None:
            return
        self._server.close()
        for peer in self.all_peers:
            if not peer.ended.is_set() and peer.transport is not None:
                peer.drop()
                await peer.wait_ended()
        await self._server.wait_closed()
        self._server = None

    async def peer(self) -> Peer:
        """The next connection."""
        return await asyncio.wait_for(self.peers.get(), 10)

    def _accept(self, request: WSUpgradeRequest) -> WSUpgradeResponseWithListener:
        if self.refuse_with is not None:
            status, body = self.refuse_with
            refusal = WSUpgradeResponse.create_error_response(status, body)
            return WSUpgradeResponseWithListener(refusal, None)
        name = request.headers["Sec-WebSocket-Protocol"]
        target = urlsplit(request.path.decode())
        peer = Peer(self, _CODECS[name], dict(request.headers), parse_qs(target.query))
        self.all_peers.append(peer)
        agreed = {"Sec-WebSocket-Protocol": self.subprotocol or name}
        return WSUpgradeResponseWithListener(WSUpgradeResponse.create_101_response(agreed), peer)

    # --- default behaviour -------------------------------------------------------------------------

    def greet(self, peer: Peer) -> None:
        if not self.silent:
            session = self.info.session or f"s{len(self.all_peers)}"
            peer.send(msgspec.structs.replace(self.info, session=session))

    def place(self, channel: str) -> Serial:
        return Serial(EPOCH, self.offsets.get(channel, 0))

    def on_subscribe(self, peer: Peer, request: SubscribeRequest) -> None:
        results = tuple(
            SubscribeResult(
                channel=item.channel,
                serial=self.place(item.channel),
                recovered=item.since is not None,
            )
            for item in request.items
        )
        peer.send(SubscribeReply(id=request.id, results=results))

    def on_unsubscribe(self, peer: Peer, request: UnsubscribeRequest) -> None:
        if request.id:
            peer.send(UnsubscribeReply(id=request.id, channels=request.channels))

    def on_publish(self, peer: Peer, request: PublishRequest) -> None:
        results = []
        for item in request.items:
            known = self.keys.get(item.idempotency_key)
            if known is None:
                self.offsets[item.channel] = self.offsets.get(item.channel, 0) + 1
                known = self.keys[item.idempotency_key] = self.place(item.channel)
                self.published.append(item)
                results.append(AckItem(serial=known))
            else:
                results.append(AckItem(serial=known, duplicate=True))
        if request.id:
            peer.send(Ack(id=request.id, results=tuple(results)))

    def on_auth(self, peer: Peer, request: AuthRequest) -> None:
        peer.send(AuthReply(id=request.id, success=True, user=request.credentials.decode()))

    def on_ping(self, peer: Peer, request: Ping) -> None:
        peer.send(Pong(id=request.id))

    def on_close(self, peer: Peer, request: CloseRequest) -> None:
        peer.close(1000)
