"""A row as a rule sees it: whether it concerns the rule, its key, and the event it becomes.

Nothing here raises, whatever a client sent: what cannot be computed is NULL.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from arauto.correlation.bounds import EVENT_BYTES_MAX, KEY_BYTES_MAX, bytes_of, refused
from arauto.correlation.interpreter import compiled, json_of
from arauto.correlation.program import Event, Program
from arauto.names import matches

__all__ = ["SECOND_HAND_HOPS", "RowReader", "event_of", "with_json"]

#: Messages that came through the pipeline so often concern no rule.
SECOND_HAND_HOPS = 2

_encode = msgspec.json.Encoder().encode

Row = Mapping[str, Any]


class RowReader:
    """One rule, made ready to look at very many rows.

    Args:
        ref: the name of the rule's state.
        program: the compiled rule.
    """

    __slots__ = (
        "_atoms",
        "_filter",
        "_keys",
        "_kinds",
        "_nums",
        "_second",
        "_texts",
        "program",
        "ref",
    )

    def __init__(self, ref: str, program: Program) -> None:
        self.ref = ref
        self.program = program
        self._kinds = frozenset(program.kinds)
        self._second = program.include_pipeline
        self._filter = compiled(program.filter_expr)
        self._keys = [compiled(expr) for expr in program.keys]
        self._atoms = [(1 << n, compiled(expr)) for n, expr in enumerate(program.atoms)]
        self._nums = [compiled(expr) for expr in program.nums]
        self._texts = [compiled(expr) for expr in program.texts]

    def read(self, row: Row) -> tuple[str, Event] | None:
        """The key and the event, or None if the row does not concern the rule.

        Args:
            row: of the rule's hub and of a channel it looks at; columns as in the journal, `ts_ms` for the
                time, `text` and `json` as `with_json` gives them.
        """
        if row["kind"] not in self._kinds or not self._may_look(row["headers"] or {}):
            return None
        if self._filter(row) is not True:
            return None
        key = [part(row) for part in self._keys]
        if None in key:
            return None
        subject = _encode(key)
        if len(subject) > KEY_BYTES_MAX:
            refused.count += 1
            return None
        bits = 0
        for bit, atom in self._atoms:
            if atom(row) is True:
                bits |= bit
        nums: Any = tuple([value(row) for value in self._nums])
        texts = self._fitting(row) if self._texts else ()
        event = Event(row["ts_ms"], row["node"], row["seq"], bits, nums, texts)
        return subject.decode(), event

    def _fitting(self, row: Row) -> tuple[str | None, ...]:
        """The texts, as far as there is room for them."""
        texts: list[str | None] = []
        left = EVENT_BYTES_MAX
        for value in self._texts:
            text: Any = value(row)
            if text is not None:
                size = bytes_of(text)
                if size > left:
                    refused.count += 1
                    text = None
                else:
                    left -= size
            texts.append(text)
        return tuple(texts)

    def _may_look(self, headers: Mapping[str, str]) -> bool:
        """Only rules that ask to look at the pipeline's messages do, and none at what such a rule made."""
        if not self._second:
            return headers.get("x-origin") != "pipeline"
        try:
            return int(headers.get("x-hops") or 0) < SECOND_HAND_HOPS
        except ValueError:
            return True


def with_json(row: Row) -> dict[str, Any]:
    """The row with its text as `json` too, if it is."""
    return {**row, "json": json_of(row["text"])}


def event_of(program: Program, row: Row) -> tuple[str, Event] | None:
    """The key and the event, or None if the row does not concern the rule.

    Args:
        program: the compiled rule.
        row: columns as in the journal, `ts_ms` for the time and `text` for the payload as text or None.
    """
    if row["hub"] != program.hub:
        return None
    if not any(matches(pattern, row["channel"]) for pattern in program.channels):
        return None
    return RowReader("", program).read(with_json(row))
