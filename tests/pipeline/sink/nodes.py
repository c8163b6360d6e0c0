"""A real node in a thread of its own, whose channels keep what was published to them."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from arauto.node import Node
from arauto.pipeline.node_api import NodeApi, Retry
from tests.integration.admin.conftest import TOKEN, NodeThread
from tests.integration.conftest import make_config
from tests.pipeline.waiting import LAST_RESORT_S

__all__ = ["QUICK", "TOKEN", "KeepingNode", "free_port", "running_node"]

#: Gives up soon, for tests in which nothing comes back.
QUICK = Retry(attempts_max=3, total_s=2, first_s=0.01, most_s=0.02)


class KeepingNode(NodeThread):
    """A node that stores every message."""

    def __init__(self, changes: dict[str, Any]) -> None:
        super().__init__()
        self._changes = changes

    async def _start(self) -> None:
        rules = {"clientPublish": True, "store": "all"}
        hub = {"defaults": {"defaultPublic": True}, "defaultRules": rules}
        self.node = Node(make_config(**{"hub": hub, **self._changes}))
        await self.node.start()

    def api(self, token: str = TOKEN) -> NodeApi:
        return NodeApi(self.url, token, retry=QUICK, timeout_s=LAST_RESORT_S)

    def put(self, path: str, body: Any) -> None:
        answer = httpx.put(
            self.url + path,
            json=body,
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=LAST_RESORT_S,
        )
        assert answer.is_success, answer.text

    def history(self, hub: str, channel: str) -> list[dict[str, Any]]:
        """Every message of a channel, oldest first."""
        found: list[dict[str, Any]] = []
        since = ""
        while True:
            params = {"channel": channel, "limit": "1000", "since": since}
            answer = httpx.get(
                f"{self.url}/v1/hubs/{hub}/history",
                params=params,
                headers={"Authorization": f"Bearer {TOKEN}"},
                timeout=LAST_RESORT_S,
            )
            assert answer.is_success, answer.text
            page = answer.json()
            found += page["messages"]
            if not page["more"]:
                return found
            since = f"{page['next']['epoch']}-{page['next']['offset']}"


@contextmanager
def running_node(**changes: Any) -> Iterator[KeepingNode]:
    node = KeepingNode(changes)
    with node:
        yield node


def free_port() -> int:
    """A port of this machine where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
