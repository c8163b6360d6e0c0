"""Clients that send pings right behind their upgrade request, before anything was answered."""

import asyncio

import pytest

from arauto.codec.events import Ping, Pong, SessionInfo
from arauto.codec.proto import ProtoCodec
from tests.integration.conftest import RunningNode, StartNode
from tests.integration.security.raw import KEY, Raw, frame, opened

_codec = ProtoCodec()


async def begun(raw: Raw, node: RunningNode, hub: str, frames: bytes) -> None:
    """A connection whose first frames come in one piece with its upgrade request."""
    await raw.send(
        f"GET /v1/ws?hub={hub} HTTP/1.1\r\nHost: 127.0.0.1:{node.port}\r\n"
        f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Protocol: arauto.v1.proto\r\n\r\n".encode()
        + frames
    )
    async with asyncio.timeout(10):
        assert (await raw.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")


async def answers(raw: Raw) -> tuple[list[bytes], list[type]]:
    """The pongs that come until a ping event is answered, and the events."""
    pongs: list[bytes] = []
    events: list[type] = []
    while Pong not in events:
        opcode, payload = await raw.frame()
        if opcode == 0xA:
            pongs.append(payload)
        else:
            events.append(type(_codec.decode_event(payload)))
    return pongs, events


@pytest.mark.parametrize("is_open", [False, True])
async def test_a_ping_right_behind_the_upgrade_is_answered(
    start_node: StartNode, is_open: bool
) -> None:
    """Where the hub had to be opened first, there was no pong."""
    node = await start_node()
    if is_open:
        await node.node.sessions.directory.get("fresh")
    async with opened(node) as raw:
        last = frame(_codec.encode_request(Ping(id=5)))
        await begun(raw, node, "fresh", frame(b"early", 0x9) + last)
        assert await answers(raw) == ([b"early"], [SessionInfo, Pong])


async def test_of_very_many_pings_before_the_session_the_last_are_answered(
    start_node: StartNode,
) -> None:
    node = await start_node()
    async with opened(node) as raw:
        pings = b"".join(frame(b"%d" % n, 0x9) for n in range(1_000))
        await begun(raw, node, "fresh", pings + frame(_codec.encode_request(Ping(id=5))))
        pongs, _ = await answers(raw)
        assert 1 <= len(pongs) <= 16
        assert pongs[-1] == b"999"
