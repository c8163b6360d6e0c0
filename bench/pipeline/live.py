"""The whole of it beside a real node: how long an alert takes, and what doing nothing costs."""

import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from arauto.client.blocking import Client
from arauto.pipeline.rules.stream import PLAN_VERSION, RULES
from bench.pipeline.procs import cpu_s

__all__ = ["Idle", "Latency", "measure_idle", "measure_latency"]

_HUB, _TOKEN, _ALERTS = "shop", "bench-token-of-32-characters-0000", "alerts:bench"
_START_S = 120.0
_BATCH = 100
_EVENTS_PER_ALERT = 10
#: How long alerts may take to come before the run is given up.
_LATE_S = 180.0
#: An alert for every key whose `a` is followed by a `b`; the alert tells which `b` it was.
_RULE = """
rule: pair
version: 1
from: {channels: ["events:*"]}
key: [payload.k]
sequence:
  - {as: a, where: payload.t = 'a'}
  - {as: b, where: payload.t = 'b'}
within: 60s
emit: {channel: "alerts:bench", payload: {sent: "b.payload.sent"}}
"""


@dataclass(frozen=True, slots=True)
class Latency:
    """From the publication of the event that completes a match to the alert at a subscriber."""

    events_per_s: float
    alerts: int
    missing: int
    """Alerts that did not come in time; percentiles are without them."""
    p50_s: float
    p95_s: float
    p99_s: float


@dataclass(frozen=True, slots=True)
class Idle:
    """What the pipeline used while nothing was published."""

    seconds: float
    core_share: float


class _Pair:
    """A node and a pipeline, each a process of its own."""

    def __init__(self, directory: Path, port: int, *, archive: bool = True) -> None:
        self.admin = f"http://127.0.0.1:{port + 1}"
        self.url = f"ws://127.0.0.1:{port}"
        self._directory = directory
        config = {
            "connection": {"port": port},
            "admin": {"port": port + 1, "token": _TOKEN},
            "storage": {"dataDir": str(directory / "data")},
            "hub": {
                "defaults": {"defaultPublic": True, "quotas": {"sessionMessagesPerS": 0}},
                "defaultRules": {"store": "all", "clientPublish": True},
            },
            "pipeline": {"metricsPort": 0},
            "journal": {"export": {"enabled": archive}},
            "debug": {"level": "warning"},
        }
        self._config = directory / "config.json"
        self._config.write_text(json.dumps(config))
        self._processes: list[subprocess.Popen[bytes]] = []
        self.http = httpx.Client(
            base_url=self.admin, headers={"authorization": f"Bearer {_TOKEN}"}, timeout=60
        )

    def __enter__(self) -> "_Pair":
        try:
            self._start("serve")
            self._started(self._node_is_up)
            answer = self.http.put(
                f"/v1/hubs/{_HUB}/correlations/pair", json={"text": _RULE, "enabled": True}
            )
            answer.raise_for_status()
            self.pipeline = self._start("pipeline", "run")
            checkpoints = self._directory / "data" / "lake" / "_checkpoints"
            commits = checkpoints / RULES / f"v{PLAN_VERSION}" / "commits"
            self._started(lambda: any(commits.glob("[0-9]*")))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.http.close()

    def _start(self, *arguments: str) -> int:
        with (self._directory / f"{arguments[0]}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "arauto", *arguments, "--config", str(self._config)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)
        return process.pid

    def _node_is_up(self) -> bool:
        try:
            return self.http.get("/healthz").status_code == 200
        except httpx.TransportError:
            return False

    def _started(self, condition: Callable[[], bool]) -> None:
        if not _until(condition, _START_S):
            raise RuntimeError(f"did not start; see {self._directory}")


def _until(condition: Callable[[], bool], wait_s: float) -> bool:
    """Look again and again; whether it became so in time."""
    end_s = time.monotonic() + wait_s
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.2)
    return True


def measure_latency(
    directory: Path,
    *,
    events_per_s: int,
    seconds: float,
    archive: bool = True,
    warm_up_s: float = 90.0,
    port: int = 28_100,
) -> Latency:
    """Publish at a steady rate and take the age of each alert when it arrives.

    Args:
        directory: made, for data and logs.
        events_per_s: the rate.
        seconds: how long it is measured.
        archive: whether the node exports segments, so that there is something to archive beside the rules.
        warm_up_s: Java compiles what it runs for the first minutes; what is published then does not count.
        port: the first of two.
    """
    ages: list[tuple[float, float]] = []
    directory.mkdir(parents=True)
    with (
        _Pair(directory, port, archive=archive) as pair,
        Client(pair.url, hub=_HUB) as client,
    ):
        # All alerts of a batch come at once.
        alerts = client.subscribe(_ALERTS, queue_len_max=1_000_000, queue_bytes_max=1 << 30)

        def listen() -> None:
            for message in alerts:
                sent_s = float(message.data["sent"])
                ages.append((sent_s, time.time() - sent_s))

        threading.Thread(target=listen, daemon=True).start()
        began = time.time()
        sent = _publish(pair.http, events_per_s, warm_up_s + seconds)
        # The slowest alerts count too: without them the figure were the better the later they come.
        wanted = sent // _EVENTS_PER_ALERT
        _until(lambda: len(ages) >= wanted, _LATE_S)
        took = [age for sent_s, age in ages if sent_s >= began + warm_up_s]
    cuts = statistics.quantiles(took, n=100)
    rate = sent / (warm_up_s + seconds)
    return Latency(rate, len(took), max(0, wanted - len(ages)), cuts[49], cuts[94], cuts[98])


def _publish(http: httpx.Client, events_per_s: int, seconds: float) -> int:
    """Batches of events at even distances; one in ten completes a match."""
    sent, began = 0, time.monotonic()
    while (now := time.monotonic() - began) < seconds:
        while sent < now * events_per_s:
            at = time.time()
            messages = []
            for _ in range(_BATCH):
                kind = "a" if sent % 10 < 5 else ("b" if sent % 10 == 5 else "c")
                data = {"k": f"k{(sent // 10) % 200}", "t": kind, "sent": at}
                messages.append({"channel": f"events:{sent % 8}", "data": data})
                sent += 1
            http.post(f"/v1/hubs/{_HUB}/publish", json={"messages": messages}).raise_for_status()
        time.sleep(0.005)
    return sent


def measure_idle(directory: Path, *, seconds: float, port: int = 28_200) -> Idle:
    """Processor time of the pipeline beside a node on which nothing happens, with one rule and as shipped."""
    directory.mkdir(parents=True)
    with _Pair(directory, port) as pair:
        time.sleep(180)  # until what starts has started, and the silence has lasted
        before, began = cpu_s(pair.pipeline), time.monotonic()
        time.sleep(seconds)
        used, took = cpu_s(pair.pipeline) - before, time.monotonic() - began
    return Idle(took, used / took)
