"""Connections that ended leave nothing behind that only the collector would find."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx
import pytest

from arauto.codec.events import (
    Ack,
    CloseRequest,
    DocumentGetReply,
    DocumentGetRequest,
    ErrorEvent,
    PublishItem,
    PublishRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
)
from arauto.gateways.guard import GuardedHttp
from arauto.gateways.websocket import WebSocketConnection
from arauto.hub.outbox import Outbox
from arauto.session.session import Session
from tests.counting import alive, counting_only
from tests.integration.conftest import RunningNode
from tests.integration.wire import Wire, connect

Ending = Callable[[Wire], Awaitable[None]]


async def cut(wire: Wire) -> None:
    wire.transport.underlying_transport.abort()
    await wire.closed.wait()


async def leave(wire: Wire) -> None:
    wire.send(CloseRequest())
    await wire.closed.wait()


async def close(wire: Wire) -> None:
    wire.transport.send_close()
    await wire.closed.wait()


async def misbehave(wire: Wire) -> None:
    """Bytes that are no message, as text where binary is spoken."""
    wire.transport.underlying_transport.write(b"\x81\x85\0\0\0\0hello")
    await wire.closed.wait()


async def gone(*kinds: type) -> None:
    """Until the node has noticed the end of every connection."""
    async with asyncio.timeout(10):
        while any(alive(kind) for kind in kinds):  # noqa: ASYNC110 - the dead tell nobody
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("end", [cut, leave, close, misbehave])
async def test_an_ended_websocket_session_is_gone(node: RunningNode, end: Ending) -> None:
    with counting_only():
        wire = await connect(node.url)
        request = SubscribeRequest(id=1, items=(SubscribeItem(channel="room:1"),))
        await wire.ask(request, SubscribeReply)
        items = (PublishItem(channel="room:1", payload=b"x"),)
        await wire.ask(PublishRequest(id=2, items=items), Ack)
        await wire.ask(DocumentGetRequest(id=3, channel="doc:1"), DocumentGetReply)
        await wire.ask(DocumentGetRequest(id=4, channel="room:1"), ErrorEvent)
        await end(wire)
        await gone(Session, Outbox, WebSocketConnection)


async def test_an_ended_event_stream_is_gone(node: RunningNode) -> None:
    with counting_only():
        async with (
            httpx.AsyncClient() as client,
            client.stream("GET", f"{node.http_url}/v1/sse?channel=room:1&hub=shop") as stream,
        ):
            await anext(stream.aiter_lines())
            assert len(alive(Session)) == 1
        await gone(Session, Outbox, GuardedHttp)


async def test_a_request_over_http_and_a_refused_upgrade_leave_nothing(node: RunningNode) -> None:
    with counting_only():
        async with httpx.AsyncClient() as client:
            body = {"messages": [{"channel": "room:1", "text": "x"}]}
            url = f"{node.http_url}/v1/publish?hub=shop"
            assert (await client.post(url, json=body)).status_code == 200
            upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
            response = await client.get(f"{node.http_url}/v1/nowhere", headers=upgrade)
            assert response.status_code == 404
        await gone(GuardedHttp)
