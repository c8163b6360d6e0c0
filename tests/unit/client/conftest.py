"""A fake node, a clock whose timers the test moves, and clients that are closed at the end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from arauto.client import Client
from arauto.entropy import SeededEntropy
from arauto.testing import FakeClock
from tests.unit.client.fake_node import FakeNode


class LoopClock(FakeClock):
    """Timers move with the test; what is due "soon" runs on the event loop, as sockets do."""

    def call_soon(self, callback: Callable[[], object]) -> None:
        asyncio.get_running_loop().call_soon(callback)


async def eventually(condition: Callable[[], bool]) -> None:
    """Let the event loop turn until something is so; for what gives no event to wait for."""

    async def turn() -> None:
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)

    await asyncio.wait_for(turn(), 10)


@pytest.fixture
def clock() -> LoopClock:
    return LoopClock()


@pytest_asyncio.fixture
async def node() -> AsyncIterator[FakeNode]:
    node = FakeNode()
    await node.start()
    yield node
    await node.stop()


@pytest.fixture(params=["proto", "json"])
def flavour(request: pytest.FixtureRequest) -> str:
    """For tests of what travels: both flavours must behave the same."""
    name: str = request.param
    return name


@pytest_asyncio.fixture
async def make(node: FakeNode, clock: LoopClock) -> AsyncIterator[Callable[..., Client]]:
    """Make a client of the fake node; it is closed when the test ends."""
    made: list[Client] = []

    def build(**options: Any) -> Client:
        client = Client(
            node.url, **{"hub": "shop", "clock": clock, "entropy": SeededEntropy(1), **options}
        )
        made.append(client)
        return client

    yield build
    for client in made:
        await client.close()
