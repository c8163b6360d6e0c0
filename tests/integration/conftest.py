"""A real node on real sockets, in the test's own process."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from arauto.config.schema import Config
from arauto.node import Node

#: Open to everyone, and forgetful: what most tests want.
OPEN_HUB: dict[str, Any] = {
    "storage": {"kind": "memory"},
    "connection": {"port": 0},
    "admin": {"port": 0, "token": "test-admin-token-of-32-characters"},
    "hub": {
        "defaults": {"defaultPublic": True},
        "defaultRules": {"clientPublish": True},
    },
    "auth": {"providerAllowPrivateNetworks": True},
    "journal": {"export": {"enabled": False}},
    "debug": {"level": "error"},
}


class RunningNode:
    """A started node and where to find it."""

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def port(self) -> int:
        return self.node.port.port

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def set(self, kind: str, hub: str, id: str, value: msgspec.Struct) -> None:
        """Change a setting as an administrator would, and wait until it is applied."""
        await self.node.storage.settings.put(kind, hub, id, msgspec.json.encode(value))
        await self.node.directory.refresh(hub)


StartNode = Callable[..., Awaitable[RunningNode]]


def make_config(**changes: Any) -> Config:
    """The open configuration with some categories changed field by field."""
    values = {name: dict(fields) for name, fields in OPEN_HUB.items()}
    for category, fields in changes.items():
        values[category] = {**values.get(category, {}), **fields}
    return msgspec.convert(values, Config)


@pytest.fixture
async def start_node(tmp_path: Path) -> AsyncIterator[StartNode]:
    """Start nodes with `await start_node(category={...})`; they stop when the test ends."""
    started: list[Node] = []

    async def start(**changes: Any) -> RunningNode:
        node = Node(make_config(**changes))
        await node.start()
        started.append(node)
        return RunningNode(node)

    yield start
    for node in reversed(started):
        await node.stop()


@pytest.fixture
async def node(start_node: StartNode) -> RunningNode:
    """One node, open to everyone."""
    return await start_node()
