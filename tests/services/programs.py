"""Finds server programs and runs them; shared by the servers of this folder."""

import glob
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

__all__ = ["ServerProcess", "find_program", "service_directory", "unprivileged_user"]


def find_program(package: str, *patterns: str) -> Path:
    """Return the program's path, or skip the test loudly, naming the package to install."""
    for pattern in patterns:
        found = shutil.which(pattern) or next(iter(sorted(glob.glob(pattern), reverse=True)), None)
        if found:
            return Path(found)
    pytest.skip(f"NOT CHECKED: {patterns[0]} is missing; install the package {package}")


def unprivileged_user(*names: str) -> str | None:
    """Return who to run a server as that refuses to run as root; None if we are not root ourselves."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in names if name in known)


def service_directory(name: str, user: str | None) -> Path:
    """Return a new directory that the server's user can reach (a test's own tmp_path is closed to it)."""
    path = Path(tempfile.mkdtemp(prefix=f"arauto-{name}-"))
    if user is not None:
        shutil.chown(path, user)
    return path


class ServerProcess:
    """A server in the foreground, its output in a file."""

    def __init__(self, command: list[str], log: Path, user: str | None = None) -> None:
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, user=user, start_new_session=True
            )

    def check(self) -> None:
        """Fail with the server's own words if it has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(f"the server ended: {self.log.read_text()[-2000:]}")

    def stop(self, signal_number: int, timeout_s: float = 20) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
        self.process.wait(timeout_s)
