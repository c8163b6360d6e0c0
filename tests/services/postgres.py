"""A PostgreSQL server of our own: data directory, socket and all in a temporary place."""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]

from tests.services.programs import (
    ServerProcess,
    find_program,
    service_directory,
    unprivileged_user,
)

__all__ = ["PostgresServer"]

_START_S = 30


class PostgresServer:
    """One cluster. `new_schema` gives each test a place of its own."""

    def __init__(self) -> None:
        initdb = find_program("postgresql", "initdb", "/usr/lib/postgresql/*/bin/initdb")
        self._initdb = initdb.resolve()  # the other programs lie where the link points
        self._server = self._initdb.with_name("postgres")
        self._user = unprivileged_user("postgres", "nobody")
        self.directory = service_directory("pg", self._user)
        self._numbers = itertools.count(1)
        self._process: ServerProcess | None = None
        subprocess.run(
            f"{self._initdb} -D {self.directory}/data -U arauto -A trust -E UTF8".split(),
            user=self._user,
            check=True,
            capture_output=True,
            cwd=self.directory,
        )
        try:
            self.start()
        except BaseException:
            self.remove()
            raise

    def url(self, schema: str = "public") -> str:
        return f"postgresql://arauto@/postgres?host={self.directory}&search_path={schema}"

    def start(self) -> None:
        """Start and wait until it answers."""
        self._process = ServerProcess(
            f"{self._server} -D {self.directory}/data -k {self.directory} -c listen_addresses=".split(),
            self.directory / "log",
            self._user,
        )
        deadline = time.monotonic() + _START_S
        while True:
            self._process.check()
            if self._answers():
                return
            if time.monotonic() > deadline:
                raise TimeoutError("PostgreSQL did not start")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop cleanly, ending sessions."""
        if self._process is not None:
            self._process.stop(signal.SIGINT)

    def kill(self) -> None:
        """End every process of the server as a power cut would."""
        assert self._process is not None
        postmaster = self._process.process
        pids = [postmaster.pid, *_children_of(postmaster.pid)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        postmaster.wait()
        deadline = time.monotonic() + _START_S
        while any(_is_alive(pid) for pid in pids[1:]) and time.monotonic() < deadline:
            time.sleep(0.01)

    def remove(self) -> None:
        """Stop without tidying up, and take everything away."""
        if self._process is not None:
            self._process.stop(signal.SIGQUIT)
        shutil.rmtree(self.directory, ignore_errors=True)

    async def new_schema(self) -> str:
        """Return the URL of a fresh, empty schema: as good as a database, and much faster to make."""
        name = f"t{next(self._numbers)}"
        connection = await asyncpg.connect(self.url())
        try:
            await connection.execute(f"CREATE SCHEMA {name}")
        finally:
            await connection.close()
        return self.url(name)

    def _answers(self) -> bool:
        command = f"{self._initdb.with_name('pg_isready')} -h {self.directory} -U arauto"
        return subprocess.run(command.split(), capture_output=True, check=False).returncode == 0


def _children_of(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(pid) for pid in children.read_text().split()]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Whoever adopted it may not have collected it yet; a zombie holds nothing.
    with contextlib.suppress(OSError):
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False
