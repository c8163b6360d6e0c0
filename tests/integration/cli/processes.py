"""`arauto …` as a process of its own, driven by what it prints."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["Command", "arauto", "shell"]

_TIMEOUT_S = 30.0


class Command:
    """A running command. Lines of both outputs are kept; waiting looks at those that came before, too."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.out: list[str] = []
        self.err: list[str] = []
        self._news = asyncio.Condition()
        assert process.stdout is not None
        assert process.stderr is not None
        self._readers = [
            asyncio.ensure_future(self._read(process.stdout, self.out)),
            asyncio.ensure_future(self._read(process.stderr, self.err)),
        ]

    async def _read(self, stream: asyncio.StreamReader, lines: list[str]) -> None:
        while line := await stream.readline():
            async with self._news:
                lines.append(line.decode(errors="replace").rstrip("\n"))
                self._news.notify_all()
        async with self._news:
            self._news.notify_all()

    async def line(self, part: str) -> str:
        """Wait for a line of either output that contains `part`."""

        def found() -> str | None:
            return next((line for line in (*self.out, *self.err) if part in line), None)

        def over() -> bool:
            return all(reader.done() for reader in self._readers)

        async with asyncio.timeout(_TIMEOUT_S), self._news:
            await self._news.wait_for(lambda: found() is not None or over())
            line = found()
        assert line is not None, f"{part!r} never came:\n{self}"
        return line

    async def lines(self, count: int) -> list[str]:
        """Wait for so many lines of standard output."""
        async with asyncio.timeout(_TIMEOUT_S), self._news:
            await self._news.wait_for(lambda: len(self.out) >= count)
        return self.out[:count]

    def write(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())

    def close_input(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def interrupt(self, number: int = signal.SIGINT) -> None:
        self._process.send_signal(number)

    async def ended(self) -> int:
        """Wait until it ends by itself; return its exit code."""
        async with asyncio.timeout(_TIMEOUT_S):
            code = await self._process.wait()
            await asyncio.gather(*self._readers)
        return code

    async def stop(self) -> None:
        """End it if it still runs."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await asyncio.gather(*self._readers)

    def __str__(self) -> str:
        return "\n".join(["-- out", *self.out, "-- err", *self.err])


def _environment(changes: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ARAUTO_")}
    return {**kept, "COLUMNS": "100", "NO_COLOR": "1", **changes}


async def arauto(
    *arguments: str,
    cwd: Path,
    environ: dict[str, str] | None = None,
    stdin: int | None = asyncio.subprocess.DEVNULL,
) -> Command:
    """Start `arauto` with these arguments."""
    program: Sequence[str] = (sys.executable, "-m", "arauto", *arguments)
    process = await asyncio.create_subprocess_exec(
        *program,
        cwd=cwd,
        env=_environment(environ or {}),
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    return Command(process)


async def shell(line: str, *, cwd: Path, environ: dict[str, str] | None = None) -> Command:
    """Run a line as somebody would who pasted it into a shell."""
    process = await asyncio.create_subprocess_shell(
        f"exec {line}",
        cwd=cwd,
        env=_environment(environ or {}),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    return Command(process)
