"""A million channels and a hundred thousand sessions that came and went leave nothing behind."""

import asyncio
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from arauto.model import When
from arauto.settings import HubSettings, JwtSettings, NamespaceSettings, Quotas, Rules
from arauto.storage.sqlite import open_sqlite
from arauto.testing.clock import FakeClock
from tests.chaos.conftest import Say
from tests.chaos.deadline import within
from tests.chaos.link import Link, open_link
from tests.chaos.processes import NodeProcess, base_config, merged, raise_file_limit
from tests.chaos.visitors import JWT_SECRET, visit_all
from tests.chaos.watched import ALIVE, KINDS, MEMORY, TASKS

SESSIONS = int(os.environ.get("SOAK_SESSIONS", "100000"))
CHANNELS_PER_SESSION = 10
WAVES = 20
#: Waves until everything that is bounded has reached its bound.
WARM_UP_WAVES = 5
#: By how much a thing may be more at the end than after that: nothing grows with what came and went, but the
#: node is never seen quite at rest.
GROWTH_MAX = 0.05
MINUTES_MAX = 30.0

_KINDS = [kind.__name__ for kind in KINDS]
_KEPT_HUBS = ["kept0", "kept1", "kept2", "kept3"]
_BRIEF = {"presence": True, "occupancy": True, "liveHistoryLen": 10, "idempotencyS": 1}


@dataclass(frozen=True)
class Look:
    """One line of the table: the node at rest after a wave."""

    sessions: int
    channels: int
    took_s: float
    rss_mb: float
    files: int
    tasks: int
    alive: dict[str, int]
    memory: dict[str, int]

    @staticmethod
    def heading() -> str:
        kinds = " ".join(f"{name[:9]:>9}" for name in (*MEMORY, *_KINDS))
        return f"{'sessions':>8} {'channels':>9} {'s':>5} {'RSS MB':>7} {'files':>5} {'tasks':>5} {kinds}"

    def __str__(self) -> str:
        counts = " ".join(f"{count:>9}" for count in (*self.memory.values(), *self.alive.values()))
        return (
            f"{self.sessions:>8} {self.channels:>9} {self.took_s:>5.0f} {self.rss_mb:>7.1f} "
            f"{self.files:>5} {self.tasks:>5} {counts}"
        )


async def set_up_hubs(data_dir: Path) -> None:
    """Hubs whose sessions authenticate, and one namespace for each way in which a channel holds something."""
    storage = await open_sqlite(data_dir, "node-1", FakeClock())
    settings = HubSettings(
        default_public=True,
        jwt=JwtSettings(algorithm="HS256", secret=JWT_SECRET),
        quotas=Quotas(sessions_max=0, channels_max=0, session_messages_per_s=0),
    )
    open_to_all = Rules(public=True, client_publish=True, live_history_len=10)
    rules = {
        "note": msgspec.structs.replace(open_to_all, retain=When.ALL, retain_s=1),
        "once": msgspec.structs.replace(open_to_all, idempotency_s=1, presence=True),
        "log": msgspec.structs.replace(open_to_all, store=When.ALL),
    }
    for hub in _KEPT_HUBS:
        await storage.settings.put("hub", hub, "", msgspec.json.encode(settings))
        for name, value in rules.items():
            await storage.settings.put("rules", hub, name, msgspec.json.encode(value))
            bound = msgspec.json.encode(NamespaceSettings(rules=name))
            await storage.settings.put("namespace", hub, name, bound)
    await storage.close()


def config_of(data_dir: Path) -> dict[str, object]:
    """As in production, but what is idle is closed and forgotten after a second, not after minutes."""
    brief = {"closeTimeoutS": 1}
    return merged(
        base_config(data_dir),
        {
            "hub": {
                "closeTimeoutS": 1,
                "strangers": brief,
                "defaults": {"jwt": {"algorithm": "HS256", "secret": JWT_SECRET}},
                "defaultRules": {"store": "never", "retainS": 1, **_BRIEF},
            },
            "channel": brief,
            "session": {"restoreTtlS": 1},
        },
    )


