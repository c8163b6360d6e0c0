"""What all tests share: seeds, Hypothesis profiles, event loops and the check for leaked tasks.

Fixtures for one area live in that area's own conftest. Warnings, unraisable exceptions and exceptions
in threads are errors already, through `filterwarnings` in pyproject.toml.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import hypothesis
import pytest
import pytest_asyncio
import uvloop

_TESTS = Path(__file__).parent

#: Folders whose tests use real sockets and processes: they run on the loop that production runs on.
_ON_UVLOOP = frozenset({"integration", "conformance", "examples", "interop", "chaos"})

#: Loop turns a cancelled task may need to finish before it counts as leaked.
_GRACE_TURNS = 20

# Deadlines are off everywhere: on a busy machine they measure the machine. `timeout` guards against hangs.
hypothesis.settings.register_profile("dev", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.register_profile("nightly", deadline=None, print_blob=True, max_examples=5_000)
hypothesis.settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Make CI repeatable: unless a seed is asked for, the test order there is the same every time.

    Elsewhere pytest-randomly draws a seed and prints it, so that a failure can be repeated.
    """
    if os.environ.get("CI") and config.getoption("randomly_seed", None) == "default":
        config.option.randomly_seed = 1


def pytest_report_header(config: pytest.Config) -> str:
    return f"hypothesis profile: {hypothesis.settings.get_current_profile_name()}"


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Choose the event loop by folder. One loop per test, so tests cannot meet through it."""
    folder = item.path.relative_to(_TESTS).parts[0]
    if folder in _ON_UVLOOP:
        return {"uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the leak check around every async test, outside all its other fixtures."""
    for item in items:
        if isinstance(item, pytest.Function) and pytest_asyncio.is_async_test(item):
            item.fixturenames.insert(0, "_no_leaked_tasks")


@pytest_asyncio.fixture
async def _no_leaked_tasks() -> AsyncIterator[None]:
    """Fail a test that ends, fixtures and all, with tasks of its own still running."""
    before = asyncio.all_tasks()
    yield
    for _ in range(_GRACE_TURNS):
        leaked = asyncio.all_tasks() - before - {asyncio.current_task()}
        if not leaked:
            return
        await asyncio.sleep(0)
    names = "\n".join(sorted(f"  {task!r}" for task in leaked))
    pytest.fail(f"{len(leaked)} task(s) still running after the test:\n{names}", pytrace=False)
