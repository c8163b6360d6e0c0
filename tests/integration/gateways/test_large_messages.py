"""Connections that send large messages, or begin them and never end."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from picows.picows import WSProtocol  # type: ignore[attr-defined]

from arauto.codec.events import Ack, Ping, Pong
from arauto.errors import Code
from arauto.gateways.buffers import ReadBuffers
from arauto.gateways.reader import FrameReader
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.security.raw import Raw, frame, upgraded, witness
from tests.integration.session.talk import publish, subscribed
from tests.integration.wire import connect

FIRST_BYTES = 2_048 - 256
LARGE = b"x" * 60_000
ROOM_BYTES = 1_000_000


@pytest.fixture
async def tight(start_node: StartNode) -> RunningNode:
    """Has room for a few large messages at a time."""
    ws = {"maxMessageBytes": 200_000, "readBuffersBytesMax": ROOM_BYTES}
    return await start_node(connection={"ws": ws})


def buffers_of(node: RunningNode) -> ReadBuffers:
    return node.node.websocket.buffers


def readers_of(node: RunningNode) -> list[FrameReader]:
    return [c.reader for c in node.node.websocket.connections if c.reader is not None]


def kept_by_picows(reader: FrameReader) -> int:
    """How large the buffer of a connection is in which nothing waits."""
    return len(WSProtocol.get_buffer(reader, -1))


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - nodes count, they do not tell
            await asyncio.sleep(0.001)


async def test_what_buffers_grew_by_is_what_is_counted(node: RunningNode) -> None:
    wires = [await connect(node.url) for _ in range(5)]
    assert buffers_of(node).held_bytes == 0
    for at, wire in enumerate(wires):
        for size_bytes in (10, 1_500, 20_000, 3_000, 60_000)[: at + 1]:
            await wire.ask(publish("c", b"x" * size_bytes, id=1), Ack)
    grown = [kept_by_picows(reader) - FIRST_BYTES for reader in readers_of(node)]
    assert max(grown) > 60_000
    assert min(grown) == 0
    assert buffers_of(node).held_bytes == sum(grown)
    for wire in wires:
        await wire.close()
    await until(lambda: not node.node.websocket.connections)
    assert buffers_of(node).held_bytes == 0


async def test_idle_buffers_are_had_small_again_and_nobody_notices(tight: RunningNode) -> None:
    """One large message each once cost as much memory for as long as the connection."""
    wires = [await connect(tight.url) for _ in range(40)]
    for wire in wires:
        await subscribed(wire, "c")
        await wire.ask(publish("own", LARGE, id=1), Ack)
    buffers = buffers_of(tight)
    assert buffers.held_bytes <= ROOM_BYTES
    assert buffers.shrunk >= 20
    for at, wire in enumerate(wires):
        wire.send(Ping(id=at + 1))
        await wire.next(Pong)
        await wire.ask(publish("own", LARGE, id=2), Ack)
    wires[0].send(publish("c", b"all of you"))
    for wire in wires:
        assert await wire.messages(1) == [b"all of you"]
    assert buffers.cut_off == 0
    grown = [kept_by_picows(reader) - FIRST_BYTES for reader in readers_of(tight)]
    assert buffers.held_bytes == sum(grown)


async def test_a_connection_that_was_made_small_again_ends_as_any_other(tight: RunningNode) -> None:
    wires = [await connect(tight.url) for _ in range(20)]
    for wire in wires:
        await wire.ask(publish("own", LARGE, id=1), Ack)
    assert buffers_of(tight).shrunk
    for wire in wires[:10]:
        await wire.close()
    await until(lambda: len(tight.node.websocket.connections) == 10)
    assert tight.node.port.admission.count == 10
    for wire in wires[10:]:
        wire.transport.underlying_transport.write(frame(b"", 0x3))
        await asyncio.wait_for(wire.closed.wait(), 5)
        assert wire.close_code == 1002, "what it sends is still checked"
    await until(lambda: tight.node.port.admission.count == 0)
    assert buffers_of(tight).held_bytes == 0


async def begin(stack: AsyncExitStack, node: RunningNode, data: bytes) -> Raw:
    raw = await stack.enter_async_context(upgraded(node, hub="greedy"))
    await raw.send(data)
    return raw


@pytest.mark.parametrize(
    "begun", [frame(b"x" * 150_000)[:-1], frame(b"x" * 150_000, fin=False)], ids=["frame", "pieces"]
)
async def test_messages_that_are_never_ended_make_room_for_others(
    tight: RunningNode, begun: bytes
) -> None:
    buffers = buffers_of(tight)
    async with AsyncExitStack() as stack, witness(tight) as wire:
        attackers = [await begin(stack, tight, begun) for _ in range(30)]
        await until(lambda: buffers.cut_off >= 20)
        assert await attackers[0].close_code() == Code.OVERLOADED
        for id in range(1, 20):
            assert (await wire.ask(publish("own", LARGE, id=id), Ack)).results[0].error is None
        assert buffers.held_bytes <= ROOM_BYTES
        assert max(map(kept_by_picows, readers_of(tight))) < 500_000
    await until(lambda: tight.node.port.admission.count == 0)
    assert buffers.held_bytes == 0


async def test_a_message_for_which_there_is_no_room_at_all_costs_its_connection(
    start_node: StartNode,
) -> None:
    node = await start_node(connection={"ws": {"readBuffersBytesMax": 50_000}})
    async with witness(node), upgraded(node) as raw:
        await raw.send(frame(LARGE))
        assert await raw.close_code() == Code.OVERLOADED
    async with witness(node), upgraded(node) as raw:
        await raw.send(frame(LARGE, fin=False))
        assert await raw.close_code() == Code.OVERLOADED
    assert buffers_of(node).held_bytes == 0


async def test_many_small_messages_at_once_make_no_large_buffer(start_node: StartNode) -> None:
    """A buffer once became as large as all that a socket could hold."""
    defaults = {"defaultPublic": True, "quotas": {"sessionMessagesPerS": 0}}
    node = await start_node(hub={"defaults": defaults})
    async with witness(node), upgraded(node) as raw:
        pings = frame(b"", 0x9) * 100_000
        sending = asyncio.ensure_future(raw.send(pings))
        largest = 0
        for _ in range(100_000):
            assert await raw.frame() == (0xA, b"")
            largest = max(largest, buffers_of(node).held_bytes)
        await sending
    assert 0 < largest < 131_072


async def test_what_follows_a_frame_that_is_too_large_is_not_gathered(tight: RunningNode) -> None:
    """picows closes a moment after it refused; what arrives until then went on filling the buffer."""
    async with witness(tight), upgraded(tight, hub="greedy"):
        (reader,) = (reader for reader in readers_of(tight) if reader.hub == "greedy")
        head = b"\x82\xff" + (1 << 40).to_bytes(8, "big") + b"\x00" * 4
        room = reader.get_buffer(-1)
        room[: len(head)] = head
        reader.buffer_updated(len(head))
        for _ in range(1_000):
            reader.buffer_updated(len(reader.get_buffer(-1)))
        assert buffers_of(tight).held_bytes == 0
    await until(lambda: tight.node.port.admission.count == 0)
    assert buffers_of(tight).held_bytes == 0
