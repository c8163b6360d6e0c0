"""Finds, installs and runs Autobahn|Testsuite, the public conformance suite for WebSocket servers.

The suite runs on Python 2.7 only. Its environment is built once, from hash-locked files beside this one,
and kept under `.cache/`; nothing of it enters the project's own environment.
"""

import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["CASES", "CASE_COUNT", "find_python27", "install", "run_fuzzing_client"]

#: Framing, pings, reserved bits, opcodes, fragmentation, UTF-8, close handling and auto-fragmentation.
#: Left out: 9 (limits and speed, measured elsewhere), 12 and 13 (compression, which is not offered).
CASES = ("1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*")
CASE_COUNT = 247

_HERE = Path(__file__).parent
_CACHE = _HERE.parents[2] / ".cache" / "autobahn"
_LOCKS = (_HERE / "virtualenv.txt", _HERE / "python27.txt")
#: virtualenv brings the last pip and setuptools for Python 2.7, and is not to look for others.
_AS_SHIPPED = ("--no-download", "--no-periodic-update")
_INSTALL_TIMEOUT_S = 480
_RUN_TIMEOUT_S = 240


def find_python27() -> str | None:
    """The path of a Python 2.7: from `PYTHON27`, from PATH, or from pyenv."""
    pyenv = glob.glob(os.path.expanduser("~/.pyenv/versions/2.7*/bin/python"))
    for candidate in (os.environ.get("PYTHON27"), shutil.which("python2.7"), *sorted(pyenv)):
        if candidate and _is_python27(candidate):
            return candidate
    return None


def _is_python27(path: str) -> bool:
    # Asked rather than believed: a pyenv shim is on PATH even when no 2.7 is active.
    probe = [path, "-c", "import sys; sys.exit(sys.version_info[:2] != (2, 7))"]
    try:
        return subprocess.run(probe, capture_output=True, timeout=30, check=False).returncode == 0
    except OSError:
        return False


def install(python27: str) -> Path:
    """Build the suite's environment unless it is there already; return the path of `wstest`."""
    key = hashlib.sha256(b"\0".join(lock.read_bytes() for lock in _LOCKS)).hexdigest()[:12]
    home = _CACHE / key
    installed = home / "installed"
    if not installed.exists():
        shutil.rmtree(home, ignore_errors=True)
        tool, suite = home / "virtualenv", home / "python27"
        _checked([sys.executable, "-m", "venv", str(tool)])
        _pip_install(tool / "bin" / "python", _LOCKS[0])
        _checked([str(tool / "bin" / "virtualenv"), *_AS_SHIPPED, "--python", python27, str(suite)])
        _pip_install(suite / "bin" / "python", _LOCKS[1])
        installed.touch()
    return home / "python27" / "bin" / "wstest"


def _pip_install(python: Path, lock: Path) -> None:
    # --no-deps: each lock is complete, and one old package asks for what Python 2.7 already has.
    # --no-build-isolation: the few that are not published as wheels are built by what is there already.
    as_locked = ("--no-deps", "--no-build-isolation", "--require-hashes")
    _checked([str(python), "-m", "pip", "install", *as_locked, "-r", str(lock)])


def _checked(command: Sequence[str]) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")


def run_fuzzing_client(wstest: Path, url: str, work: Path) -> dict[str, tuple[str, str]]:
    """Run all `CASES` against `url`; return case → (behaviour, behaviour at close)."""
    spec = {
        "outdir": "reports",
        "servers": [{"agent": "arauto", "url": url}],
        "cases": list(CASES),
        "exclude-cases": [],
    }
    (work / "spec.json").write_text(json.dumps(spec))
    command = [str(wstest), "-m", "fuzzingclient", "-s", "spec.json"]
    done = subprocess.run(
        command, cwd=work, capture_output=True, text=True, timeout=_RUN_TIMEOUT_S, check=False
    )
    index = work / "reports" / "index.json"
    if done.returncode or not index.exists():
        raise RuntimeError(f"wstest ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    cases = json.loads(index.read_text())["arauto"]
    return {case: (row["behavior"], row["behaviorClose"]) for case, row in cases.items()}
