"""What a node counts about sessions and requests, whichever front they came through."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx
import pytest

from arauto.codec.events import Ack, SubscribeItem, SubscribeReply, SubscribeRequest
from arauto.errors import Code
from arauto.session import line
from arauto.storage.base import Kind
from tests.integration.admin.conftest import Admin
from tests.integration.conftest import RunningNode
from tests.integration.session.talk import publish
from tests.integration.session.test_sse import sessions_left, streaming
from tests.integration.wire import connect

_BODY = {"messages": [{"channel": "a", "text": "x"}, {"channel": "b", "text": "y"}]}


async def _refused_over_websocket(node: RunningNode) -> None:
    wire = await connect(node.url, token="x.y.z")
    async with asyncio.timeout(10):
        await wire.closed.wait()


async def _refused_over_sse(node: RunningNode) -> None:
    async with httpx.AsyncClient(base_url=node.http_url, timeout=10) as client:
        answer = await client.get("/v1/sse?hub=shop&channel=a&token=x.y.z")
    assert answer.status_code == 401


@pytest.mark.parametrize("attempt", [_refused_over_websocket, _refused_over_sse])
async def test_who_is_turned_away_at_the_door_neither_begins_nor_ends(
    node: RunningNode, attempt: Callable[[RunningNode], Awaitable[None]]
) -> None:
    await attempt(node)
    journal = node.node.storage.journal
    await journal.flush()
    kinds = {entry.kind for _, entry in await journal.read(0, 100)}
    total = node.node.metrics.total()
    assert (total.sessions_started, total.sessions_ended, total.session_duration_ms) == (0, 0, 0)
    assert not kinds & {Kind.SESSION_START, Kind.SESSION_END}
    assert sum(total.refused.values()) == 1
    assert "shop" not in node.node.directory.hubs


async def test_a_session_that_was_let_in_begins_and_ends_once(node: RunningNode) -> None:
    wire = await connect(node.url)
    await wire.ask(SubscribeRequest(id=1, items=(SubscribeItem(channel="a"),)), SubscribeReply)
    await wire.close()
    await sessions_left(node, 0)
    total = node.node.metrics.total()
    assert (total.sessions_started, total.sessions_ended) == (1, 1)


async def test_sessions_that_end_with_the_node_are_in_its_last_interval(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one whose connection was lost with so many others that its turn had not come."""
    wire, lost = await connect(node.url), await connect(node.url)
    monkeypatch.setattr(line, "_TURN_LEN", 0)
    lost.transport.underlying_transport.abort()
    async with asyncio.timeout(10):
        while not len(node.node.sessions.line):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
    await node.node.stop()
    total = node.node.intervals.kept[-1].total
    assert (total.sessions_started, total.sessions_ended) == (2, 2)
    await wire.close()


async def test_messages_and_bytes_in_count_the_same_requests_on_every_front(
    node: RunningNode,
) -> None:
    counters = node.node.metrics.hub("shop")
    wire = await connect(node.url)
    request = publish("a", b"x", id=1)
    await wire.ask(request, Ack)
    expected = [1, len(wire.codec.encode_request(request))]
    assert [counters.messages_in, counters.bytes_in] == expected
    async with httpx.AsyncClient(base_url=node.http_url, timeout=10) as client:
        sent = await client.post("/v1/publish?hub=shop", json=_BODY)
    expected = [2, expected[1] + len(sent.request.content)]
    assert [counters.messages_in, counters.bytes_in] == expected
    async with Admin(node.node) as admin:
        sent = await admin.post("/v1/hubs/shop/publish", json=_BODY)
    assert sent.is_success
    expected = [3, expected[1] + len(sent.request.content)]
    assert [counters.messages_in, counters.bytes_in] == expected
    # What a stream wants stands in its URL: neither a message nor bytes in.
    async with streaming(node, "a") as stream:
        await stream.next()
    assert [counters.messages_in, counters.bytes_in] == expected
    assert counters.publishes == 5


async def test_what_opens_no_hub_because_all_of_it_is_refused_was_read_too(
    node: RunningNode,
) -> None:
    body = {"messages": [{"channel": "\u202ebad", "text": "x"}]}
    async with (
        httpx.AsyncClient(base_url=node.http_url, timeout=10) as client,
        Admin(node.node) as admin,
    ):
        sent = [
            await client.post("/v1/publish?hub=shop", json=body),
            await admin.post("/v1/hubs/shop/publish", json=body),
        ]
    assert "shop" not in node.node.directory.hubs
    total = node.node.metrics.total()
    assert total.refused == {Code.BAD_CHANNEL_NAME: 2}
    assert total.messages_in == 2
    assert total.bytes_in == sum(len(each.request.content) for each in sent)
