"""Hold the lock files to what set-up relies on: it installs them as they stand, without a resolver.

Every entry pins one version with its hashes and names no address. Whatever pyproject.toml asks for, and
whatever that asks for in turn, extras included, is pinned once, within what was asked for, on every Python we
support. Each lock holds all of the one before it, so that installing one after the other moves nothing.

Works offline: what a package asks for is read from the one that is installed. What is locked for other
Pythons only is not installed here; `scripts/lock.sh`, which has the network, asks the registry about those.
"""

import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

__all__ = ["Lock", "asked_by_project", "environments", "missing_of", "npm_problems", "read_lock"]

ROOT = Path(__file__).parent.parent

#: lock → group and extras it is made from, as scripts/lock.sh says; without extras, Arauto is left out.
MADE_FROM: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "build": ("build", ()),
    "run": ("build", ("postgres", "redis")),
    "pipeline": ("build", ("postgres", "redis", "pipeline")),
    "dev": ("dev", ("postgres", "redis", "pipeline")),
}

_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")

#: What markers are evaluated with, such as `python_version`.
Environment = Mapping[str, str]

#: What the release of a package that is installed here asks for; None if it is not installed here.
AsksFor = Callable[[str, str], Sequence[str] | None]


@dataclass(frozen=True, slots=True)
class Pin:
    """One entry of a lock: a package, its version, and where it counts."""

    requirement: Requirement
    version: str

    def counts_in(self, environment: Environment) -> bool:
        marker = self.requirement.marker
        return marker is None or marker.evaluate({**environment, "extra": ""})


@dataclass(frozen=True, slots=True)
class Lock:
    """What a lock file pins, by package, and what is wrong with its lines."""

    pins: Mapping[str, Sequence[Pin]]
    problems: Sequence[str]

    def pinned_in(self, environment: Environment, name: str) -> list[Pin]:
        return [pin for pin in self.pins.get(name, ()) if pin.counts_in(environment)]


def read_lock(text: str) -> Lock:
    pins: dict[str, list[Pin]] = {}
    problems = []
    for entry in _entries(text):
        bare = _HASH.sub("", entry).strip()
        try:
            requirement = Requirement(bare)
        except InvalidRequirement:
            problems.append(f"{bare!r} is not a package with a version")
            continue
        version = str(requirement.specifier).removeprefix("==")
        if requirement.url or not re.fullmatch(r"[\w.!+]+", version):
            problems.append(f"{bare!r} pins no version")
        if not _HASH.search(entry):
            problems.append(f"{bare!r} has no hash")
        pins.setdefault(canonicalize_name(requirement.name), []).append(Pin(requirement, version))
    return Lock(pins, problems)


