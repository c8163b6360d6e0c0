"""The rules of all hubs, as the node keeps them, made ready to run."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from arauto.correlation.compiler import compile_rule
from arauto.correlation.document import load_rule
from arauto.correlation.program import Program
from arauto.errors import ArautoError
from arauto.pipeline.node_api import CorrelationRecord
from arauto.pipeline.rules.compile import RULES_MAX
from arauto.storage.base import Kind

__all__ = ["Fingerprint", "RuleSet", "kinds_of", "rule_set"]

#: (hub, id) and the version of what the node holds under it. Equal fingerprints, equal rules.
Fingerprint = frozenset[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class RuleSet:
    """What is to run, and what cannot."""

    programs: tuple[Program, ...] = ()
    fingerprint: Fingerprint = frozenset()
    problems: Mapping[str, str] = field(default_factory=dict)
    """Why a rule ("hub/id") does not run. One bad rule does not keep the others from running."""


def kinds_of(programs: Iterable[Program]) -> tuple[int, ...]:
    """The kinds of journal rows that rules need: what they look at, and heartbeats."""
    looked_at = {kind for program in programs for kind in program.kinds}
    return tuple(sorted(looked_at | {int(Kind.HEARTBEAT)}))


def rule_set(records: Iterable[CorrelationRecord]) -> RuleSet:
    """Compile the enabled rules.

    The node has checked them already; what it took and this refuses was written for another version. When
    there are more than `RULES_MAX`, hubs take turns, each with its rules by name, so that a hub with very
    many leaves out its own and not those of others.
    """
    enabled = sorted((r for r in records if r.enabled), key=lambda record: (record.hub, record.id))
    turns: Counter[str] = Counter()
    in_turn: list[tuple[int, CorrelationRecord]] = []
    for record in enabled:
        in_turn.append((turns[record.hub], record))
        turns[record.hub] += 1
    # Sorting keeps the order of hubs within a turn.
    in_turn.sort(key=lambda each: each[0])
    programs: list[Program] = []
    problems: dict[str, str] = {}
    for _, record in in_turn:
        name = f"{record.hub}/{record.id}"
        if len(programs) == RULES_MAX:
            problems[name] = f"more than {RULES_MAX} rules are enabled, and this one is beyond that"
            continue
        compiled = _compiled(record.hub, record.text)
        if isinstance(compiled, Program):
            programs.append(compiled)
        else:
            problems[name] = compiled
    fingerprint = frozenset((record.hub, record.id, record.version) for record in enabled)
    programs.sort(key=lambda program: (program.hub, program.rule))
    return RuleSet(tuple(programs), fingerprint, problems)


@lru_cache(maxsize=2 * RULES_MAX)
def _compiled(hub: str, text: str) -> Program | str:
    """A rule made ready, or why it cannot be: once, since all are asked for every few seconds."""
    try:
        return compile_rule(hub, load_rule(text))
    except ArautoError as error:
        return error.message
