"""`kill -9` under load, again and again: whatever was acknowledged is there, once, in its place."""

import asyncio
import os
import random
import time
from pathlib import Path

import pytest

from arauto.client import Backoff, Client, SubscriptionEvent, Tuning
from arauto.codec.events import Gap, SubscribeResult
from arauto.model import Serial
from arauto.storage.base import Kind
from arauto.storage.sqlite import open_sqlite
from arauto.testing.clock import FakeClock
from tests.chaos.conftest import Say, StartProcess
from tests.chaos.deadline import within
from tests.chaos.load import Load, Plan
from tests.chaos.processes import NodeProcess

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("CHAOS_KILLS", "10"))
_ACKS_MAX = 600


class Listener:
    """A subscriber with the ordinary client: through every kill it must see every message, once, in order."""

    def __init__(self, node: NodeProcess, channel: str) -> None:
        self._client = Client(node.url, hub="shop", tuning=_PATIENT)
        self._channel = channel
        self._task: asyncio.Task[None] | None = None
        self.seen: list[tuple[Serial, str]] = []
        self.holes: list[tuple[Serial | None, SubscriptionEvent]] = []
        """Last place seen, and what the node or the client said about what follows."""
        self.returns = 0
        self._news = asyncio.Event()

    async def start(self) -> None:
        await self._client.connect()
        ready = asyncio.Event()
        self._task = asyncio.create_task(self._listen(ready))
        self._task.add_done_callback(lambda _: self._news.set())
        await ready.wait()

    async def _listen(self, ready: asyncio.Event) -> None:
        subscription = self._client.subscribe(
            self._channel, on_event=self._note, queue_len_max=100_000
        )
        await subscription.ready()
        ready.set()
        async for message in subscription:
            self.seen.append((message.serial, message.id))
            self._news.set()

    def _note(self, event: SubscriptionEvent) -> None:
        if isinstance(event, SubscribeResult):
            self.returns += 1
            if self.returns > 1 and not event.recovered:
                self._note_hole(event)
        elif isinstance(event, Gap):
            self._note_hole(event)

    def _note_hole(self, event: SubscriptionEvent) -> None:
        self.holes.append((self.seen[-1][0] if self.seen else None, event))

    async def until_seen(self, last: Serial) -> None:
        while not self.seen or self.seen[-1][0] < last:
            if self._task is not None and self._task.done():
                await self._task  # it listens for ever: this raises what ended it
            self._news.clear()
            await self._news.wait()

    async def close(self) -> None:
        await self._client.close()
        if self._task is not None:
            await self._task


_PATIENT = Tuning(connect_timeout_s=60, backoff=Backoff(base_s=0.1, cap_s=0.2, stable_s=60))


@within(60 + 20 * KILLS)
async def test_nothing_acknowledged_is_lost_or_doubled_however_often_the_node_is_killed(
    start_process: StartProcess, tmp_path: Path, say: Say, seed: int
) -> None:
    began_s = time.monotonic()
    # Snapshots every half second, so that many kills fall between a snapshot and the cut of its log; and
    # a subscriber that comes back late is brought up to date, however far the others are.
    channel = {"documentSnapshotIntervalS": 0.5, "recoveryMax": 100_000}
    node = await start_process(channel=channel)
    load = Load(node, Plan(), seed)
    chance = random.Random(seed)
    listener = Listener(node, "orders")
    await listener.start()
    load.start()
    try:
        for _ in range(KILLS):
            await load.until_acked(chance.randint(1, _ACKS_MAX))
            await node.kill()
            await node.start()
            await load.check()
            await load.check_documents()
        await load.stop()
        messages = await load.check(again=True)
        documents = await load.check_documents()
        orders = load.books["orders"]
        assert orders.last is not None
        await listener.until_seen(orders.last)
    finally:
        await load.abandon()
        await listener.close()
    assert load.codes == {}, "nothing was refused"
    assert not listener.holes, f"the subscriber was told of a hole: {listener.holes}"
    places = {key: serial for serial, key in orders.stored}
    assert [serial for serial, _ in listener.seen] == [serial for serial, _ in orders.stored]
    assert all(places[key] == serial for serial, key in listener.seen)
    assert node.complaints() == []
    assert await node.terminate() == 0
    await _check_journal(tmp_path / "data", load)
    starts_s = sorted(node.starts_s)
    say(
        f"kill -9 × {KILLS} (seed {seed}): {messages.ok} messages and {documents.ok} changes ok, "
        f"0 lost, 0 duplicated, {load.unanswered} indefinite; subscriber saw {len(listener.seen)} in "
        f"order over {listener.returns} connections; start {starts_s[len(starts_s) // 2]:.1f} s "
        f"(median), {time.monotonic() - began_s:.0f} s in all"
    )


async def _check_journal(directory: Path, load: Load) -> None:
    """The store itself, opened without the node, holds the same: no row twice, no hole in the numbers."""
    storage = await open_sqlite(directory, "node-1", FakeClock())
    rows = await storage.journal.read(0, 10_000_000)
    await storage.close()
    assert [seq for seq, _ in rows] == list(range(1, len(rows) + 1))
    for channel, book in load.books.items():
        stored = [e for _, e in rows if e.kind is Kind.MESSAGE and e.channel == channel]
        assert [(Serial(e.epoch, e.offset), e.id) for e in stored] == book.stored
