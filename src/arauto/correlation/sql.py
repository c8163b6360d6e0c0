"""Writes an expression as Spark SQL that never raises: what cannot be computed is NULL.

Identifiers and literals are quoted here; nothing is pasted from a rule. `interpreter.py` computes the
same values, and `docs/topics/correlation.md` says what they are. Where Spark and the rest of the world
differ (its casts take "1d" and " 1", its floor raises), the SQL goes a way on which they do not.
"""

import re
from collections.abc import Callable

from arauto.correlation.expression import Expr
from arauto.correlation.wildcards import channel_regex, like_regex

__all__ = ["KINDS", "NUMBER_PATTERN", "channels_sql", "quote_text", "to_sql"]

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

#: What counts as a number. No white space, no "1d", no "1_0", no "NaN".
NUMBER_PATTERN = r"[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,3})?"

_INFIX = {"=": "=", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_INFIX |= {"+": "+", "-": "-", "*": "*", "and": "AND", "or": "OR", "concat": "||"}
_CALLS = {"abs": "abs", "lower": "lower", "upper": "upper", "coalesce": "coalesce"}
_CALLS |= {"/": "try_divide", "%": "try_mod"}
_SQL_TYPES = {"number": "DOUBLE", "boolean": "BOOLEAN"}
#: Exact decimals: casting to them cannot lose digits of what people write, and gives NULL beyond 1e28.
_DECIMAL = "DECIMAL(38, 10)"


def to_sql(expr: Expr) -> str:
    """The expression over the columns of a row (or, for totals, over the columns of `windows.Totals`)."""
    op = expr.op
    if op in _LEAVES:
        return _leaf(expr)
    args = [to_sql(arg) for arg in expr.args]
    if op in _INFIX:
        return f"({args[0]} {_INFIX[op]} {args[1]})"
    if op in _CALLS:
        return f"{_CALLS[op]}({', '.join(args)})"
    if op in ("floor", "ceil"):
        # floor(DOUBLE) raises on numbers that do not fit a BIGINT; on decimals it cannot.
        return f"CAST({op}(try_cast({args[0]} AS {_DECIMAL})) AS DOUBLE)"
    if op == "case":
        pairs = zip(args[:-1:2], args[1::2], strict=True)
        branches = " ".join(f"WHEN {test} THEN {value}" for test, value in pairs)
        return f"CASE {branches} ELSE {args[-1]} END"
    if op == "to_text":
        return _text_of(expr.args[0], args[0])
    return _ONE[op](args, expr)


def _text_of(arg: Expr, sql: str) -> str:
    if arg.type != "number":
        return f"CAST({sql} AS STRING)"
    return f"regexp_replace(CAST(try_cast({sql} AS {_DECIMAL}) AS STRING), '[.]?0+$', '')"


def _like(sql: str, pattern: str) -> str:
    # With one run at most before the last piece there is nothing to try in combination, and Spark has
    # quicker ways for the plain ones (starts with, ends with, contains).
    if pattern.rstrip("%").count("%") <= 1:
        return f"({sql} LIKE {quote_text(pattern)})"
    return f"({sql} RLIKE {quote_text(like_regex(pattern, _END))})"


_ONE: dict[str, Callable[[list[str], Expr], str]] = {
    "neg": lambda args, _: f"(- {args[0]})",
    "not": lambda args, _: f"(NOT {args[0]})",
    "is_null": lambda args, _: f"({args[0]} IS NULL)",
    "in": lambda args, _: f"({args[0]} IN ({', '.join(args[1:])}))",
    "between": lambda args, _: f"({args[0]} BETWEEN {args[1]} AND {args[2]})",
    "like": lambda args, expr: _like(args[0], str(expr.value)),
    "length": lambda args, _: f"CAST(length({args[0]}) AS DOUBLE)",
    "round": lambda args, expr: f"round({args[0]}, {int(float(str(expr.value)))})",
    "to_number": lambda args, _: (
        f"try_cast(regexp_extract({args[0]}, {quote_text(chr(94) + NUMBER_PATTERN + _END)}, 0) AS DOUBLE)"
    ),
    "to_boolean": lambda args, _: (
        f"CASE lower({args[0]}) WHEN 'true' THEN true WHEN 'false' THEN false END"
    ),
}
#: The very end: `$` would also match before a last line break.
_END = r"\z"

_LEAVES = frozenset({"literal", "column", "header", "payload", "total"})


def _leaf(expr: Expr) -> str:
    value = expr.value
    if expr.op == "literal":
        return _literal(expr)
    if expr.op == "header":
        return f"try_element_at(`headers`, {quote_text(str(value))})"
    if expr.op == "payload":
        return _payload(expr.path) if expr.path else "`text`"
    if expr.op == "total":
        return _total(str(value))
    if value == "kind":
        names = " ".join(f"WHEN {number} THEN '{name}'" for number, name in KINDS.items())
        return f"CASE `kind` {names} END"
    return f"`{value}`"


def _payload(path: tuple[str | int, ...]) -> str:
    found = f"get_json_object(`json`, {quote_text(_json_path(path))})"
    # Spark shows a null in a list as the text "null", as it does a text "null" there.
    return f"nullif({found}, 'null')" if isinstance(path[-1], int) else found


def _literal(expr: Expr) -> str:
    match expr.value:
        case None:
            return f"CAST(NULL AS {_SQL_TYPES.get(expr.type, 'STRING')})"
        case bool():
            return "true" if expr.value else "false"
        case float():
            # D makes it a DOUBLE: a bare 1.05 would be a decimal and drag its neighbours along.
            return f"{expr.value!r}D" if expr.value >= 0 else f"(- {-expr.value!r}D)"
    return quote_text(str(expr.value))


def _total(name: str) -> str:
    if name == "avg":
        return "try_divide(`sum`, CAST(`present` AS DOUBLE))"
    if name == "same_sign_share":
        return "try_divide(CAST(greatest(`up`, `down`) AS DOUBLE), CAST(`members` AS DOUBLE))"
    column = {"window_start": "start_ms", "window_end": "end_ms"}.get(name, name)
    return f"CAST(`{column}` AS DOUBLE)"


def _json_path(path: tuple[str | int, ...]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f"['{part}']" for part in path)


def quote_text(text: str) -> str:
    """A text literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\u{ord(m[0]):04x}", escaped) + "'"


def channels_sql(patterns: tuple[str, ...]) -> str:
    """Whether one of the patterns covers `channel`, as `names.matches` decides it."""
    return "(" + " OR ".join(map(_pattern_sql, patterns)) + ")"


def _pattern_sql(pattern: str) -> str:
    if pattern == "*":
        return "true"
    if pattern[:1] == "/":
        below = pattern if pattern == "/" else pattern + "/"
        return f"(`channel` = {quote_text(pattern)} OR startswith(`channel`, {quote_text(below)}))"
    if "*" not in pattern and "#" not in pattern:
        return f"(`channel` = {quote_text(pattern)})"
    if "#" not in pattern and pattern.index("*") == len(pattern) - 1:
        return f"startswith(`channel`, {quote_text(pattern[:-1])})"
    return f"(`channel` RLIKE {quote_text(channel_regex(pattern, _END))})"
