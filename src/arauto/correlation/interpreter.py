"""Evaluates an expression as SQL would: three-valued logic, and NULL for what cannot be computed.

A tree is turned into closures once and kept. The same closures serve rows (mappings of column to value)
and the matcher, whose mapping holds events by role, the key's parts and a window's totals.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal, localcontext
from functools import lru_cache
from itertools import accumulate
from typing import Any

from arauto.correlation.bounds import TEXT_LEN_MAX, refused
from arauto.correlation.digits import digits_of
from arauto.correlation.expression import KINDS, Expr, Value
from arauto.correlation.wildcards import like_regex

__all__ = ["KEY", "TALLIES", "TOTALS", "Evaluator", "compiled", "evaluate", "json_of"]

#: Where the matcher's mapping keeps the key's parts, a run's tallies and a window's totals.
KEY = "#key"
TALLIES = "#tallies"
TOTALS = "#totals"

Row = Mapping[str, Any]
Evaluator = Callable[[Row], Value]

#: What counts as a number. No white space, no "1d", no "1_0", no "NaN".
_NUMBER_PATTERN = r"[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,3})?"
_NUMBER = re.compile(_NUMBER_PATTERN + r"\Z")
_PLACES = Decimal("1e-10")
_DECIMAL_LIMIT = Decimal("1e28")
#: Spark's parser stops there on every machine; where Python's stops depends on its version.
_JSON_DEPTH_MAX = 1000
#: Strings, whether they end or not, and whatever is no bracket: one pass, whatever the text.
_NO_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[^][{}"]++', re.DOTALL)
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}


def evaluate(expr: Expr, row: Row) -> Value:
    """The expression's value for one row; None is NULL."""
    return compiled(expr)(row)


@lru_cache(maxsize=4096)
def compiled(expr: Expr) -> Evaluator:
    """The expression as a function."""
    if expr.op in _LEAVES:
        return _LEAVES[expr.op](expr)
    args = tuple(map(compiled, expr.args))
    if expr.op in _STRICT:
        return _strict(_STRICT[expr.op], args)
    return _LAZY[expr.op](expr, args)


# --- leaves ------------------------------------------------------------------------------------------


def _literal(expr: Expr) -> Evaluator:
    value = expr.value
    return lambda _: value


def _column(expr: Expr) -> Evaluator:
    name = str(expr.value)
    if name == "kind":
        return lambda row: KINDS.get(row["kind"])
    return lambda row: row[name]


def _header(expr: Expr) -> Evaluator:
    name = str(expr.value)
    return lambda row: (row["headers"] or {}).get(name)


def _payload(expr: Expr) -> Evaluator:
    path = expr.path
    if not path:
        return lambda row: row["text"]
    in_list = isinstance(path[-1], int)

    def look(row: Row) -> Value:
        value = _value_of(row["json"])
        for part in path:
            if isinstance(part, int):
                value = value[part] if isinstance(value, list) and part < len(value) else None
            else:
                value = value.get(part) if isinstance(value, dict) else None
        shown = _json_text(value)
        # In a list, Spark does not tell the text "null" from a null.
        return None if in_list and shown == "null" else shown

    return look


def _slot(expr: Expr) -> Evaluator:
    role, number, index = expr.of, expr.type == "number", int(float(str(expr.value)))

    def pick(row: Row) -> Value:
        event = row.get(role)
        if event is None:
            return None
        value: Value = (event.nums if number else event.texts)[index]
        return value

    return pick


def _key(expr: Expr) -> Evaluator:
    index = int(float(str(expr.value)))
    return lambda row: row[KEY][index]


def _tally(expr: Expr) -> Evaluator:
    index = int(float(str(expr.value)))
    return lambda row: row[TALLIES][index]


def _total(expr: Expr) -> Evaluator:
    name = str(expr.value)
    return lambda row: row[TOTALS][name]


_LEAVES: dict[str, Callable[[Expr], Evaluator]] = {
    "literal": _literal,
    "column": _column,
    "header": _header,
    "payload": _payload,
    "slot": _slot,
    "key": _key,
    "total": _total,
    "tally": _tally,
}


# --- JSON --------------------------------------------------------------------------------------------


