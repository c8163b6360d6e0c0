"""A client lives on one event loop. On another it says so at once, where it would wait for ever."""

import asyncio
from collections.abc import AsyncIterable, Callable, Coroutine, Iterator
from typing import Any

import pytest

from arauto.client import Client, Document, Subscription
from arauto.errors import ArautoError, Code
from tests.unit.client.fake_node import FakeNode


@pytest.fixture
def own() -> Iterator[asyncio.AbstractEventLoop]:
    """The loop of the client and its node. It stands still while a test runs another."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def node(own: asyncio.AbstractEventLoop) -> Iterator[FakeNode]:
    node = FakeNode()
    own.run_until_complete(node.start())
    yield node
    if not own.is_closed():
        own.run_until_complete(node.stop())


def connected(own: asyncio.AbstractEventLoop, node: FakeNode) -> tuple[Client, Subscription]:
    client = Client(node.url, hub="shop")

    async def begin() -> Subscription:
        await client.connect()
        return await client.subscribe("room:1").ready()

    return client, own.run_until_complete(begin())


async def _document(client: Client) -> Document:
    return client.document("doc:1")


async def _nowait(client: Client) -> None:
    client.publish_nowait("room:1", "x")


CALLS: dict[str, Callable[[Client, Subscription], Coroutine[Any, Any, Any]]] = {
    "publish": lambda client, _: client.publish("room:1", "x"),
    "publish_nowait": lambda client, _: _nowait(client),
    "presence": lambda client, _: client.presence("room:1"),
    "history": lambda client, _: _all(client.history("room:1")),
    "authenticate": lambda client, _: client.authenticate("x"),
    "document": lambda client, _: _document(client),
    "ready": lambda _, subscription: subscription.ready(),
    "next": lambda _, subscription: subscription.__anext__(),
    "take": lambda _, subscription: subscription.take(),
    "events": lambda _, subscription: _all(subscription.events()),
    "unsubscribe": lambda _, subscription: subscription.unsubscribe(),
    "close": lambda client, _: client.close(),
}


async def _all(found: AsyncIterable[Any]) -> None:
    async for _ in found:
        pass


@pytest.mark.parametrize("call", CALLS)
def test_on_another_loop_a_client_refuses_at_once_and_goes_on_with_its_own(
    own: asyncio.AbstractEventLoop, node: FakeNode, call: str
) -> None:
    client, subscription = connected(own, node)
    with pytest.raises(ArautoError, match="event loop") as refused:
        asyncio.run(asyncio.wait_for(CALLS[call](client, subscription), 5))
    assert refused.value.code is Code.CONFLICT
    assert own.run_until_complete(client.publish("room:1", "x")).offset > 0
    assert own.run_until_complete(subscription.ready()) is subscription
    own.run_until_complete(client.close())


def test_without_a_loop_a_client_refuses_too(
    own: asyncio.AbstractEventLoop, node: FakeNode
) -> None:
    client, _ = connected(own, node)
    for call in (lambda: client.subscribe("room:2"), lambda: client.publish_nowait("room:1", "x")):
        with pytest.raises(ArautoError, match="event loop"):
            call()
    own.run_until_complete(client.close())


def test_a_client_whose_loop_has_ended_is_closed_on_any_other(
    own: asyncio.AbstractEventLoop, node: FakeNode
) -> None:
    client, _ = connected(own, node)
    own.run_until_complete(node.stop())
    own.close()
    with pytest.raises(ArautoError, match="event loop"):
        asyncio.run(client.publish("room:1", "x"))
    asyncio.run(client.close())
