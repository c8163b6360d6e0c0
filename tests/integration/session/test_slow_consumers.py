"""A reader that stops reading, by each policy and in both flavours: bounded, told, and filled later (T14)."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from arauto.codec.base import Codec
from arauto.codec.events import (
    Ack,
    Event,
    Gap,
    HistoryReply,
    HistoryRequest,
    Publication,
    Request,
    SubscribeItem,
    SubscribeRequest,
)
from arauto.codec.json import JsonCodec
from arauto.codec.proto import ProtoCodec
from arauto.hub.outbox import Outbox
from arauto.model import Message, Serial, SlowPolicy
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.security.raw import KEY, Raw, frame
from tests.integration.session.talk import publish, subscribed
from tests.integration.wire import connect

BUFFER_BYTES = 200_000
COUNT = 400
SIZE_BYTES = 30_000
KEYS = 4


class Staller:
    """A client that reads when it is told to, and not before."""

    def __init__(self, raw: Raw, codec: Codec) -> None:
        self.raw = raw
        self.codec = codec
        self.close_code = 0

    async def send(self, request: Request) -> None:
        opcode = 0x1 if self.codec.is_text else 0x2
        await self.raw.send(frame(self.codec.encode_request(request), opcode))

    async def read(self, *, until: type[Event] | None = None) -> list[Event]:
        """Read on until the connection ends, nothing comes for a while, or an event of a kind came."""
        events: list[Event] = []
        while True:
            try:
                opcode, payload = await asyncio.wait_for(self.raw.frame(), 1)
            except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
                return events
            if opcode == 0x8:
                self.close_code = int.from_bytes(payload[:2], "big")
                return events
            events.append(self.codec.decode_event(payload))
            if until is not None and isinstance(events[-1], until):
                return events


@asynccontextmanager
async def stalling(node: RunningNode, flavour: str) -> AsyncIterator[Staller]:
    """A subscriber of "flood" that has stopped reading."""
    sock = socket.socket()
    # Small, so that it is the node that has to wait.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", node.port))
    raw = Raw(*await asyncio.open_connection(sock=sock, limit=1_024))
    codec: Codec = JsonCodec() if flavour.endswith("json") else ProtoCodec()
    staller = Staller(raw, codec)
    await raw.send(
        f"GET /v1/ws?hub=shop HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n"
        f"Sec-WebSocket-Protocol: {flavour}\r\n\r\n".encode()
    )
    await raw.reader.readuntil(b"\r\n\r\n")
    await raw.frame()
    item = SubscribeItem(channel="flood")
    await staller.send(SubscribeRequest(id=1, items=(item,)))
    await raw.frame()
    try:
        yield staller
    finally:
        await raw.close()


async def start(start_node: StartNode, policy: SlowPolicy) -> RunningNode:
    return await start_node(
        connection={"port": 0, "ws": {"sendBufferBytes": BUFFER_BYTES}},
        channel={"historyPageSize": 1_000},
        hub={
            # Its publisher sends more in a second than a session may.
            "defaults": {"defaultPublic": True, "quotas": {"sessionMessagesPerS": 0}},
            # Nobody authenticates here, and a stranger's hub would remember less.
            "strangers": {"liveHistoryBytesMax": 0, "backlogsBytesMax": 0},
            "defaultRules": {
                "clientPublish": True,
                "liveHistoryLen": COUNT,
                "slowPolicy": policy.value,
            },
        },
    )


async def flood(node: RunningNode, outbox: Outbox) -> list[Message]:
    """Publish much more than the stalled reader takes; another reader gets all of it, meanwhile."""
    publisher, witness = await connect(node.url), await connect(node.url)
    await subscribed(witness, "flood")
    seen: list[Message] = []
    for number in range(COUNT):
        payload = b"%05d" % number + b"x" * SIZE_BYTES
        await publisher.ask(publish("flood", payload, id=number + 1, key=str(number % KEYS)), Ack)
        seen.append((await witness.next(Publication)).message)
        assert outbox.backlog_bytes <= BUFFER_BYTES
    await publisher.close()
    await witness.close()
    return seen


def outbox_of(node: RunningNode) -> Outbox:
    [subscriber] = node.node.directory.hubs["shop"].channels["flood"].subscribers
    return subscriber.outbox


def covered(gaps: list[Gap], serial: Serial) -> bool:
    return any(gap.after < serial <= gap.upto for gap in gaps)


@pytest.mark.parametrize("flavour", ["arauto.v1.proto", "arauto.v1.json"])
async def test_the_disconnect_policy_sends_a_stalled_reader_away(
    start_node: StartNode, flavour: str
) -> None:
    node = await start(start_node, SlowPolicy.DISCONNECT)
    async with stalling(node, flavour) as staller:
        outbox = outbox_of(node)
        await flood(node, outbox)
        assert outbox.closed
        assert node.node.directory.hubs["shop"].counters.slow_disconnects == 1
        events = await staller.read()
        offsets = [e.message.offset for e in events if isinstance(e, Publication)]
        assert offsets == list(range(1, len(offsets) + 1)), "what did arrive is without holes"
        assert len(offsets) < COUNT
        assert not [event for event in events if isinstance(event, Gap)]
        # A reader that comes back too late finds the socket cut.
        assert staller.close_code in (4002, 0)


@pytest.mark.parametrize("flavour", ["arauto.v1.proto", "arauto.v1.json"])
@pytest.mark.parametrize("policy", [SlowPolicy.DROP_OLDEST, SlowPolicy.KEEP_LATEST])
async def test_what_was_dropped_is_marked_and_can_be_read_from_history(
    start_node: StartNode, flavour: str, policy: SlowPolicy
) -> None:
    node = await start(start_node, policy)
    async with stalling(node, flavour) as staller:
        sent = await flood(node, outbox_of(node))
        events = await staller.read()
        gaps = [event for event in events if isinstance(event, Gap)]
        read = [event.message.serial for event in events if isinstance(event, Publication)]
        assert gaps
        assert read == sorted(set(read))
        assert read[-1] == sent[-1].serial
        for message in sent:
            assert (message.serial in read) != covered(gaps, message.serial)
        if policy is SlowPolicy.KEEP_LATEST:
            assert read[-KEYS:] == [message.serial for message in sent[-KEYS:]]
        for gap in gaps:
            place = Serial(gap.upto.epoch, gap.upto.offset + 1)
            ask = HistoryRequest(id=9, channel="flood", since=gap.after, until=place, limit=1_000)
            found: list[Serial] = []
            while True:
                await staller.send(ask)
                reply = (await staller.read(until=HistoryReply))[-1]
                assert isinstance(reply, HistoryReply)
                assert reply.complete
                found += [message.serial for message in reply.messages]
                if not reply.more:
                    break
                ask = HistoryRequest(
                    id=9, channel="flood", since=reply.next, until=place, limit=1_000
                )
            assert found == [m.serial for m in sent if covered([gap], m.serial)]
        # And it goes on, live.
        publisher = await connect(node.url)
        await publisher.ask(publish("flood", b"after", id=1), Ack)
        [event] = await staller.read(until=Publication)
        assert isinstance(event, Publication)
        assert event.message.payload == b"after"
        await publisher.close()


async def test_a_client_that_asks_much_and_reads_nothing_is_bounded_too(
    start_node: StartNode,
) -> None:
    """Private answers are never dropped, so it is the connection that ends."""
    node = await start(start_node, SlowPolicy.DROP_OLDEST)
    async with stalling(node, "arauto.v1.proto") as staller:
        outbox = outbox_of(node)
        ping = frame(b"x" * 125, 0x9)
        async with asyncio.timeout(20):
            while not outbox.closed:
                await staller.raw.send(ping * 200)
                assert outbox.backlog_bytes <= BUFFER_BYTES