def json_of(text: str | None) -> str | None:
    """The text if it is JSON: strict, and no name twice in one object. Else None."""
    try:
        if text is not None:
            _parsed(text)
    except (ValueError, RecursionError):
        return None
    return text


def _value_of(text: str | None) -> Any:
    try:
        return None if text is None else _parsed(text)
    except RecursionError:
        # Near the limit it depends on the stack below whether a deep text can be parsed again.
        return None


#: Few: rows come one after another, and a parsed text may be many times as large as the text.
@lru_cache(maxsize=8)
def _parsed(text: str) -> Any:
    if text.count("[") + text.count("{") > _JSON_DEPTH_MAX and _depth(text) > _JSON_DEPTH_MAX:
        raise RecursionError("nested more deeply than Spark reads")
    return json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)


def _depth(text: str) -> int:
    brackets = _NO_BRACKETS.sub("", text)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return made


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _json_text(value: Any) -> str | None:
    match value:
        case None:
            return None
        case str():
            return _whole_text(value)
        case bool():
            return "true" if value else "false"
        case float():
            return digits_of(value)
        case int():
            return str(value)
    return _json_compact(value)


def _json_compact(value: Any) -> str:
    """Without recursion: whatever could be parsed can be written, however deep it is."""
    pieces: list[str] = []
    #: (is ready text, text or value), the next one last.
    todo: list[tuple[bool, Any]] = [(False, value)]
    while todo:
        is_text, item = todo.pop()
        if is_text:
            pieces.append(item)
        elif isinstance(item, list | dict):
            opening, closing = "[]" if isinstance(item, list) else "{}"
            pieces.append(opening)
            todo.append((True, closing))
            todo.extend(reversed(_members(item)))
        else:
            pieces.append(_quoted(item) if isinstance(item, str) else _json_text(item) or "null")
    return _whole_text("".join(pieces))


def _whole_text(text: str) -> str:
    """JSON can escape half a character, which no text can hold."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _members(value: list[Any] | dict[str, Any]) -> list[tuple[bool, Any]]:
    made: list[tuple[bool, Any]] = []
    for name, item in value.items() if isinstance(value, dict) else enumerate(value):
        comma = "," if made else ""
        made.append((True, f"{comma}{_quoted(name)}:" if isinstance(name, str) else comma))
        made.append((False, item))
    return made


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


# --- operators: NULL if an operand is ------------------------------------------------------------------


def _strict(function: Callable[..., Value], args: tuple[Evaluator, ...]) -> Evaluator:
    if len(args) == 1:
        (only,) = args

        def unary(row: Row) -> Value:
            value = only(row)
            return None if value is None else function(value)

        return unary
    left, right = args

    def binary(row: Row) -> Value:
        first = left(row)
        if first is None:
            return None
        second = right(row)
        return None if second is None else function(first, second)

    return binary


def _less(left: Any, right: Any) -> bool:
    """Spark's order: NaN is equal to itself and greater than every other number."""
    if left != left:
        return False
    return bool(right != right or left < right)


def _equal(left: Any, right: Any) -> bool:
    return bool(left == right or (left != left and right != right))


def _divide(left: Any, right: Any) -> float | None:
    return left / right if right else None


def _modulo(left: Any, right: Any) -> float | None:
    if not right:
        return None
    if math.isnan(left) or math.isinf(left) or math.isnan(right):
        return math.nan
    return math.fmod(left, right)


def _decimal(value: float) -> Decimal | None:
    """`try_cast(value AS DECIMAL(38, 10))`."""
    if not math.isfinite(value):
        return None
    with localcontext() as context:
        context.prec = 400
        rounded = Decimal(repr(value)).quantize(_PLACES, ROUND_HALF_UP)
    return rounded if abs(rounded) < _DECIMAL_LIMIT else None


def _whole(value: float, rounding: str) -> float | None:
    decimal = _decimal(value)
    return None if decimal is None else float(decimal.to_integral_value(rounding))


def _to_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    decimal = _decimal(value)
    if decimal is None:
        return None
    # All ten places are there, so only zeros behind the point are taken off.
    text = format(decimal, "f").rstrip("0").removesuffix(".")
    return "0" if text == "-0" else text


