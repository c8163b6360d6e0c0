"""The part of a rule document that differs from kind to kind: what has to happen.

What happens stands inside the kind's own field, how long it may take beside it (`within`, `window`).
"""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

from arauto.config.source import Located
from arauto.correlation.coercion import ExpressionError, as_boolean, as_number, as_text
from arauto.correlation.expression import Expr
from arauto.correlation.fields import Fields, bad_rule, expression_of, items_of, text_of
from arauto.correlation.program import Group, Window
from arauto.correlation.rule import Step
from arauto.correlation.scope import COLUMNS, TOTALS, Scope

__all__ = ["BESIDE", "BODIES", "IDENTIFIER", "RESERVED", "condition"]

STEPS_MAX = 16
TIMES_MAX = 1000
WINDOW_MIN_MS = 1000
WINDOWS_AT_ONCE_MAX = 120
SPAN_MIN_MS = 100

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}\Z")
#: Names that already mean something in expressions.
RESERVED = frozenset({*COLUMNS, "base", "first", "headers", "last", "member", "of", "payload"})
_TIMES = re.compile(r"([0-9]{1,4})(\.\.([0-9]{1,4})?)?\Z")
_PERCENT = re.compile(r"(>=|>)\s*([0-9]{1,9}(\.[0-9]{1,9})?)\Z")

#: kind → the fields that may stand beside it.
BESIDE: dict[str, tuple[str, ...]] = {
    "match": (),
    "hold": (),
    "sequence": ("within", "skip", "next", "prefer"),
    "absence": ("within",),
    "all_of": ("within",),
    "any_of": ("within", "at_least"),
    "count": ("window", "every", "when"),
    "change": ("window", "every", "when", "group"),
}

Body = dict[str, Any]


def condition(located: Located, path: str, scope: Scope) -> Expr:
    """An expression that is true or false."""
    expr = expression_of(located, path, scope)
    try:
        return as_boolean(expr, "a condition")
    except ExpressionError as error:
        raise bad_rule(located.place, path, error.message) from None


def _of_type(
    located: Located, path: str, scope: Scope, convert: Callable[[Expr, str], Expr]
) -> Expr:
    expr = expression_of(located, path, scope)
    try:
        return convert(expr, "this")
    except ExpressionError as error:
        raise bad_rule(located.place, path, error.message) from None


def _match(rule: Fields, lets: dict[str, Expr]) -> Body:
    where = condition(rule.values["match"], "match", Scope(lets=lets))
    return {"steps": (Step("match", where),)}


def _hold(rule: Fields, lets: dict[str, Expr]) -> Body:
    names = ("start", "cancel", "for", "base", "forget")
    body = Fields.read(rule.values["hold"], "hold", names, "start, for and perhaps cancel")
    has_base = "base" in body.values
    body.choice("base", ("last_stable",))
    scope = Scope(lets=lets, base=has_base, roles=("base",) if has_base else ())
    start = condition(body.need("start", "the condition that has to hold"), "hold.start", scope)
    cancel = Expr("not", "boolean", (start,))
    if given := body.values.get("cancel"):
        cancel = condition(given, "hold.cancel", scope)
    span_ms = body.duration("for", SPAN_MIN_MS, "how long it has to hold")
    return {
        "steps": (Step("start", start), Step("cancel", cancel)),
        "span_ms": span_ms,
        "forget_ms": max(span_ms, body.duration_or("forget", 86_400_000, 1000)),
        "has_base": has_base,
    }


def _within(rule: Fields) -> int:
    why = "how long it may take; it is what bounds the memory a rule needs"
    return rule.duration("within", SPAN_MIN_MS, why)


def _sequence(rule: Fields, lets: dict[str, Expr]) -> Body:
    items = items_of(rule.values["sequence"], "sequence", STEPS_MAX, "steps")
    names = _step_names(items, "sequence", lets)
    steps = []
    for n, item in enumerate(items):
        # What comes first has nothing to be compared with.
        known = names[: n + 1] if n else ()
        roles = (*known, "first", "last") if n else ()
        scope = Scope(lets=lets, roles=roles, steps=known)
        steps.append(_step(item, f"sequence[{n}]", scope, names[n], True))
    first, last = steps[0], steps[-1]
    if first.absent or first.least == 0:
        raise bad_rule(items[0].place, "sequence[0]", "the first step has to happen")
    if len(steps) == 1 and first.least == 1:
        raise bad_rule(items[0].place, "sequence", "one step that happens once is a match rule")
    if any(a.absent and b.absent for a, b in pairwise(steps)):
        raise bad_rule(items[0].place, "sequence", "put two absences in a row into one, with or")
    if last.least == 0 and not last.absent:
        raise bad_rule(
            items[-1].place, f"sequence[{len(items) - 1}]", "the last step has to happen"
        )
    skip = rule.choice("skip", ("past_last", "to_last", "to_next"))
    if skip == "to_next" and "prefer" in rule.values:
        rule.fail("prefer", "with skip: to_next every attempt can match, none is preferred")
    return {
        "steps": tuple(steps),
        "span_ms": _within(rule),
        "skip": skip,
        "prefer": rule.choice("prefer", ("first_done", "first_begun")),
        "strict": rule.choice("next", ("relaxed", "strict")) == "strict",
    }


def _step_names(items: list[Located], path: str, lets: dict[str, Expr]) -> tuple[str, ...]:
    names: list[str] = []
    for n, item in enumerate(items):
        name = f"step{n + 1}"
        given = item.value.get("as") if isinstance(item.value, dict) else None
        if given is not None:
            name = text_of(given, f"{path}[{n}].as")
            if not IDENTIFIER.match(name) or name in RESERVED or name in lets or name in names:
                message = (
                    "a name of its own: letters, digits and _, not a column, let or other step"
                )
                raise bad_rule(given.place, f"{path}[{n}].as", message)
        names.append(name)
    return tuple(names)


