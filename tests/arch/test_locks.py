"""The check of the lock files finds what would make set-up fail, or do something else on another day."""

import re
from collections.abc import Mapping, Sequence

import pytest

from scripts.check_locks import (
    Lock,
    asked_by_project,
    environments,
    missing_of,
    npm_problems,
    read_lock,
)
from tests.arch.source import ROOT

_HASH = "--hash=sha256:" + "0" * 64
_PYTHONS = ("3.11", "3.12", "3.13")


def lock_of(*entries: str) -> Lock:
    return read_lock("".join(f"{entry} \\\n    {_HASH}\n    # via somebody\n" for entry in entries))


def missing(
    asked: Sequence[str], lock: Lock, further: Mapping[str, Sequence[str]] | None = None
) -> list[str]:
    classifiers = [f"Programming Language :: Python :: {python}" for python in _PYTHONS]
    return [
        problem
        for environment in environments(classifiers)
        for problem in missing_of(
            asked, lock, environment, lambda name, _: (further or {}).get(name)
        )
    ]


def test_a_lock_that_names_everything_has_no_problem() -> None:
    lock = lock_of("picows==2.3.1", "python-socks==3.2.0", "anyio==4.16.0")
    further = {
        "picows": ["python-socks[asyncio]>=3.1"],
        "python-socks": ["anyio; extra == 'asyncio'"],
    }
    assert lock.problems == []
    assert missing(["picows>=2"], lock, further) == []


def test_what_only_an_extra_asks_for_must_be_pinned_too() -> None:
    """pip check does not see this one: to it, an extra is nothing that is installed."""
    lock = lock_of("picows==2.3.1", "python-socks==3.2.0")
    further = {
        "picows": ["python-socks[asyncio]>=3.1"],
        "python-socks": ["anyio; extra == 'asyncio'"],
    }
    assert "python-socks asks for anyio" in missing(["picows>=2"], lock, further)[0]


def test_an_extra_that_is_asked_for_later_is_followed_as_well() -> None:
    lock = lock_of("plain==1", "fancy==1", "shared==1")
    further = {"plain": ["shared"], "fancy": ["shared[more]"], "shared": ["rest; extra == 'more'"]}
    for asked in (["plain", "fancy"], ["fancy", "plain"]):
        assert "shared asks for rest" in missing(asked, lock, further)[0]


def test_packages_that_ask_for_each_other_are_looked_at_once() -> None:
    lock = lock_of("hen==1", "egg==1")
    assert missing(["hen"], lock, {"hen": ["egg"], "egg": ["hen"]}) == []


def test_a_pin_for_one_python_is_missing_on_the_others() -> None:
    lock = lock_of("numpy==2.4.6 ; python_full_version < '3.12'")
    found = missing(["numpy>=2"], lock)
    assert len(found) == 8  # two Pythons, early and late, two processors
    assert all("3.12" in problem or "3.13" in problem for problem in found)


def test_what_only_the_first_releases_of_a_python_need_is_looked_for() -> None:
    found = missing(
        ["redis"], lock_of("redis==8.1"), {"redis": ["wait; python_full_version < '3.11.3'"]}
    )
    assert {problem.partition("; on ")[2].split(",")[0] for problem in found} == {"Python 3.11.0"}


def test_two_pins_that_count_at_once_are_found() -> None:
    lock = lock_of("numpy==2.4.6", "numpy==2.5.4 ; python_full_version >= '3.13'")
    assert any("2.4.6 and 2.5.4" in problem for problem in missing(["numpy"], lock))


def test_a_pin_outside_what_is_asked_for_is_found() -> None:
    assert missing(["pandas>=2.2,<3"], lock_of("pandas==3.0.1"))
    assert not missing(["opentelemetry-sdk>=0.60b0"], lock_of("opentelemetry-sdk==0.66b1"))


def test_names_are_the_same_however_they_are_spelt() -> None:
    assert missing(["Types_PyYAML"], lock_of("types-pyyaml==6.0.12")) == []


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://example.org/simple",
        "-e .",
        "https://example.org/a-1.0-py3-none-any.whl",
        f"a @ https://example.org/a-1.0-py3-none-any.whl {_HASH}",
        f"a>=1 {_HASH}",
        f"a==1.* {_HASH}",
        f"a {_HASH}",
        "a==1",
        "a==1 --hash=md5:00000000000000000000000000000000",
    ],
)
def test_a_line_that_is_not_a_version_with_hashes_is_found(line: str) -> None:
    assert read_lock(line).problems


def test_groups_include_groups_and_the_tools_alone_leave_the_project_out() -> None:
    project = {
        "project": {"dependencies": ["a"], "optional-dependencies": {"x": ["b"], "y": ["c"]}},
        "dependency-groups": {"build": ["d"], "dev": [{"include-group": "build"}, "e"]},
    }
    assert asked_by_project(project, "build", ()) == ["d"]
    assert asked_by_project(project, "dev", ("x",)) == ["d", "e", "a", "b"]


def test_documented_installations_ask_no_resolver() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    commands = [line for line in lines if re.search(r"pip install .*-r requirements/", line)]
    assert commands
    assert [line for line in commands if "--no-deps" not in line] == []


def test_an_npm_lock_without_hashes_or_with_addresses_is_found() -> None:
    text = '{"packages": {"": {}, "node_modules/a": {%s}}}'
    assert list(npm_problems(text % '"integrity": "sha512-x"')) == []
    assert list(npm_problems(text % '"version": "1"')) == ["node_modules/a has no hash"]
    address = '"integrity": "sha512-x", "resolved": "https://example.org/a.tgz"'
    assert list(npm_problems(text % address)) == ["node_modules/a names an address"]
