"""Half the load it can bear, for as long as one likes: a node neither grows nor slows down."""

import asyncio
import os
import signal
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from arauto.model import When
from arauto.settings import NamespaceSettings, Rules
from arauto.storage.sqlite import open_sqlite
from arauto.testing.clock import FakeClock
from tests.chaos.conftest import Say
from tests.chaos.deadline import within
from tests.chaos.processes import NodeProcess, base_config, merged, raise_file_limit
from tests.chaos.soak import Interval, Tenant
from tests.chaos.watched import TASKS

MINUTES = float(os.environ.get("SOAK_MINUTES", "10"))
_TENANTS, _READERS = 10, 10
_RECONNECTS_PER_MIN = 1_000
_CALIBRATION_S = 5.0
_TICK_S = 0.02
_LOOKS = 20
"""Lines in the table."""


@dataclass(frozen=True)
class Look:
    """One line of the table."""

    at_s: float
    rate: float
    deliveries: float
    p50_ms: float
    p99_ms: float
    rss_mb: float
    files: int
    threads: int
    tasks: int
    reconnects: int
    refused: int

    @staticmethod
    def heading() -> str:
        return (
            f"{'min':>6} {'msg/s':>7} {'deliv/s':>8} {'p50 ms':>7} {'p99 ms':>7} {'RSS MB':>7} "
            f"{'files':>5} {'thr':>4} {'tasks':>5} {'reconn':>6} {'ref':>4}"
        )

    def __str__(self) -> str:
        return (
            f"{self.at_s / 60:>6.2f} {self.rate:>7.0f} {self.deliveries:>8.0f} {self.p50_ms:>7.1f} "
            f"{self.p99_ms:>7.1f} {self.rss_mb:>7.1f} {self.files:>5} {self.threads:>4} "
            f"{self.tasks:>5} {self.reconnects:>6} {self.refused:>4}"
        )


