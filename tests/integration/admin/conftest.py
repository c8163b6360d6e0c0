"""An administrator's HTTP client, and a node that runs beside tests that block."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import uvloop

from arauto.node import Node
from tests.integration.conftest import RunningNode, make_config

TOKEN = "test-admin-token-of-32-characters"


class Admin(httpx.AsyncClient):
    """Sends the token; `ok` also insists on success."""

    def __init__(self, node: Node, token: str = TOKEN) -> None:
        super().__init__(
            base_url=f"http://127.0.0.1:{node.admin_port.port}",
            headers={"Authorization": f"Bearer {token}"},
            timeout=10,
        )

    async def ok(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        params = {name: str(value) for name, value in query.items()}
        response = await self.request(method, path, json=body, params=params or None)
        assert response.is_success, f"{response.status_code} {response.text}"
        return response.json() if response.content else None

    async def refused(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """(status, problem) of a request that is to be refused."""
        params = {name: str(value) for name, value in query.items()}
        response = await self.request(method, path, json=body, params=params or None)
        problem = response.json()
        assert set(problem) == {"code", "message", "field"}
        return response.status_code, problem


@pytest.fixture
async def admin(node: RunningNode) -> AsyncIterator[Admin]:
    """The administrator of `node`."""
    async with Admin(node.node) as client:
        yield client


class NodeThread:
    """A node with an event loop of its own, for clients that block."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.node: Node

    def __enter__(self) -> "NodeThread":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self.node.stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        self.node = Node(make_config())
        await self.node.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.node.admin_port.port}"


@pytest.fixture(scope="module")
def node_thread() -> Iterator[NodeThread]:
    with NodeThread() as running:
        yield running