def _to_number(text: Any) -> float | None:
    return float(text) if _NUMBER.match(text) else None


def _joined(left: Any, right: Any) -> str | None:
    """A text that would be too long is none: names that stand for two of the one before grow without end."""
    if len(left) + len(right) > TEXT_LEN_MAX:
        refused.count += 1
        return None
    joined: str = left + right
    return joined


_BOOLEANS = {"true": True, "false": False}

_STRICT: dict[str, Callable[..., Value]] = {
    "=": _equal,
    "<>": lambda left, right: not _equal(left, right),
    "<": _less,
    ">": lambda left, right: _less(right, left),
    "<=": lambda left, right: not _less(right, left),
    ">=": lambda left, right: not _less(left, right),
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _divide,
    "%": _modulo,
    "concat": _joined,
    "neg": lambda value: -value,
    "not": lambda value: not value,
    "abs": abs,
    "lower": str.lower,
    "upper": str.upper,
    "length": lambda text: float(len(text)),
    "floor": lambda value: _whole(value, ROUND_FLOOR),
    "ceil": lambda value: _whole(value, ROUND_CEILING),
    "to_number": _to_number,
    "to_text": _to_text,
    "to_boolean": lambda text: _BOOLEANS.get(text.lower()),
}


# --- operators with their own way with NULL ------------------------------------------------------------


def _junction(decisive: bool) -> Callable[[Expr, tuple[Evaluator, ...]], Evaluator]:
    """`and` (one False decides) and `or` (one True decides); undecided with a NULL it is NULL."""

    def make(_: Expr, args: tuple[Evaluator, ...]) -> Evaluator:
        left, right = args

        def value(row: Row) -> Value:
            first = left(row)
            if first is decisive:
                return decisive
            second = right(row)
            if second is decisive:
                return decisive
            return None if first is None or second is None else not decisive

        return value

    return make


def _is_null(_: Expr, args: tuple[Evaluator, ...]) -> Evaluator:
    (only,) = args
    return lambda row: only(row) is None


def _in(_: Expr, args: tuple[Evaluator, ...]) -> Evaluator:
    needle, *hay = args

    def among(row: Row) -> Value:
        value = needle(row)
        if value is None:
            return None
        items = [item(row) for item in hay]
        if any(item is not None and _equal(value, item) for item in items):
            return True
        return None if None in items else False

    return among


def _between(expr: Expr, _: tuple[Evaluator, ...]) -> Evaluator:
    value, low, high = expr.args
    sides = (Expr(">=", "boolean", (value, low)), Expr("<=", "boolean", (value, high)))
    return compiled(Expr("and", "boolean", sides))


def _like(expr: Expr, args: tuple[Evaluator, ...]) -> Evaluator:
    match = re.compile(like_regex(str(expr.value), r"\Z")).match
    return _strict(lambda text: match(text) is not None, args)


def _round(expr: Expr, args: tuple[Evaluator, ...]) -> Evaluator:
    places = Decimal(1).scaleb(-int(float(str(expr.value))))

    def rounded(value: Any) -> float:
        if not math.isfinite(value):
            return float(value)
        with localcontext() as context:
            context.prec = 400
            return float(Decimal(repr(value)).quantize(places, ROUND_HALF_UP))

    return _strict(rounded, args)


def _coalesce(_: Expr, args: tuple[Evaluator, ...]) -> Evaluator:
    return lambda row: next((value for arg in args if (value := arg(row)) is not None), None)


def _case(_: Expr, args: tuple[Evaluator, ...]) -> Evaluator:
    pairs = list(zip(args[:-1:2], args[1::2], strict=True))
    default = args[-1]

    def choose(row: Row) -> Value:
        for test, value in pairs:
            if test(row) is True:
                return value(row)
        return default(row)

    return choose


_LAZY: dict[str, Callable[[Expr, tuple[Evaluator, ...]], Evaluator]] = {
    "and": _junction(False),
    "or": _junction(True),
    "is_null": _is_null,
    "in": _in,
    "between": _between,
    "like": _like,
    "round": _round,
    "coalesce": _coalesce,
    "case": _case,
}
