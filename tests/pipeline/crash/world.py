"""A real node, a real pipeline beside it, steady traffic, and ways to kill the pipeline."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import httpx

from arauto.pipeline.rules.stream import PLAN_VERSION, QUERIES
from tests.chaos.processes import free_port
from tests.pipeline.waiting import LAST_RESORT_S, until

__all__ = ["ALERTS", "HUB", "RULES", "World"]

HUB, TOKEN = "shop", "test-admin-token-of-32-characters"
ALERTS = "alerts:orders"
#: One rule that runs in SQL windows and one that keeps state.
RULES = {
    "busy": """
rule: busy
version: 1
from: {channels: ["orders:*"]}
key: ["payload.sku"]
count: {}
window: 2s
when: "count() >= 2"
emit: {channel: "alerts:orders", payload: {sku: "key.sku", count: "count()"}}
""",
    "twice": """
rule: twice
version: 1
from: {channels: ["orders:*"]}
key: ["payload.sku"]
sequence:
  - {as: one, where: "payload.n % 5 = 1"}
  - {as: two, where: "payload.n % 5 = 3"}
within: 5s
skip: past_last
emit: {channel: "alerts:orders", payload: {from: "one.payload.n", to: "two.payload.n"}}
""",
}


class World:
    """Everything a crash test needs, in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lake = directory / "data" / "lake"
        self._config = directory / "config.json"
        self.admin = f"http://127.0.0.1:{free_port()}"
        self._metrics_port = free_port()
        self._node: subprocess.Popen[bytes] | None = None
        self._pipeline: subprocess.Popen[bytes] | None = None
        self._traffic_over = threading.Event()
        self._traffic: threading.Thread | None = None
        self.published = 0
        self._write_config()
        self.http = httpx.Client(
            base_url=self.admin, headers={"authorization": f"Bearer {TOKEN}"}, timeout=LAST_RESORT_S
        )

    def _write_config(self) -> None:
        config = {
            "node": {"name": "n1"},
            "connection": {"port": free_port()},
            "admin": {"port": int(self.admin.rpartition(":")[2]), "token": TOKEN},
            "storage": {"dataDir": str(self.directory / "data")},
            "journal": {"heartbeatIntervalS": 1, "export": {"intervalS": 1, "rowsMax": 500}},
            # A result may be published long before the batch it came from is committed.
            "hub": {"defaultRules": {"store": "all", "idempotencyS": 3600}},
            "channel": {"historyPageSize": 1_000},
            "pipeline": {
                "metricsPort": self._metrics_port,
                "archiveIntervalS": 1,
                "rollupIntervalS": 1,
                "compactAfterFiles": 20,
            },
            "debug": {"level": "warning"},
        }
        self._config.write_text(json.dumps(config))

    # --- node and traffic --------------------------------------------------------------------------

    def start_node(self) -> None:
        self._node = self._spawn("node", "serve")
        self.until(self._is_up, "the node is up")
        for name, text in RULES.items():
            answer = self.http.put(
                f"/v1/hubs/{HUB}/correlations/{name}", json={"text": text, "enabled": True}
            )
            assert answer.status_code == 200, answer.text

    def start_traffic(self) -> None:
        self._traffic = threading.Thread(target=self._publish, daemon=True)
        self._traffic.start()

    def end_traffic(self) -> None:
        self._traffic_over.set()
        assert self._traffic is not None
        self._traffic.join()

    def _publish(self) -> None:
        while not self._traffic_over.wait(0.1):
            batch = []
            for _ in range(10):
                self.published += 1
                data = {"n": self.published, "sku": f"s{self.published % 7}"}
                batch.append({"channel": f"orders:{self.published % 3}", "data": data})
            answer = self.http.post(f"/v1/hubs/{HUB}/publish", json={"messages": batch})
            assert answer.status_code == 200, answer.text

    # --- pipeline ----------------------------------------------------------------------------------

    def start_pipeline(self) -> None:
        self._pipeline = self._spawn("pipeline", "pipeline", "run", "--master", "local[2]")

    def kill_all(self) -> None:
        """Driver, Java and workers, at once and without a word."""
        assert self._pipeline is not None
        os.killpg(self._pipeline.pid, signal.SIGKILL)
        self._pipeline.wait()

    def kill_one(self, chance: random.Random) -> str:
        """One process of the pipeline: Java, a Python worker, or the driver; which it was."""
        assert self._pipeline is not None
        group = [pid for pid in _pids() if _group_of(pid) == self._pipeline.pid]
        pid = chance.choice(group)
        name = _command_of(pid)
        os.kill(pid, signal.SIGKILL)
        return name

    def kill_java(self) -> str:
        """Its command line."""
        assert self._pipeline is not None
        group = [pid for pid in _pids() if _group_of(pid) == self._pipeline.pid]
        (java,) = [pid for pid in group if _command_of(pid) == "java"]
        command = Path(f"/proc/{java}/cmdline").read_text()
        os.kill(java, signal.SIGKILL)
        return command

    def shows(self, metric: str, query: str) -> float | None:
        """What the pipeline's metrics say of a query; None while nobody answers, or nothing is known."""
        try:
            page = httpx.get(f"http://127.0.0.1:{self._metrics_port}/metrics").text
        except httpx.TransportError:
            return None
        start = f'arauto_pipeline_{metric}{{query="{query}"}} '
        found = [line for line in page.splitlines() if line.startswith(start)]
        return float(found[0].removeprefix(start)) if found else None

    def stop_pipeline(self) -> None:
        assert self._pipeline is not None
        self._pipeline.terminate()
        self._pipeline.wait(LAST_RESORT_S)
        assert self._pipeline.returncode == 0, self.log("pipeline")

    @property
    def node_ended(self) -> bool:
        return self._node is not None and self._node.poll() is not None

    @property
    def pipeline_ended(self) -> bool:
        return self._pipeline is not None and self._pipeline.poll() is not None

    @property
    def exit_code(self) -> int | None:
        return None if self._pipeline is None else self._pipeline.returncode

    # --- looking on --------------------------------------------------------------------------------

    def rules_started(self) -> bool:
        """Whether the rules know where they began; what comes later is theirs.

        Old batches are deleted, so the first one of one query may have gone before another query begins.
        """
        begun = (checkpoint / "offsets" for checkpoint in self._checkpoints())
        return all(any(each.glob("[0-9]*")) for each in begun)

    def rules_watermark_ms(self) -> int:
        """How far time has come for the rules, in their last finished batch: all before that is decided and
        published."""
        return min(map(_watermark_ms, self._checkpoints()))

    def _checkpoints(self) -> list[Path]:
        place = self.lake / "_checkpoints"
        return [place / query / f"v{PLAN_VERSION}" for query in QUERIES]

    def written_batches(self) -> set[Path]:
        """Bronze batches that Spark has written, committed or not."""
        return set((self.lake / "bronze" / "journal" / "data").glob("q=*/b=*/_SUCCESS"))

    def commits(self) -> int:
        return len(list((self.lake / "bronze" / "journal" / "_commits").glob("*.json")))

    def log(self, name: str) -> str:
        path = self.directory / f"{name}.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else f"no {path.name}"

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Look again and again until it is so, or node or pipeline have ended."""
        until(
            condition,
            what,
            is_over=lambda: self.pipeline_ended or self.node_ended,
            said=lambda: f"{self.log('node')}\n{self.log('pipeline')}",
        )

    def close(self) -> None:
        self._traffic_over.set()
        for process in (self._pipeline, self._node):
            if process is not None and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.http.close()

    def _is_up(self) -> bool:
        try:
            return self.http.get("/healthz").status_code == 200
        except httpx.TransportError:
            return False

    def _spawn(self, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "arauto", *arguments, "--config", str(self._config)]
        with (self.directory / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )


def _watermark_ms(checkpoint: Path) -> int:
    done = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")]
    if not done:
        return 0
    lines = (checkpoint / "offsets" / str(max(done))).read_text().splitlines()
    return int(json.loads(lines[1])["batchWatermarkMs"])


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def _command_of(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "gone"
    if b"java" in words[0]:
        return "java"
    return "worker" if any(b"daemon" in word or b"worker" in word for word in words) else "driver"
