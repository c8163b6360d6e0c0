"""A correlation rule as its author wrote it, checked: what `document.py` makes and `compiler.py` takes."""

from typing import Literal

import msgspec

from arauto.correlation.expression import Expr
from arauto.correlation.program import Group, Kind, Window

__all__ = ["Emit", "Rule", "Source", "Step"]


class Source(msgspec.Struct, frozen=True):
    """Which rows a rule looks at: kinds are the journal's numbers, channels are patterns."""

    channels: tuple[str, ...] = ("*",)
    kinds: tuple[int, ...] = (1,)
    where: Expr | None = None
    include_pipeline: bool = False


class Emit(msgspec.Struct, frozen=True):
    """What is published when the rule fires, and how long it is silent for that key afterwards."""

    channel: str
    payload: dict[str, Expr]
    cooldown_ms: int = 0


class Step(msgspec.Struct, frozen=True):
    """A named condition with the number of times it must hold; `most` None is "any number"."""

    name: str
    where: Expr
    least: int = 1
    most: int | None = 1
    absent: bool = False


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule.

    Attributes:
        text: the document it was read from.
        span_ms: `within` of steps and absence, `for` of hold.
        steps: what has to happen; hold has `start` and `cancel`, absence `after` and `expect`.
        needed: how many of the steps, in all_of and any_of.
        prefer: which of two sequences that overlap is the match.
        forget_ms: when a key that is silent is forgotten (hold).
        of: the value that count and change look at; `member` whose value it is (change).
    """

    name: str
    version: int
    kind: Kind
    text: str
    source: Source
    key: tuple[Expr, ...]
    emit: Emit
    buffer_rows: int = 1000
    steps: tuple[Step, ...] = ()
    span_ms: int = 0
    forget_ms: int = 0
    needed: int = 0
    strict: bool = False
    skip: Literal["past_last", "to_last", "to_next"] = "past_last"
    prefer: Literal["first_done", "first_begun"] = "first_done"
    has_base: bool = False
    window: Window | None = None
    group: Group | None = None
    of: Expr | None = None
    member: Expr | None = None
    when: Expr | None = None