class Turnover:
    """Wave after wave, and a look at the node after each."""

    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self.looks: list[Look] = []
        self._sessions = 0
        self._channels = 0
        self._stay: list[Link] = []

    async def run(self) -> None:
        # Who stays keeps the hubs open, and all that a hub remembers.
        self._stay = [await open_link(self.node.url, hub) for hub in _KEPT_HUBS]
        size = SESSIONS // WAVES
        for wave in range(WAVES):
            began_s = time.monotonic()
            hubs = [*_KEPT_HUBS, f"passing{wave}"]
            numbers = range(wave * size, (wave + 1) * size)
            self._channels += await visit_all(self.node.url, hubs, numbers, CHANNELS_PER_SESSION)
            self._sessions += size
            await self._look(began_s)

    async def _look(self, began_s: float) -> None:
        alive, memory = await self._at_rest()
        tasks = await self.node.ask(signal.SIGUSR1, TASKS)
        look = Look(
            sessions=self._sessions,
            channels=self._channels,
            took_s=time.monotonic() - began_s,
            rss_mb=self.node.rss_bytes() / 1e6,
            files=self.node.files(),
            tasks=int(tasks.removeprefix(TASKS)),
            alive=alive,
            memory=memory,
        )
        self.looks.append(look)

    async def _at_rest(self) -> tuple[dict[str, int], dict[str, int]]:
        """What is left once everything idle has closed, or after a minute; and who has memory then."""
        end_s = time.monotonic() + 60
        while True:
            line = await self.node.ask(signal.SIGUSR2, ALIVE)
            found: dict[str, int] = json.loads(line.removeprefix(ALIVE))
            alive = {name: found[name] for name in _KINDS}
            if alive == self.expected or time.monotonic() > end_s:
                return alive, {name: found[name] for name in MEMORY}
            await asyncio.sleep(0.5)

    @property
    def expected(self) -> dict[str, int]:
        """Those who stay, and their hubs."""
        stay = len(_KEPT_HUBS)
        nothing = {"Channel", "Feature", "Lane"}
        return {name: 0 if name in nothing else stay for name in _KINDS}

    async def close(self) -> None:
        for link in self._stay:
            await link.close()


@pytest.mark.soak
@within(MINUTES_MAX * 60)
async def test_channels_and_sessions_that_came_and_went_leave_nothing(
    tmp_path: Path, say: Say
) -> None:
    raise_file_limit()
    await set_up_hubs(tmp_path / "data")
    node = NodeProcess(config_of(tmp_path / "data"), tmp_path, program=("tests.chaos.watched",))
    await node.start()
    turnover = Turnover(node)
    began_s = time.monotonic()
    try:
        await turnover.run()
    finally:
        looks = turnover.looks
        say(
            f"turnover: {WAVES} waves in {time.monotonic() - began_s:.0f} s, the node at rest after each:"
        )
        say(Look.heading())
        for look in looks:
            say(str(look))
        complaints = node.complaints()
        await turnover.close()
        await node.terminate()
    warm, last = looks[WARM_UP_WAVES - 1], looks[-1]
    say(
        f"{last.channels} channels and {last.sessions} sessions came and went: memory "
        f"{warm.rss_mb:.1f} → {last.rss_mb:.1f} MB after warm-up"
    )
    assert complaints == []
    for look in looks:
        assert look.alive == turnover.expected, f"after {look.sessions} sessions"
    for name in ("blocks", "sqlite", "malloc"):
        counts = [look.memory[name] for look in looks[WARM_UP_WAVES - 1 :]]
        assert max(counts) < counts[0] * (1 + GROWTH_MAX), f"{name}: {counts}"
    assert last.rss_mb < warm.rss_mb * (1 + GROWTH_MAX)
    for name in ("files", "tasks"):
        counts = [getattr(look, name) for look in looks]
        assert counts[-1] <= counts[0] + 5, f"{name} grow: {counts}"
