"""Tests wait for events or move a fake clock. A test that sleeps is slow when it passes, flaky when not."""

import ast
from collections.abc import Iterator

import pytest

from tests.arch.source import ROOT, Module, assert_none, calls, parse

#: Here nothing is outside the test's control, so nothing need be waited for by the clock.
_FOLDERS = ("unit", "contract")
_SLEEPS = frozenset({"asyncio.sleep", "time.sleep"})


def sleeps(module: Module) -> Iterator[str]:
    """Calls that let real time pass. `asyncio.sleep(0)` only lets others run."""
    for node, name in calls(module):
        if name in _SLEEPS and not any(
            isinstance(arg, ast.Constant) and arg.value == 0 for arg in node.args
        ):
            yield f"{module.name}:{node.lineno} sleeps"


def test_unit_and_contract_tests_do_not_sleep() -> None:
    paths = [path for folder in _FOLDERS for path in (ROOT / "tests" / folder).rglob("*.py")]
    read = [
        parse(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()) for path in paths
    ]
    assert_none(problem for module in read for problem in sleeps(module))


@pytest.mark.parametrize("call", ["asyncio.sleep(0.1)", "asyncio.sleep(delay)", "time.sleep(1)"])
def test_a_sleep_is_found(call: str) -> None:
    assert len(list(sleeps(parse(call)))) == 1


def test_yielding_to_other_tasks_is_not_mistaken() -> None:
    assert list(sleeps(parse("asyncio.sleep(0)"))) == []
