"""The histories of `tests/unit/session/test_recovery.py`, with a real SQLite below the node.

One database for all of them: each history has a hub of its own. RECOVERY_EXAMPLES says how many.
"""

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, note, settings

from arauto.settings import Rules
from arauto.storage.sqlite import open_sqlite
from arauto.testing.clock import FakeClock
from tests.unit.session.scene import Scene
from tests.unit.session.test_recovery import Played, all_histories, all_rules, play

EXAMPLES = int(os.environ.get("RECOVERY_EXAMPLES", "60"))
#: Whether new histories are looked for. Else the same come every time, and what fails is what was changed.
SEARCHES = "RECOVERY_EXAMPLES" in os.environ

Run = Callable[[Rules, list[str], Played], None]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    clock = FakeClock()
    hubs = (f"shop{number}" for number in itertools.count())
    data_dir: Path = tmp_path_factory.mktemp("data")
    with asyncio.Runner() as runner:
        storage = runner.run(open_sqlite(data_dir, "node-1", clock))

        def run_one(rules: Rules, names: list[str], played: Played) -> None:
            scene = Scene(rules, *names, clock=clock, storage=storage, hub=next(hubs))
            runner.run(play(scene, played))

        yield run_one
        runner.run(storage.close())


@pytest.mark.timeout(0)
@settings(max_examples=EXAMPLES, derandomize=not SEARCHES)
@given(all_rules, all_histories)
def test_a_client_that_returns_has_everything_or_was_told(
    run: Run, rules: Rules, history: tuple[list[str], Played]
) -> None:
    names, played = history
    note(f"{names}, {rules}, {played}")
    run(rules, names, played)
