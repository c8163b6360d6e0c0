"""What an expression of a rule is once it has been read and checked: a small typed tree.

`parsing.py` builds the tree, `interpreter.py` evaluates it.
"""

from typing import Literal

import msgspec

__all__ = ["KINDS", "ROW_OPS", "Expr", "Type", "Value", "is_row_only", "walk"]

Value = str | float | bool | None

#: The journal's kinds that rules can look at, by number.
KINDS = {
    1: "message",
    2: "session_start",
    3: "session_end",
    4: "error",
    6: "document",
    10: "subscribe",
    11: "unsubscribe",
}

#: "any" is what a payload path or a header gives: text, until something asks for a number or a boolean.
#: "null" is the type of a bare NULL, which fits everywhere.
Type = Literal["any", "text", "number", "boolean", "null"]

#: Leaves that read the row itself.
ROW_OPS = frozenset({"column", "header", "payload"})
#: Leaves that need more than the row at hand: an event the matcher remembers, the key, or a window's totals.
_STATE_OPS = frozenset({"at", "slot", "key", "total", "tally"})


class Expr(msgspec.Struct, frozen=True, gc=False):
    """One node.

    Attributes:
        op: what it does: `literal`, `column`, `header`, `payload`, `at`, `slot`, `key`, `total`, `tally`,
            or an operation such as `+`, `and`, `coalesce`, `to_number`.
        type: what it gives.
        args: the operands.
        value: a literal's value, a column's or total's name, a slot's or tally's number.
        path: the way into the payload.
        of: whose event is meant, in `at` and `slot`: "" is the event at hand.
    """

    op: str
    type: Type
    args: "tuple[Expr, ...]" = ()
    value: Value = None
    path: tuple[str | int, ...] = ()
    of: str = ""


def walk(expr: Expr) -> list[Expr]:
    """Every node of the tree, the root first."""
    found = [expr]
    for node in found:
        found.extend(node.args)
    return found


def is_row_only(expr: Expr) -> bool:
    """Whether the row at hand is all it takes to evaluate this."""
    return not any(node.op in _STATE_OPS for node in walk(expr))