def _entries(text: str) -> Iterator[str]:
    """The lines of a requirements file, those continued by a backslash as one, without comments."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        entry = re.sub(r"(^|\s)#.*", "", line).strip()
        if entry:
            yield entry


def environments(classifiers: Iterable[str]) -> Iterator[Environment]:
    """Where Arauto is to be installed: the first and any later release of each Python, on both processors."""
    for classifier in classifiers:
        supported = re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", classifier)
        if supported is None:
            continue
        for release in (f"{supported[1]}.0", f"{supported[1]}.99"):
            for machine in ("x86_64", "aarch64"):
                yield {
                    "python_version": supported[1],
                    "python_full_version": release,
                    "implementation_version": release,
                    "implementation_name": "cpython",
                    "platform_python_implementation": "CPython",
                    "platform_machine": machine,
                    "platform_system": "Linux",
                    "sys_platform": "linux",
                    "os_name": "posix",
                }


def asked_by_project(project: Mapping[str, Any], group: str, extras: Sequence[str]) -> list[str]:
    """What pyproject.toml asks for: a group, and with extras, Arauto with them."""
    asked = list(_group(project["dependency-groups"], group))
    if extras:
        asked += project["project"]["dependencies"]
    for extra in extras:
        asked += project["project"]["optional-dependencies"][extra]
    return asked


def _group(groups: Mapping[str, Sequence[Any]], name: str) -> Iterator[str]:
    for entry in groups[name]:
        if isinstance(entry, str):
            yield entry
        else:
            yield from _group(groups, entry["include-group"])


def missing_of(
    asked: Iterable[str], lock: Lock, environment: Environment, asks_for: AsksFor
) -> Iterator[str]:
    """What somebody asks for in an environment and the lock does not give: one sentence each."""
    todo = [("pyproject.toml", Requirement(text), "") for text in asked]
    seen: set[tuple[str, str]] = set()
    while todo:
        asker, requirement, extra_of_asker = todo.pop()
        marker = requirement.marker
        if marker and not marker.evaluate({**environment, "extra": extra_of_asker}):
            continue
        name = canonicalize_name(requirement.name)
        pins = lock.pinned_in(environment, name)
        if len(pins) != 1 or not requirement.specifier.contains(pins[0].version, prereleases=True):
            found = " and ".join(pin.version for pin in pins) or "nothing"
            python = (
                f"Python {environment['python_full_version']}, {environment['platform_machine']}"
            )
            yield f"{asker} asks for {requirement}; on {python} the lock has {found}"
            continue
        for extra in {"", *requirement.extras} - {e for n, e in seen if n == name}:
            seen.add((name, extra))
            further = asks_for(name, pins[0].version) or ()
            todo += [(name, Requirement(text), extra) for text in further]


def npm_problems(text: str) -> Iterator[str]:
    """What is wrong with an npm lock: packages without a hash, or with the address they came from."""
    for path, package in json.loads(text)["packages"].items():
        if path and "integrity" not in package:
            yield f"{path} has no hash"
        if "resolved" in package:
            yield f"{path} names an address"


def _installed(name: str, version: str) -> Sequence[str] | None:
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    return (distribution.requires or ()) if distribution.version == version else None


def _not_installed(lock: Lock) -> Iterator[str]:
    """What should be installed here and is not; what it asks for would go unseen."""
    here = {key: str(value) for key, value in default_environment().items()}
    for name in lock.pins:
        for pin in lock.pinned_in(here, name):
            if _installed(name, pin.version) is None:
                yield f"{name} {pin.version} is not what is installed: run `make setup`"


def _moved(smaller: Lock, larger: Lock) -> Iterator[str]:
    for name, pins in smaller.pins.items():
        if {pin.version for pin in larger.pins.get(name, ())} != {pin.version for pin in pins}:
            yield f"{name} is not the same as in the lock before this one"


def _problems_of_our_locks() -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    supported = list(environments(project["project"]["classifiers"]))
    if not supported:
        yield "pyproject.toml: no classifier names a Python, so there is nothing to hold the locks to"
    before = Lock({}, ())
    for name, (group, extras) in MADE_FROM.items():
        lock = read_lock((ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8"))
        found = [*lock.problems, *_not_installed(lock), *_moved(before, lock)]
        asked = asked_by_project(project, group, extras)
        for environment in supported:
            found += missing_of(asked, lock, environment, _installed)
        yield from (f"requirements/{name}.txt: {problem}" for problem in dict.fromkeys(found))
        before = lock


def _problems_of_suites() -> Iterator[str]:
    """The locks of suites that tests fetch: for other languages, so only their form can be checked."""
    for folder in sorted((ROOT / "tests" / "conformance").iterdir()):
        for path in sorted(folder.glob("*.txt")):
            for problem in read_lock(path.read_text(encoding="utf-8")).problems:
                yield f"{path.relative_to(ROOT)}: {problem}"
        for path in sorted(folder.glob("package-lock.json")):
            for problem in npm_problems(path.read_text(encoding="utf-8")):
                yield f"{path.relative_to(ROOT)}: {problem}"


def main() -> int:
    problems = [*_problems_of_our_locks(), *_problems_of_suites()]
    for problem in problems:
        print(problem)
    if problems:
        print("`scripts/lock.sh --no-upgrade` writes the lock files anew and keeps what still fits")
    return min(len(problems), 1)


if __name__ == "__main__":
    sys.exit(main())
