"""Compiles a rule: what each row contributes is told from what needs memory, which becomes trees over slots.

A slot is a value that every event of the rule carries. The largest parts of an expression that need only
the row are computed where the row is and put into slots; what is left around them the matcher evaluates.
"""

from typing import Any

from arauto.correlation.expression import ROW_OPS, Expr, Type, is_row_only, walk
from arauto.correlation.program import Condition, Program, StepPlan, Tally
from arauto.correlation.rule import Rule
from arauto.names import check_hub

__all__ = ["compile_rule"]

_TRUE = Expr("literal", "boolean", value=True)
#: Kinds whose totals per window are all there is to know.
_WINDOWED = frozenset({"count", "change"})


def compile_rule(hub: str, rule: Rule) -> Program:
    """Compile a rule for one hub."""
    check_hub(hub)
    slots = _Slots([step.name for step in rule.steps])
    if rule.member is not None:
        slots.text(rule.member)
    if rule.of is not None:
        slots.any(rule.of)
    steps = tuple(
        StepPlan(step.name, slots.condition(step.where), step.least, step.most, step.absent)
        for step in rule.steps
    )
    payload = {name: slots.rewrite(expr) for name, expr in rule.emit.payload.items()}
    where = rule.source.where or _TRUE
    path = "window" if rule.kind in _WINDOWED else "stateful"
    path = "stateless" if rule.kind == "match" else path
    path = "stateful" if rule.emit.cooldown_ms else path
    return Program(
        ref=f"{hub}/{rule.name}@{rule.version}",
        hub=hub,
        rule=rule.name,
        version=rule.version,
        kind=rule.kind,
        path=path,  # type: ignore[arg-type]
        filter_expr=where,
        channels=rule.source.channels,
        kinds=rule.source.kinds,
        include_pipeline=rule.source.include_pipeline,
        keys=rule.key,
        atoms=tuple(slots.atoms),
        nums=tuple(slots.nums),
        texts=tuple(slots.texts),
        channel=rule.emit.channel,
        payload=payload,
        cooldown_ms=rule.emit.cooldown_ms,
        buffer_rows=rule.buffer_rows,
        span_ms=rule.span_ms,
        forget_ms=rule.forget_ms,
        steps=steps,
        needed=rule.needed,
        strict=rule.strict,
        skip=rule.skip,
        prefer=rule.prefer,
        tallies=tuple(slots.tallies),
        has_base=rule.has_base,
        window=rule.window,
        group=rule.group,
        when=rule.when,
    )


class _Slots:
    """The atoms and values found so far; each is kept once."""

    def __init__(self, steps: list[str]) -> None:
        self._steps = steps
        self.tallies: list[Tally] = []
        self.atoms: list[Expr] = []
        self.nums: list[Expr] = []
        self.texts: list[Expr] = []

    def condition(self, expr: Expr) -> Condition:
        if is_row_only(expr):
            return Condition(bit=_index(self.atoms, expr))
        return Condition(expr=self.rewrite(expr))

    def rewrite(self, expr: Expr, of: str = "") -> Expr:
        """The same tree with slots for everything that the row alone decides."""
        if expr.op == "at":
            return self.rewrite(expr.args[0], expr.of)
        if expr.op == "tally":
            return self._tally(expr)
        if is_row_only(expr) and any(node.op in ROW_OPS for node in walk(expr)):
            return self._slot(expr, of)
        args = tuple(self.rewrite(arg, of) for arg in expr.args)
        return Expr(expr.op, expr.type, args, expr.value, expr.path, expr.of)

    def _tally(self, expr: Expr) -> Expr:
        slot = _index(self.nums, expr.args[0]) if expr.args else -1
        what: Any = expr.value
        tally = Tally(self._steps.index(expr.of), what, slot)
        if tally not in self.tallies:
            self.tallies.append(tally)
        return Expr("tally", "number", value=float(self.tallies.index(tally)))

    def _slot(self, expr: Expr, of: str) -> Expr:
        if expr.type == "number":
            return Expr("slot", "number", value=float(_index(self.nums, expr)), of=of)
        if expr.type == "boolean":
            text = Expr("to_text", "text", (expr,))
            slot = Expr("slot", "text", value=float(_index(self.texts, text)), of=of)
            return Expr("to_boolean", "boolean", (slot,))
        type_: Type = "any" if expr.type == "any" else "text"
        return Expr("slot", type_, value=float(_index(self.texts, expr)), of=of)

    def text(self, expr: Expr) -> None:
        _index(self.texts, expr)

    def any(self, expr: Expr) -> None:
        _index(self.nums if expr.type == "number" else self.texts, expr)


def _index(known: list[Expr], expr: Expr) -> int:
    if expr not in known:
        known.append(expr)
    return known.index(expr)
