"""What a figure was measured on: without it, a figure means nothing."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

import msgspec

__all__ = ["Machine", "describe_machine", "short_commit"]


class Machine(msgspec.Struct, frozen=True):
    """The machine, and the versions of what ran on it."""

    cores: int
    cpu: str
    memory_bytes: int
    kernel: str
    python: str
    load_average: float
    """Over the last minute, before the run: other work makes figures worse."""


def describe_machine() -> Machine:
    """Return what this machine is."""
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        cpu=_cpu_model(Path("/proc/cpuinfo").read_text()),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        kernel=platform.release(),
        python=platform.python_version(),
        load_average=round(os.getloadavg()[0], 2),
    )


def _cpu_model(cpuinfo: str) -> str:
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def short_commit(directory: Path) -> str:
    """Return the short id of the commit in `directory`, with `+` if files differ from it, or `none`."""
    git = shutil.which("git")
    if git is None:
        return "none"
    commit = _git(git, directory, "rev-parse", "--short", "HEAD")
    if not commit:
        return "none"
    return commit + ("+" if _git(git, directory, "status", "--porcelain", "-uno") else "")


def _git(git: str, directory: Path, *arguments: str) -> str:
    done = subprocess.run(  # noqa: S603 - fixed arguments
        [git, "-C", str(directory), *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.stdout.strip() if done.returncode == 0 else ""