class Soak:
    """Runs the load and looks at the node."""

    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self.interval = Interval()
        self.tenants = [
            Tenant(node.url, f"tenant{number}", lambda: self.interval) for number in range(_TENANTS)
        ]
        self.looks: list[Look] = []
        self.capacity = 0.0
        self._began_s = 0.0

    async def run(self, seconds: float) -> None:
        for tenant in self.tenants:
            await tenant.open(_READERS)
        counts = await asyncio.gather(*(t.saturate(_CALIBRATION_S) for t in self.tenants))
        self.capacity = sum(counts) / _CALIBRATION_S
        self.interval = Interval()
        self._began_s = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._publish(self.capacity / 2)),
                group.create_task(self._visit()),
            ]
            for _ in range(_LOOKS):
                await self._look(seconds / _LOOKS)
            for task in tasks:
                task.cancel()

    async def _publish(self, rate: float) -> None:
        """So many messages per second over all tenants, whether or not answers come."""
        sent = 0
        at = 0
        while True:
            now_s = time.perf_counter()
            due = int((now_s - self._began_s) * rate) - sent
            share = max(1, due // _TENANTS)
            while due > 0:
                count = min(due, share, 500)
                self.tenants[at % _TENANTS].publish(count, now_s)
                due -= count
                sent += count
                at += 1
            await asyncio.sleep(_TICK_S)

    async def _visit(self) -> None:
        """So many connections per minute that come, catch up and break off."""
        made = 0
        async with asyncio.TaskGroup() as group:
            while True:
                due = int((time.perf_counter() - self._began_s) * _RECONNECTS_PER_MIN / 60)
                for number in range(made, due):
                    group.create_task(self.tenants[number % _TENANTS].visit())
                made = due
                await asyncio.sleep(_TICK_S)

    async def _look(self, seconds: float) -> None:
        delivered = sum(tenant.deliveries() for tenant in self.tenants)
        self.interval = interval = Interval()
        began_s = time.perf_counter()
        await asyncio.sleep(seconds)
        took_s = time.perf_counter() - began_s
        delivered = sum(tenant.deliveries() for tenant in self.tenants) - delivered
        node = self.node
        look = Look(
            at_s=time.perf_counter() - self._began_s,
            rate=interval.published / took_s,
            deliveries=(delivered + len(interval.latencies_ms)) / took_s,
            p50_ms=interval.percentile(0.5),
            p99_ms=interval.percentile(0.99),
            rss_mb=node.rss_bytes() / 1e6,
            files=node.files(),
            threads=node.threads(),
            tasks=await self._tasks(),
            reconnects=interval.reconnects,
            refused=interval.refused,
        )
        self.looks.append(look)

    async def _tasks(self) -> int:
        line = await self.node.ask(signal.SIGUSR1, TASKS)
        return int(line.removeprefix(TASKS))

    async def close(self) -> None:
        for tenant in self.tenants:
            await tenant.close()


def slope_per_hour(looks: Sequence[Look]) -> float:
    """By how much of itself memory grows in an hour, by least squares."""
    at = [look.at_s / 3_600 for look in looks]
    rss = [look.rss_mb for look in looks]
    return statistics.linear_regression(at, rss).slope / statistics.mean(rss)


async def store_orders(data_dir: Path) -> None:
    """Store the channel `orders` of every tenant; everything else lives in memory."""
    storage = await open_sqlite(data_dir, "node-1", FakeClock())
    rules = Rules(public=True, client_publish=True, store=When.ALL)
    for number in range(_TENANTS):
        hub = f"tenant{number}"
        await storage.settings.put("rules", hub, "stored", msgspec.json.encode(rules))
        bound = msgspec.json.encode(NamespaceSettings(rules="stored"))
        await storage.settings.put("channel", hub, "orders", bound)
    await storage.close()


@pytest.mark.soak
@within(MINUTES * 60 + 120)
async def test_a_node_under_half_its_capacity_neither_grows_nor_slows_down(
    tmp_path: Path, say: Say
) -> None:
    raise_file_limit()
    await store_orders(tmp_path / "data")
    changes = {
        "hub": {"defaultRules": {"store": "never"}},
        # As in production, only sooner, so that a short soak sees it too.
        "journal": {"export": {"enabled": True, "intervalS": 30}},
    }
    config = merged(base_config(tmp_path / "data"), changes)
    node = NodeProcess(config, tmp_path, program=("tests.chaos.watched",))
    await node.start()
    soak = Soak(node)
    try:
        await soak.run(MINUTES * 60)
        lost = sum(tenant.lost_readers for tenant in soak.tenants)
        holes = [hole for tenant in soak.tenants for hole in tenant.holes]
        unanswered = sum(tenant.unanswered for tenant in soak.tenants)
        complaints = node.complaints()
    finally:
        await soak.close()
        await node.terminate()
    steady = soak.looks[_LOOKS // 4 :]
    thirds = len(steady) // 3
    p99 = [look.p99_ms for look in steady]
    first, last = statistics.median(p99[:thirds]), statistics.median(p99[-thirds:])
    growth = steady[-1].rss_mb / steady[0].rss_mb - 1
    say(f"soak: {MINUTES:g} min at half of {soak.capacity:.0f} messages/s, {_TENANTS} hubs")
    say(Look.heading())
    for look in soak.looks:
        say(str(look))
    say(
        f"after warm-up: memory {growth:+.1%} ({slope_per_hour(steady):+.1%} per hour), p99 "
        f"{first:.1f} → {last:.1f} ms; {lost} readers lost, {len(holes)} holes, 0 duplicated"
    )
    assert complaints == []
    assert (lost, unanswered, holes) == (0, 0, [])
    assert sum(look.refused for look in soak.looks) == 0
    assert growth < 0.05
    for name in ("files", "threads", "tasks"):
        counts = [getattr(look, name) for look in steady]
        assert counts[-1] <= counts[0] + 20, f"{name} grow: {counts}"
    # Generous: the machine is shared, and drift shows over hours.
    assert last < 2 * first + 20
