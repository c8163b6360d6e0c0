"""A row as a rule sees it, without Spark: what the SQL of a program computes, computed by the interpreter."""

from collections.abc import Mapping
from typing import Any

import msgspec

from arauto.correlation.interpreter import compiled, json_of
from arauto.correlation.program import Event, Program
from arauto.names import matches

__all__ = ["event_of"]


def event_of(program: Program, row: Mapping[str, Any]) -> tuple[str, Event] | None:
    """The key and the event, or None if the row does not concern the rule.

    Args:
        program: the compiled rule.
        row: columns as in the journal, `ts_ms` for the time and `text` for the payload as text or None.
    """
    if row["hub"] != program.hub or row["kind"] not in program.kinds:
        return None
    if not any(matches(pattern, row["channel"]) for pattern in program.channels):
        return None
    headers = row["headers"] or {}
    if not program.include_pipeline and headers.get("x-origin") == "pipeline":
        return None
    full = {**row, "json": json_of(row["text"])}
    if compiled(program.filter_expr)(full) is not True:
        return None
    key = [compiled(part)(full) for part in program.keys]
    if None in key:
        return None
    bits = sum(1 << n for n, atom in enumerate(program.atoms) if compiled(atom)(full) is True)
    nums: Any = tuple(compiled(expr)(full) for expr in program.nums)
    texts: Any = tuple(compiled(expr)(full) for expr in program.texts)
    event = Event(row["ts_ms"], row["node"], row["seq"], bits, nums, texts)
    return msgspec.json.encode(key).decode(), event
