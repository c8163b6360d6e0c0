"""Which rules a query runs, and from when on they see rows: a small file beside the query's checkpoint.

It is what a query that starts again goes by, and what people are shown. Its time says when the pipeline last
looked for changes of the node's rules.
"""

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from arauto.pipeline.lake.log import sync
from arauto.pipeline.rules.since import Since

__all__ = [
    "Known",
    "KnownRule",
    "Shown",
    "known_path",
    "read_known",
    "shown",
    "touch_known",
    "write_known",
]

_SUFFIX = ".known.json"
#: A pipeline that runs looks at the rules every few seconds, but for when a query starts on a busy machine.
_FRESH_S = 60.0


class KnownRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A rule of a query."""

    hub: str
    rule: str
    version: str
    """Of what the node holds; it changes with any part of it."""
    since: Since | None = None
    """None = it was set before anything that could be looked at."""


class Known(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is in the file."""

    rules: tuple[KnownRule, ...] = ()
    problems: Mapping[str, str] = {}
    """Why rules ("hub/rule") do not run."""
    running_ms: int = 0
    """Since when they run; 0 = they do not, just now."""
    passing: frozenset[str] = frozenset()
    """Hubs whose changes nobody waits for, just now."""

    def since_of(
        self, versions: Mapping[tuple[str, str], str]
    ) -> dict[tuple[str, str], Since | None]:
        """From when on those rules see rows that are still what they were."""
        return {
            (each.hub, each.rule): each.since
            for each in self.rules
            if versions.get((each.hub, each.rule)) == each.version
        }


def known_path(checkpoint: Path) -> Path:
    """Where it lies, given the query's checkpoint."""
    return checkpoint.with_name(f"{checkpoint.name}{_SUFFIX}")


def read_known(checkpoint: Path) -> Known:
    """What a query knows; nothing if there is no file, or none that can be read."""
    try:
        return msgspec.json.decode(known_path(checkpoint).read_bytes(), type=Known)
    except (OSError, msgspec.DecodeError):
        return Known()


def write_known(checkpoint: Path, known: Known) -> None:
    """Put it in the place of what was there."""
    path = known_path(checkpoint)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f".{path.name}")
    written.write_bytes(msgspec.json.encode(known))
    sync(written)
    written.rename(path)


def touch_known(checkpoint: Path) -> None:
    """The node's rules have just been looked at."""
    try:
        os.utime(known_path(checkpoint))
    except FileNotFoundError:
        write_known(checkpoint, Known())


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """How a rule is doing, for people."""

    state: str
    """`running`, `starting`, `later` (nobody waits for its hub just now), `waits` (for a pipeline), or why it
    does not run."""
    running_ms: int = 0
    """Since when it has been running."""
    since_ms: int = 0
    """It sees what was published from then on; 0 = not known."""


def shown(root: Path, rules: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str], Shown]:
    """How enabled rules (hub, name, version of what the node holds) are doing over this lake."""
    looked: list[Known] = []
    for path in root.glob("_checkpoints/*/v*.known.json"):
        try:
            age_s = time.time() - path.stat().st_mtime
        except OSError:
            continue
        if age_s < _FRESH_S:
            looked.append(read_known(path.with_name(path.name.removesuffix(_SUFFIX))))
    problems = {name: why for known in looked for name, why in known.problems.items()}
    there = {
        (each.hub, each.rule, each.version): Shown(
            state="running" if known.running_ms else "starting",
            running_ms=known.running_ms,
            since_ms=each.since.ts_ms if each.since else 0,
        )
        for known in looked
        for each in known.rules
    }
    found = {}
    for hub, rule, version in rules:
        why = problems.get(f"{hub}/{rule}")
        soon = "later" if any(hub in known.passing for known in looked) else "starting"
        otherwise = Shown(state=why or (soon if looked else "waits"))
        found[hub, rule] = there.get((hub, rule, version), otherwise)
    return found
