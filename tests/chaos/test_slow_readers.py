"""Readers that stall or crawl: they cost the node their buffer and nothing else, and in the end they go."""

import asyncio
import statistics
import time

import pytest

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
from arauto.errors import Code
from tests.chaos.conftest import Say, StartProcess
from tests.chaos.deadline import within
from tests.chaos.link import Link, open_link
from tests.chaos.processes import NodeProcess, raise_file_limit
from tests.chaos.raw import RawReader

pytestmark = pytest.mark.slow

_READERS, _STALLED, _CRAWLING = 180, 10, 10
_SEND_BUFFER_BYTES = 262_144
_BATCH, _PAYLOAD_BYTES = 50, 4_000
#: What the slow ones leave unread is more than the system (4 MB) and the node together keep for them.
_ROUNDS = 30

#: What may come on top of the slow readers' buffers: the allocator, and the sockets themselves.
_SLACK_BYTES = 16_000_000


class Audience:
    """Everyone who reads properly, and whether all have heard all."""

    def __init__(self) -> None:
        self.links: list[Link] = []
        self.heard: list[list[int]] = []
        self.count = 0
        self._missing = 0
        self._complete = asyncio.Event()

    async def open(self, node: NodeProcess, count: int) -> None:
        for at in range(count):
            self.heard.append([])
            link = await open_link(node.url, on_event=lambda event, at=at: self._note(at, event))  # type: ignore[misc]
            reply = await link.call(SubscribeRequest(items=(SubscribeItem(channel="feed"),)))
            assert isinstance(reply, SubscribeReply)
            self.links.append(link)

    def _note(self, at: int, event: Event) -> None:
        if isinstance(event, Publication):
            self.heard[at].append(event.message.offset)
            self._missing -= 1
            if not self._missing:
                self._complete.set()

    async def round(self, publisher: Link) -> float:
        """Publish a batch and wait until everybody has all of it; return the seconds it took."""
        self._missing += _BATCH * len(self.links)
        self.count += _BATCH
        self._complete.clear()
        item = PublishItem(channel="feed", payload=bytes(_PAYLOAD_BYTES))
        began_s = time.perf_counter()
        ack = await publisher.call(PublishRequest(items=(item,) * _BATCH))
        assert isinstance(ack, Ack)
        await self._complete.wait()
        return time.perf_counter() - began_s


async def crawl(reader: RawReader) -> None:
    """A byte per second, until the connection is gone."""
    while await reader.read_byte():  # noqa: ASYNC110 - being slow is its task
        await asyncio.sleep(1)


@within(120)
async def test_readers_that_stall_or_crawl_cost_their_buffer_and_nobody_else_anything(
    start_process: StartProcess, say: Say
) -> None:
    raise_file_limit()
    node = await start_process(
        connection={"ws": {"sendBufferBytes": _SEND_BUFFER_BYTES}},
        hub={"defaultRules": {"store": "never", "liveHistoryLen": 0}},
    )
    audience = Audience()
    await audience.open(node, _READERS)
    publisher = await open_link(node.url)
    alone_s = [await audience.round(publisher) for _ in range(_ROUNDS)]
    rss_before = node.rss_bytes()

    slow = [RawReader() for _ in range(_STALLED + _CRAWLING)]
    for reader in slow:
        await reader.open(node.port, "shop", "feed")
    crawling = [asyncio.create_task(crawl(reader)) for reader in slow[_STALLED:]]
    try:
        beside_s, rss = [], []
        for _ in range(_ROUNDS):
            beside_s.append(await audience.round(publisher))
            rss.append(node.rss_bytes())
        codes = [await reader.drain() for reader in slow[:_STALLED]]
        for task in crawling:
            task.cancel()
        await asyncio.wait(crawling)
        codes += [await reader.drain() for reader in slow[_STALLED:]]
    finally:
        for task in crawling:
            task.cancel()
        for reader in slow:
            reader.close()
        for link in [*audience.links, publisher]:
            await link.close()

    everything = list(range(1, audience.count + 1))
    assert all(heard == everything for heard in audience.heard)
    assert all(link.close_code == 0 for link in audience.links)
    assert set(codes) <= {0, int(Code.SLOW_CONSUMER)}, "cut, or told why"
    growth = max(rss) - rss_before
    allowed = len(slow) * _SEND_BUFFER_BYTES + _SLACK_BYTES
    assert growth < allowed, f"memory grew by {growth} bytes, {allowed} allowed"
    assert node.complaints() == []
    before, beside = statistics.median(alone_s), statistics.median(beside_s)
    # Generous, because the machine is shared; a reader that holds up the others would add seconds.
    assert beside < 2 * before + 0.1
    deliveries = sum(map(len, audience.heard))
    told = sum(map(bool, codes))
    say(
        f"{_STALLED} stalled and {_CRAWLING} one-byte readers among {_READERS + len(slow)}: "
        f"{deliveries} deliveries ok, 0 lost, 0 duplicated; rounds of {_BATCH} × {_READERS} took "
        f"{before * 1000:.0f} ms before and {beside * 1000:.0f} ms beside them (median); memory "
        f"+{growth / 1e6:.1f} MB of {allowed / 1e6:.1f}; {told} told 4002, {len(codes) - told} cut"
    )
