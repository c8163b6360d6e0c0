"""The data pipeline beside the demo's node: a process of its own, started once the node is up.

Spark is large. Where it is not installed yet and the one who started the demo named a command that installs
it (`make run` does), that runs first; the node and its shops do not wait for it.
"""

import asyncio
import importlib.util
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import httpx
import msgspec

from arauto.config.environment import PREFIX
from arauto.config.schema import Config
from arauto.demo.hub import HUB
from arauto.demo.rules import RULES
from arauto.node import Node

__all__ = ["STOP_WAIT_S", "Companion", "can_start", "without_settings"]

_LOG_NAME = "pipeline.log"
_CONFIG_NAME = "pipeline.json"
STOP_WAIT_S = 20.0


def can_start(setup: str) -> bool:
    """Whether there is a pipeline to start, or a way to get one."""
    return _is_installed() or bool(setup)


class Companion:
    """The pipeline's process.

    Args:
        data_dir: the node's data directory; the lake and the log lie there too.
        setup: the command that installs the pipeline where it is not installed; "" = there is none.
    """

    def __init__(self, data_dir: Path, setup: str) -> None:
        self._dir = data_dir
        self._setup = setup
        self._process: asyncio.subprocess.Process | None = None
        self.log = data_dir / _LOG_NAME
        self.state = "waits for the node"
        """What it is doing, for people."""

    @property
    def is_running(self) -> bool:
        """Whether ending it may take a while."""
        return self._process is not None and self._process.returncode is None

    async def run(self, node: Node, config: Config) -> None:
        """Set the rules, then run the pipeline until cancelled."""
        await _set_rules(node)
        if not _is_installed() and not await self._install():
            return
        self.state = "starts Spark"
        config_file = self._write_config(node, config)
        arguments = ["-m", "arauto", "pipeline", "run", "--config", str(config_file)]
        # It stops with us, whatever ends us; and Ctrl-C is ours to pass on.
        arguments.append("--with-parent")
        try:
            code = await self._call([sys.executable, *arguments], without_settings(os.environ))
            self.state = f"ended with code {code}; see {self.log}"
        finally:
            await self._end()

    async def _install(self) -> bool:
        self.state = "is being installed (Spark, once, about 450 MB)"
        code = await self._call(shlex.split(self._setup))
        importlib.invalidate_caches()
        if code or not _is_installed():
            self.state = f"could not be installed; see {self.log}"
            return False
        return True

    async def _call(self, command: list[str], environ: Mapping[str, str] | None = None) -> int:
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                env=environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return await self._process.wait()

    async def _end(self) -> None:
        """Let it finish its batches, and do not wait for ever."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(STOP_WAIT_S):
                await process.wait()
        except TimeoutError:
            self.kill()
            await process.wait()

    def kill(self) -> None:
        """End it at once, with the processes it started: Spark's would finish their batches first."""
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # it leads a session, and so a group

    def _write_config(self, node: Node, config: Config) -> Path:
        """The node's configuration with what it found out by itself: its port and its token."""
        replace = msgspec.structs.replace
        admin = replace(config.admin, port=node.admin_port.port, token=node.admin_token)
        settled = replace(config, admin=admin)
        path = self._dir / _CONFIG_NAME
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "wb") as file:
            # JSON is YAML.
            file.write(msgspec.json.encode(settled))
        return path


def without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without settings of nodes: the file says all of it, and they would win over it."""
    return {name: value for name, value in environ.items() if not name.startswith(PREFIX)}


async def _set_rules(node: Node) -> None:
    address = f"http://127.0.0.1:{node.admin_port.port}/v1/hubs/{HUB}/correlations"
    headers = {"authorization": f"Bearer {node.admin_token}"}
    async with httpx.AsyncClient(headers=headers, trust_env=False) as client:
        for name, text in RULES.items():
            answer = await client.put(f"{address}/{name}", json={"text": text, "enabled": True})
            answer.raise_for_status()


def _is_installed() -> bool:
    return importlib.util.find_spec("pyspark") is not None
