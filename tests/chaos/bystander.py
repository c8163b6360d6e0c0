"""Those whom a store's trouble does not concern: they use channels that are not stored, and newly connect."""

import asyncio

import msgspec

from arauto.codec.events import (
    Ack,
    Event,
    Publication,
    PublishItem,
    PublishRequest,
    SubscribeItem,
    SubscribeReply,
    SubscribeRequest,
)
from arauto.model import When
from arauto.settings import NamespaceSettings, Rules
from arauto.storage.base import Storage
from tests.chaos.link import Link, open_link
from tests.chaos.processes import NodeProcess

__all__ = ["Bystander", "put_free_namespace"]


async def put_free_namespace(storage: Storage) -> None:
    """Make the channels of the namespace `free` live without the store."""
    rules = Rules(public=True, client_publish=True, store=When.NEVER)
    await storage.settings.put("rules", "shop", "free", msgspec.json.encode(rules))
    bound = msgspec.json.encode(NamespaceSettings(rules="free"))
    await storage.settings.put("namespace", "shop", "free", bound)


class Bystander:
    """Publishes and listens on a channel that is not stored."""

    def __init__(self, node: NodeProcess) -> None:
        self._node = node
        self._link: Link | None = None
        self._heard: asyncio.Queue[bytes] = asyncio.Queue()
        self._count = 0

    async def start(self) -> None:
        self._link = await open_link(self._node.url, on_event=self._note)
        await _subscribe(self._link, "free:news")

    def _note(self, event: Event) -> None:
        if isinstance(event, Publication):
            self._heard.put_nowait(event.message.payload)

    async def check(self) -> None:
        """Publish, be acknowledged, and hear it."""
        assert self._link is not None
        self._count += 1
        payload = b"%d" % self._count
        item = PublishItem(channel="free:news", payload=payload)
        async with asyncio.timeout(10):
            ack = await self._link.call(PublishRequest(items=(item,)))
            assert isinstance(ack, Ack)
            assert ack.results[0].error is None
            assert await self._heard.get() == payload

    async def check_newcomer(self) -> None:
        """Connecting, and a channel nobody used before, also work."""
        self._count += 1
        link = await open_link(self._node.url)
        await _subscribe(link, f"free:{self._count}")
        await link.close()

    async def close(self) -> None:
        if self._link is not None:
            await self._link.close()


async def _subscribe(link: Link, channel: str) -> None:
    reply = await link.call(SubscribeRequest(items=(SubscribeItem(channel=channel),)))
    assert isinstance(reply, SubscribeReply), reply
    assert reply.results[0].error is None, reply
