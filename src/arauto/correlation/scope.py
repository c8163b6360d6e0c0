"""Which names an expression may use where it stands."""

import msgspec

from arauto.config.problems import nearest
from arauto.correlation.expression import Expr

__all__ = ["COLUMNS", "TOTALS", "Scope", "suggest"]

#: Columns of a row that rules may read. All are text; a journal row's kind is shown as its name.
COLUMNS = ("channel", "content_type", "hub", "id", "key", "kind", "session", "user")

#: name → what it counts, in the conditions and payloads of `count` and `change` rules.
TOTALS = {
    "count": ("count", "sum", "avg", "min", "max", "distinct_count", "window_start", "window_end"),
    "change": ("count", "members", "up", "down", "same_sign_share", "window_start", "window_end"),
}


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """The names that mean something in one place of a rule.

    Attributes:
        lets: the rule's own names.
        row: whether a row is at hand; without one only totals and the key can be named.
        roles: events that can be named, as in `first.price`.
        role: the role that a name without one belongs to; "" is the event at hand.
        keys: names of the key's parts, or None where the key is not known yet.
        totals: names of totals.
        of: the value a `count` rule looks at, so that `sum(p)` can be told from `sum(q)`.
        base: whether `base(x)` may be used.
        steps: steps of a sequence that can be counted and summed, as in `count(add)`, `sum(add.price)`.
    """

    lets: dict[str, Expr] = {}
    row: bool = True
    roles: tuple[str, ...] = ()
    role: str = ""
    keys: tuple[str, ...] | None = None
    totals: tuple[str, ...] = ()
    of: Expr | None = None
    base: bool = False
    steps: tuple[str, ...] = ()

    def known(self) -> list[str]:
        """Every name, for messages."""
        names = [*self.totals]
        if self.row:
            names += [*self.lets, *COLUMNS, "headers.…", "payload.…"]
        names += [f"{role}.…" for role in self.roles]
        if self.keys:
            names += [f"key.{name}" for name in self.keys if name]
        return names


def suggest(name: str, known: list[str]) -> str:
    """`; did you mean x?`, or all the choices."""
    near = nearest(name, known)
    if near:
        return f"; did you mean {near}?"
    return f"; known here: {', '.join(known)}" if known else ""
