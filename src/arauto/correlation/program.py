"""What a rule compiles to: what turns a row into an event, and what the matcher has to do with events.

The shape of an event does not depend on the rule, so that one stateful query can serve all rules and
survive every change of them.
"""

from typing import Literal

import msgspec

from arauto.correlation.expression import Expr

__all__ = [
    "Condition",
    "Event",
    "Group",
    "Kind",
    "Match",
    "Program",
    "StepPlan",
    "Tally",
    "Window",
]

Kind = Literal["match", "hold", "sequence", "absence", "quorum", "count", "change"]


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One row as one rule sees it.

    Attributes:
        bits: bit n is set if the rule's atom n is true (false and NULL are both 0).
        nums: the rule's numeric values; NULL is None.
        texts: the rule's text values; booleans are "true" and "false".
    """

    ts_ms: int
    node: str
    seq: int
    bits: int = 0
    nums: tuple[float | None, ...] = ()
    texts: tuple[str | None, ...] = ()


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that fired.

    Attributes:
        id: hex; the same whenever the same events make the same rule fire.
        key: the JSON list of the key's texts, as it came from `rows.RowReader`.
        first: (node, seq) of the first event that took part; `last` likewise.
        ts_ms: when it was decided, in event time: an event's time or a deadline.
    """

    id: str
    rule_ref: str
    hub: str
    channel: str
    key: str
    first: tuple[str, int]
    last: tuple[str, int]
    ts_ms: int
    payload: dict[str, str | float | int | bool | None]


class Condition(msgspec.Struct, frozen=True):
    """A predicate: a bit of the event, or, if it needs remembered events, a tree over slots."""

    bit: int = -1
    expr: Expr | None = None


class StepPlan(msgspec.Struct, frozen=True):
    """One step of a sequence, or one member of all_of / any_of."""

    name: str
    when: Condition
    least: int = 1
    most: int | None = 1
    absent: bool = False


class Tally(msgspec.Struct, frozen=True):
    """A running total of a sequence's step: its events, a value's sum, or how often that was not NULL."""

    step: int
    what: Literal["count", "sum", "present"]
    slot: int = -1


class Window(msgspec.Struct, frozen=True):
    """Windows are [start, start + length_ms), one every `every_ms`, aligned to 1970-01-01 UTC."""

    length_ms: int
    every_ms: int


class Group(msgspec.Struct, frozen=True):
    """How a `change` rule judges one member: abs(change in percent) `op` `percent`."""

    op: Literal[">", ">="]
    percent: float


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A compiled rule; plain data, so that it can be pickled and sent to workers.

    Attributes:
        ref: "hub/name@version".
        path: `stateless`: every event whose bit 0 is set is a match. `window`: totals per key and window
            are enough. `stateful`: only `matcher.advance` can do it. `advance` can do all three.
        filter_expr: a boolean over the row; rows for which it is not true do not concern the rule.
        keys: the key's parts.
        atoms, nums, texts: booleans, numbers and texts over the row: what an `Event` carries.
        channel: where matches are published.
        when: the condition over a window's totals (`window` only).
        erased_ms: what the rule remembers from before this time is not its own any more; 0 = all is.
    """

    ref: str
    hub: str
    rule: str
    version: int
    kind: Kind
    path: Literal["stateless", "window", "stateful"]
    filter_expr: Expr
    channels: tuple[str, ...]
    kinds: tuple[int, ...]
    include_pipeline: bool
    keys: tuple[Expr, ...]
    atoms: tuple[Expr, ...]
    nums: tuple[Expr, ...]
    texts: tuple[Expr, ...]
    # What the matcher does.
    channel: str
    payload: dict[str, Expr]
    cooldown_ms: int = 0
    buffer_rows: int = 1000
    span_ms: int = 0
    forget_ms: int = 0
    steps: tuple[StepPlan, ...] = ()
    needed: int = 0
    strict: bool = False
    skip: Literal["past_last", "to_last", "to_next"] = "past_last"
    prefer: Literal["first_done", "first_begun"] = "first_done"
    tallies: tuple[Tally, ...] = ()
    has_base: bool = False
    window: Window | None = None
    group: Group | None = None
    when: Expr | None = None
    erased_ms: int = 0
