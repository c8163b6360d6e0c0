"""Real nodes to torment, and a line per test about what came of it."""

import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.processes import NodeProcess, base_config, merged
from tests.services.fixtures import postgres_server, redis_server

__all__ = ["postgres_server", "redis_server"]

#: The property of a test's report that carries one of its lines, also from another process of the run.
_LINE = "fault"

Say = Callable[[str], None]
StartProcess = Callable[..., Awaitable[NodeProcess]]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    lines = [
        line
        for report in reports
        if report.when == "call"
        for name, line in report.user_properties
        if name == _LINE
    ]
    if lines:
        terminalreporter.section("faults")
        for line in lines:
            terminalreporter.write_line(str(line))


@pytest.fixture
def say(request: pytest.FixtureRequest) -> Say:
    """Put a line into the summary at the end of the run."""
    properties = request.node.user_properties

    def say(line: str) -> None:
        properties.append((_LINE, line))

    return say


@pytest.fixture
def seed() -> int:
    """What chance is made of; set CHAOS_SEED to repeat a run as far as two processes can be repeated."""
    given = os.environ.get("CHAOS_SEED")
    return int(given) if given else random.SystemRandom().randrange(1_000_000)


@pytest.fixture
async def start_process(tmp_path: Path) -> AsyncIterator[StartProcess]:
    """Start nodes with `await start_process(category={...})`; none outlives the test."""
    started: list[NodeProcess] = []

    async def start(data_dir: Path | None = None, **changes: Any) -> NodeProcess:
        config = merged(base_config(data_dir or tmp_path / "data"), changes)
        place = tmp_path / f"node{len(started)}"
        place.mkdir()
        node = NodeProcess(config, place)
        started.append(node)
        await node.start()
        return node

    yield start
    for node in started:
        await node.remove()
