"""A node as a user runs it: `python -m arauto serve` in a process of its own, to be killed and starved."""

import asyncio
import contextlib
import json
import os
import random
import resource
import signal
import socket
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

__all__ = ["NodeProcess", "base_config", "free_port", "merged", "raise_file_limit"]

_ROOT = Path(__file__).parents[2]
_START_S = 60.0
_LOG_LINES_MAX = 2_000


def base_config(data_dir: Path) -> dict[str, Any]:
    """Open to everyone, everything stored with fsync, no quotas in the way of a load."""
    return {
        "storage": {"kind": "sqlite", "dataDir": str(data_dir)},
        "hub": {
            "defaults": {"defaultPublic": True, "quotas": {"sessionMessagesPerS": 0}},
            "defaultRules": {"clientPublish": True, "store": "all"},
            # Who comes back first may be anonymous, and the hub a stranger's until the others come.
            "strangers": {
                **{"sessionsMax": 0, "channelsMax": 0, "liveHistoryBytesMax": 0},
                **{"retainedBytesMax": 0, "backlogsBytesMax": 0, "documentsBytesMax": 0},
            },
        },
        "channel": {"historyPageSize": 1_000},
        "admin": {"port": 0, "token": "test-admin-token-of-32-characters"},
        "journal": {"export": {"enabled": False}},
        "debug": {"level": "warning"},
    }


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with the leaves of `changes` in place of its own."""
    result = dict(base)
    for name, value in changes.items():
        old = result.get(name)
        nested = isinstance(value, dict) and isinstance(old, dict)
        result[name] = merged(old, value) if nested and isinstance(old, dict) else value
    return result


def free_port() -> int:
    """A port nothing listens on.

    Below the range the system takes ports for outgoing connections from: while the node is down, one
    of those could otherwise be given the node's port, or even connect to itself.
    """
    for _ in range(1_000):
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no free port")


def raise_file_limit() -> int:
    """Let this process and those it starts open as many files as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class NodeProcess:
    """One node that can be started again and again on the same configuration and port."""

    def __init__(
        self,
        config: dict[str, Any],
        directory: Path,
        *,
        program: tuple[str, ...] = ("arauto", "serve"),
    ) -> None:
        """`program` is the module Python runs, and its first arguments."""
        self.port = free_port()
        self.config = merged(config, {"connection": {"port": self.port}})
        self.log: deque[str] = deque(maxlen=_LOG_LINES_MAX)
        self.starts_s: list[float] = []
        """How long each start took, until the node said that it is up."""
        self._config_file = directory / "config.yaml"
        self._program = program
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._up = asyncio.Event()
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._answer_prefix = "nothing was asked"

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    # --- life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start it and wait until it says that it is up.

        Raises:
            RuntimeError: it ended instead, with its last words.
        """
        # JSON is YAML.
        text = json.dumps(self.config)
        await asyncio.to_thread(self._config_file.write_text, text)
        began_s = time.monotonic()
        environ = {name: value for name, value in os.environ.items() if "ARAUTO" not in name}
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", *self._program, "--config", str(self._config_file)),
            cwd=_ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environ,
        )
        self._reading = asyncio.create_task(self._read(self._process))
        ended = asyncio.create_task(self._process.wait())
        up = asyncio.create_task(self._up.wait())
        try:
            async with asyncio.timeout(_START_S):
                await asyncio.wait({ended, up}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_up = up.done()
            for task in (ended, up):
                task.cancel()
            await asyncio.wait({ended, up})
        if not is_up:
            await self._reading
            raise RuntimeError(f"the node ended with {self._process.returncode}: {self.words()}")
        self.starts_s.append(time.monotonic() - began_s)

    async def wait_up(self) -> None:
        """Wait until it is up (again)."""
        await self._up.wait()

    async def kill(self) -> None:
        """End it as a power cut would: now, wherever it is."""
        await self._end(signal.SIGKILL)

    async def terminate(self) -> int:
        """Ask it to stop; return its exit code."""
        return await self._end(signal.SIGTERM)

    async def _end(self, number: signal.Signals) -> int:
        process = self._process
        assert process is not None
        self._up.clear()
        if process.returncode is None:
            process.send_signal(number)
        code = await process.wait()
        if self._reading is not None:
            await self._reading
        return code

    async def remove(self) -> None:
        if self._process is not None:
            await self.kill()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            text = line.decode(errors="replace").rstrip()
            self.log.append(text)
            if " is up, in " in text:
                self._up.set()
            elif not self._answer.done() and text.startswith(self._answer_prefix):
                self._answer.set_result(text)

    # --- looking at it -----------------------------------------------------------------------------

    def words(self) -> str:
        """What it said last."""
        return "\n".join(list(self.log)[-40:])

    def complaints(self) -> list[str]:
        """What no fault explains: exceptions that nobody handled."""
        signs = ("Traceback", "never retrieved", "background task failed", "a request failed")
        return [line for line in self.log if any(sign in line for sign in signs)]

    async def ask(self, number: signal.Signals, prefix: str) -> str:
        """Send it a signal that it answers with a line that starts with `prefix`; return the line."""
        assert self._process is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._answer_prefix = prefix
        self._process.send_signal(number)
        return await self._answer

    def rss_bytes(self) -> int:
        return int(self._status("VmRSS").split()[0]) * 1024

    def threads(self) -> int:
        return int(self._status("Threads"))

    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def _status(self, name: str) -> str:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return value.strip()
        raise KeyError(name)
