"""Commands that end with the test, whatever happens in it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import processes
from tests.integration.cli.processes import Command

Run = Callable[..., Awaitable[Command]]


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Run]:
    """Start commands with `await run("sub", "stock:1")`, in a directory of their own."""
    started: list[Command] = []

    async def start(*arguments: str, **options: Any) -> Command:
        options.setdefault("cwd", tmp_path)
        command = await processes.arauto(*arguments, **options)
        started.append(command)
        return command

    yield start
    for command in started:
        await command.stop()


@pytest.fixture
async def paste(tmp_path: Path) -> AsyncIterator[Run]:
    """Run a line in a shell with `await paste("arauto sub …")`."""
    started: list[Command] = []

    async def start(line: str, **options: Any) -> Command:
        options.setdefault("cwd", tmp_path)
        command = await processes.shell(line, **options)
        started.append(command)
        return command

    yield start
    for command in started:
        await command.stop()
