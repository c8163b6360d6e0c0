"""Keeps a stream from passing the place where a rule was set before whoever reads it knows that rule.

That a rule was set is a row of the journal. A stream with a gate stops before such a row, until the gate
says that the rules as they were after it are known. So no rule misses a row written after it was set. Hubs
for which nobody waits (see `rules/patience.py`) are named by the gate, and stop nothing.
"""

from pathlib import Path

import msgspec

from arauto.pipeline.source.journal import Journal, RuleChange
from arauto.pipeline.source.offsets import Offsets, held_at
from arauto.storage.incarnation import first_seq_of

__all__ = ["Gate", "before_unknown", "open_gate", "read_gate", "unknown_changes"]


class Gate(msgspec.Struct, frozen=True):
    """What a stream may pass."""

    known: Offsets = {}
    """Rules are known as they were at these places."""
    passing: frozenset[str] = frozenset()
    """Hubs whose rules nobody waits for."""


def open_gate(path: Path, gate: Gate) -> None:
    """Put it in the place of what was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f".{path.name}")
    written.write_bytes(msgspec.json.encode(gate))
    written.rename(path)


def read_gate(path: Path) -> Gate:
    """What may be passed; nothing if there is no file, or none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Gate)
    except (OSError, msgspec.DecodeError):
        # Nothing is known, until it is written again.
        return Gate()


def before_unknown(journal: Journal, start: Offsets, end: Offsets, gate: Gate) -> Offsets:
    """How far a batch may go from `start` that would go to `end`."""
    for node, last in sorted(end.items()):
        first = first_seq_of(node) - 1
        after = max(start.get(node, first), gate.known.get(node, first))
        if last > after:
            for change in journal.rule_changes(node, after, last):
                if change.is_set and change.hub not in gate.passing:
                    return held_at(start, node, change.seq)
    return end


def unknown_changes(journal: Journal, known: Offsets, ends: Offsets) -> list[RuleChange]:
    """The rules that were set or deleted between these places."""
    return [
        change
        for node, last in ends.items()
        for change in journal.rule_changes(node, known.get(node, first_seq_of(node) - 1), last)
    ]
