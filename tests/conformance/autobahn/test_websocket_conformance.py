"""The real WebSocket gateway against Autobahn|Testsuite."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.autobahn import suite

_ACCEPTED = frozenset({"OK", "NON-STRICT", "INFORMATIONAL"})
_START_TIMEOUT_S = 20.0


def _unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_listening(server: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"the echo server does not listen (exit code {server.poll()})")


@pytest.fixture
def echo_url(tmp_path: Path) -> Iterator[str]:
    """An Arauto WebSocket gateway in its own process that sends every message back."""
    port = _unused_port()
    command = [sys.executable, "-m", "arauto.testing.echo_server", "--port", str(port)]
    log = tmp_path / "echo_server.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output) as server,
    ):
        try:
            _wait_until_listening(server, port)
            yield f"ws://127.0.0.1:{port}/echo"
            assert server.poll() is None, "the echo server died during the suite"
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
            print(log.read_text(errors="replace")[-4_000:])


@pytest.fixture(scope="session")
def wstest() -> Path:
    python27 = suite.find_python27()
    if python27 is None:
        pytest.skip(
            "WEBSOCKET CONFORMANCE NOT CHECKED: Autobahn|Testsuite needs a Python 2.7"
            " (set PYTHON27, or have python2.7 on PATH or in pyenv)"
        )
    return suite.install(python27)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_websocket_gateway_passes_the_autobahn_suite(
    wstest: Path, echo_url: str, tmp_path: Path
) -> None:
    results = suite.run_fuzzing_client(wstest, echo_url, tmp_path)
    bad = {case: result for case, result in results.items() if not _ACCEPTED.issuperset(result)}
    assert not bad, f"{len(bad)} of {len(results)} cases: {bad}"
    assert len(results) == suite.CASE_COUNT