def _step(item: Located, path: str, scope: Scope, name: str, many: bool) -> Step:
    allowed = ("as", "where", "times", "absent") if many else ("as", "where")
    fields = Fields.read(item, path, allowed, "a step such as {as: paid, where: …}")
    where = condition(fields.need("where", "what has to be true"), f"{path}.where", scope)
    absent = fields.flag("absent")
    least, most = _times(fields)
    if absent and "times" in fields.values:
        fields.fail("times", "a step that is absent happens no times")
    return Step(name, where, least, most, absent)


def _times(fields: Fields) -> tuple[int, int | None]:
    given = fields.values.get("times")
    if given is None:
        return 1, 1
    found = _TIMES.match(str(given.value)) if isinstance(given.value, str | int) else None
    if found is None:
        fields.fail("times", 'expected 3, "2..5" or "2.."')
    least = int(found[1])
    most = int(found[3]) if found[3] else (None if found[2] else least)
    if most == 0 or least > TIMES_MAX or (most is not None and not least <= most <= TIMES_MAX):
        fields.fail("times", f"from least to most, and at most {TIMES_MAX}")
    return least, most


def _absence(rule: Fields, lets: dict[str, Expr]) -> Body:
    body = Fields.read(rule.values["absence"], "absence", ("after", "expect"), "after and expect")
    scope = Scope(lets=lets)
    expect = Expr("literal", "boolean", value=True)
    if given := body.values.get("expect"):
        expect = condition(given, "absence.expect", scope)
    after = expect
    if given := body.values.get("after"):
        after = condition(given, "absence.after", scope)
        body.need("expect", "what should follow")
    # Without `after` what is expected also starts the next wait: silence is what is looked for.
    return {"steps": (Step("after", after), Step("expect", expect)), "span_ms": _within(rule)}


def _quorum(rule: Fields, lets: dict[str, Expr], kind: str) -> Body:
    items = items_of(rule.values[kind], kind, STEPS_MAX, "steps")
    names = _step_names(items, kind, lets)
    scope = Scope(lets=lets)
    steps = tuple(
        _step(item, f"{kind}[{n}]", scope, names[n], False) for n, item in enumerate(items)
    )
    needed = len(steps) if kind == "all_of" else rule.number("at_least", 1, 1, len(steps))
    return {"steps": steps, "needed": needed, "span_ms": _within(rule) if needed > 1 else 0}


def _all_of(rule: Fields, lets: dict[str, Expr]) -> Body:
    return _quorum(rule, lets, "all_of")


def _any_of(rule: Fields, lets: dict[str, Expr]) -> Body:
    return _quorum(rule, lets, "any_of")


def _window(rule: Fields) -> Window:
    length_ms = rule.duration("window", WINDOW_MIN_MS, "over how long to count")
    every_ms = rule.duration_or("every", length_ms, WINDOW_MIN_MS)
    if every_ms > length_ms:
        rule.fail("every", "longer than the window: events in between would not count")
    if length_ms > every_ms * WINDOWS_AT_ONCE_MAX or length_ms % every_ms:
        rule.fail("every", f"the window is 1 to {WINDOWS_AT_ONCE_MAX} times this, without a rest")
    return Window(length_ms, every_ms)


def _count(rule: Fields, lets: dict[str, Expr]) -> Body:
    body = Fields.read(rule.values["count"], "count", ("of",), "{} or {of: a value}")
    of = None
    totals = TOTALS["count"]
    if given := body.values.get("of"):
        of = expression_of(given, "count.of", Scope(lets=lets))
        if of.type == "boolean":
            body.fail("of", "a value to count is a number or text, not true or false")
    if of is None or of.type in ("text", "null"):
        words = (
            ("sum", "avg", "min", "max") if of else ("sum", "avg", "min", "max", "distinct_count")
        )
        totals = tuple(name for name in totals if name not in words)
    scope = Scope(lets=lets, row=False, totals=totals, of=of)
    when = condition(rule.need("when", "which totals make it fire"), "when", scope)
    return {"of": of, "when": when, "window": _window(rule), "totals": totals}


def _change(rule: Fields, lets: dict[str, Expr]) -> Body:
    scope = Scope(lets=lets)
    body = Fields.read(rule.values["change"], "change", ("of", "abs_pct"), "of and abs_pct")
    of = _of_type(body.need("of", "the value that changes"), "change.of", scope, as_number)
    shape = "by (which group) and member (who is in it)"
    group = Fields.read(rule.need("group", shape), "group", ("by", "member"), shape)
    by = _of_type(group.need("by", "which group"), "group.by", scope, as_text)
    member = _of_type(group.need("member", "who is in it"), "group.member", scope, as_text)
    totals = Scope(lets=lets, row=False, totals=TOTALS["change"])
    when = condition(rule.need("when", "which totals make it fire"), "when", totals)
    found = _PERCENT.match(str(body.need("abs_pct", 'how much, as in ">= 2"').value))
    if found is None:
        body.fail("abs_pct", 'expected ">= 2" or "> 2" (percent)')
    judge = Group(cast(Any, found[1]), float(found[2]))
    return {
        "of": of,
        "member": member,
        "by": by,
        "when": when,
        "window": _window(rule),
        "group": judge,
        "totals": TOTALS["change"],
    }


#: kind → what reads it. The keys are also the list of kinds.
BODIES: dict[str, Callable[[Fields, dict[str, Expr]], Body]] = {
    "match": _match,
    "hold": _hold,
    "sequence": _sequence,
    "absence": _absence,
    "all_of": _all_of,
    "any_of": _any_of,
    "count": _count,
    "change": _change,
}
