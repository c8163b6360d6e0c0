"""Reads an expression: SQL text to a typed tree, through a list of what is allowed.

sqlglot only finds the structure. Each of its node types is either read by a method here or refused, and
whatever comes out is built from our own nodes, so nothing of the user's text is ever pasted into SQL.
"""

import re
from collections.abc import Callable
from typing import Any

from arauto.correlation import coercion
from arauto.correlation.coercion import ExpressionError
from arauto.correlation.expression import Expr, Value, is_row_only, walk
from arauto.correlation.scope import COLUMNS, Scope, suggest

__all__ = ["DEPTH_MAX", "TEXT_MAX", "parse"]

TEXT_MAX = 1000
DEPTH_MAX = 32
#: After names have been replaced by what they stand for.
_NODES_MAX = 500
_LIKE_MAX = 100
_PATH_MAX = 16
_INDEX_MAX = 9999
_PERCENTS_MAX = 4
_NAME = re.compile(r"[^'\"\\\[\]?*\x00-\x1f\x7f]{1,100}\Z")

_COMPARE = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%"}
_NUMERIC = {"Abs": "abs", "Floor": "floor", "Ceil": "ceil", "Neg": "neg"}
_TEXTUAL = {"Lower": "lower", "Upper": "upper", "Length": "length"}
_TOTAL = {"Sum": "sum", "Avg": "avg", "Min": "min", "Max": "max"}
_CASTS = {"DOUBLE": "double", "FLOAT": "double", "TEXT": "string", "VARCHAR": "string"}
_CASTS |= {"BOOLEAN": "boolean"}
#: Arguments that say nothing about the meaning here; any other that a method does not know is refused.
_HARMLESS = frozenset({"typed", "safe", "big_int", "_type", "this", "expression", "expressions"})
_ALLOWED = (
    "comparisons, and, or, not, + - * / %, ||, in, between, like, is null, case, if, coalesce, abs, "
    "lower, upper, length, round, floor, ceil, cast to double, string or boolean"
)
_NO_BASE = "base is for start, cancel and emit of a hold that says base: last_stable"


def parse(text: str, scope: Scope) -> Expr:
    """Read and check one expression.

    Raises:
        ExpressionError: what is wrong with it.
    """
    if len(text) > TEXT_MAX:
        raise ExpressionError(f"longer than {TEXT_MAX} characters")
    if not text.strip():
        raise ExpressionError("an expression is not empty")
    _check_nesting(text)
    expr = _Reader(scope).read(_tree(text), 1)
    if len(walk(expr)) > _NODES_MAX or _depth(expr) > 2 * DEPTH_MAX:
        raise ExpressionError(
            f"more than {_NODES_MAX} parts or {2 * DEPTH_MAX} levels, counting what its names stand for"
        )
    return expr


def _depth(expr: Expr) -> int:
    return 1 + max(map(_depth, expr.args), default=0)


def _check_nesting(text: str) -> None:
    depth = 0
    for character in text:
        depth += character in "(["
        depth -= character in ")]"
        if depth > DEPTH_MAX:
            raise ExpressionError(f"nested more than {DEPTH_MAX} levels deep")


def _tree(text: str) -> Any:
    import sqlglot  # Here, because a node that never sees a rule should not pay for it.
    from sqlglot.errors import ParseError, SqlglotError

    try:
        return sqlglot.parse_one(text, dialect="spark")
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        missing = str(first.get("description")).startswith("Required keyword")
        said = "a part is missing" if missing else "something does not fit"
        raise ExpressionError(f"cannot be read: {said}", int(first.get("col") or 0)) from None
    except (SqlglotError, RecursionError, ValueError):
        raise ExpressionError("cannot be read") from None


class _Reader:
    """Turns sqlglot's nodes into ours."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def read(self, node: Any, depth: int) -> Expr:
        """Read one node and what is below it."""
        if depth > DEPTH_MAX:
            raise ExpressionError(f"nested more than {DEPTH_MAX} levels deep")
        name = type(node).__name__
        if name in ("Column", "Dot", "Bracket"):
            return self._reference(_path(node))
        method = _METHODS.get(name)
        if method is None:
            raise ExpressionError(f"{_called(node)} is not allowed; allowed are {_ALLOWED}")
        reader, known = method
        for argument, value in node.args.items():
            if value and argument not in _HARMLESS and argument not in known:
                raise ExpressionError(f"{_called(node)} with {argument} is not allowed")
        return reader(self, node, depth + 1)

    # --- operators ---------------------------------------------------------------------------------

    def _two(self, node: Any, depth: int) -> tuple[Expr, Expr]:
        return self.read(node.this, depth), self.read(node.expression, depth)

    def compare(self, node: Any, depth: int) -> Expr:
        op = _COMPARE[type(node).__name__]
        sides, type_ = coercion.unify(list(self._two(node, depth)), op)
        if type_ == "boolean" and op not in ("=", "<>"):
            raise ExpressionError(f"{op} does not compare true with false")
        return Expr(op, "boolean", tuple(sides))

    def arithmetic(self, node: Any, depth: int) -> Expr:
        op = _ARITHMETIC[type(node).__name__]
        left, right = self._two(node, depth)
        return Expr(op, "number", (coercion.as_number(left, op), coercion.as_number(right, op)))

    def logic(self, node: Any, depth: int) -> Expr:
        op = type(node).__name__.lower()
        sides = [node.this] if op == "not" else [node.this, node.expression]
        args = tuple(coercion.as_boolean(self.read(side, depth), op) for side in sides)
        return Expr(op, "boolean", args)

    def paren(self, node: Any, depth: int) -> Expr:
        return self.read(node.this, depth)

    def numeric(self, node: Any, depth: int) -> Expr:
        op = _NUMERIC[type(node).__name__]
        arg = coercion.as_number(self.read(node.this, depth), op)
        if op == "neg" and arg.op == "literal" and isinstance(arg.value, float):
            return Expr("literal", "number", value=-arg.value)
        return Expr(op, "number", (arg,))

    def textual(self, node: Any, depth: int) -> Expr:
        op = _TEXTUAL[type(node).__name__]
        arg = coercion.as_text(self.read(node.this, depth), op)
        return Expr(op, "number" if op == "length" else "text", (arg,))

    def concat(self, node: Any, depth: int) -> Expr:
        left, right = (coercion.as_text(side, "||") for side in self._two(node, depth))
        return Expr("concat", "text", (left, right))

    def is_null(self, node: Any, depth: int) -> Expr:
        if type(node.expression).__name__ != "Null":
            raise ExpressionError("is takes null or not null only")
        arg = self.read(node.this, depth)
        return Expr("is_null", "boolean", (coercion.cast_any(arg, "any"),))

    def in_list(self, node: Any, depth: int) -> Expr:
        if not node.expressions:
            raise ExpressionError("in takes a list of values, as in x in ('a', 'b')")
        args, _ = coercion.unify(
            [self.read(item, depth) for item in [node.this, *node.expressions]], "in"
        )
        return Expr("in", "boolean", tuple(args))

    def between(self, node: Any, depth: int) -> Expr:
        parts = [node.this, node.args["low"], node.args["high"]]
        args, type_ = coercion.unify([self.read(part, depth) for part in parts], "between")
        if type_ == "boolean":
            raise ExpressionError("between does not compare true with false")
        return Expr("between", "boolean", tuple(args))

    def like(self, node: Any, depth: int) -> Expr:
        pattern = node.expression
        if type(pattern).__name__ != "Literal" or not pattern.is_string:
            raise ExpressionError("like takes a pattern in quotes")
        text = str(pattern.this)
        if len(text) > _LIKE_MAX or text.count("%") > _PERCENTS_MAX or "\\" in text:
            raise ExpressionError(
                f"a pattern of like has at most {_LIKE_MAX} characters and {_PERCENTS_MAX} %, and no \\"
            )
        arg = coercion.as_text(self.read(node.this, depth), "like")
        found = Expr("like", "boolean", (arg,), value=text)
        return Expr("not", "boolean", (found,)) if node.args.get("negate") else found

    # --- functions ---------------------------------------------------------------------------------

    def cast(self, node: Any, depth: int) -> Expr:
        wanted = node.args["to"]
        to = _CASTS.get(getattr(wanted.this, "name", ""))
        if to is None or wanted.expressions:
            raise ExpressionError("cast takes double, string or boolean")
        return coercion.cast(self.read(node.this, depth), to)

    def round(self, node: Any, depth: int) -> Expr:
        places: Value = 0.0
        if (given := node.args.get("decimals")) is not None:
            places = self.read(given, depth).value
        if not isinstance(places, float) or places not in range(11):
            raise ExpressionError("round takes 0 to 10 decimal places")
        arg = coercion.as_number(self.read(node.this, depth), "round")
        return Expr("round", "number", (arg,), value=places)

    def coalesce(self, node: Any, depth: int) -> Expr:
        parts = [self.read(part, depth) for part in [node.this, *node.expressions]]
        args, type_ = coercion.unify(parts, "coalesce")
        return Expr("coalesce", type_, tuple(args))

    def case(self, node: Any, depth: int) -> Expr:
        if node.this is not None:
            raise ExpressionError("case takes conditions: case when x = 1 then … else … end")
        default = node.args.get("default")
        branches = [(item.this, item.args["true"]) for item in node.args["ifs"]]
        return self._branches(branches, default, depth)

    def if_(self, node: Any, depth: int) -> Expr:
        return self._branches([(node.this, node.args.get("true"))], node.args.get("false"), depth)

    def _branches(self, branches: list[tuple[Any, Any]], default: Any, depth: int) -> Expr:
        conditions = [coercion.as_boolean(self.read(test, depth), "when") for test, _ in branches]
        values = [self.read(value, depth) for _, value in branches]
        values.append(Expr("literal", "null") if default is None else self.read(default, depth))
        values, type_ = coercion.unify(values, "case")
        pairs = [part for pair in zip(conditions, values, strict=False) for part in pair]
        return Expr("case", type_, (*pairs, values[-1]))

    # --- leaves ------------------------------------------------------------------------------------

    def literal(self, node: Any, _depth: int) -> Expr:
        if node.is_string:
            return Expr("literal", "text", value=str(node.this))
        try:
            number = float(str(node.this))
        except ValueError:
            raise ExpressionError(f"{node.this} is not a number") from None
        if abs(number) > 1e18:
            raise ExpressionError("numbers go up to 1e18")
        return Expr("literal", "number", value=number)

    def boolean(self, node: Any, _depth: int) -> Expr:
        return Expr("literal", "boolean", value=bool(node.this))

    def null(self, _node: Any, _depth: int) -> Expr:
        return Expr("literal", "null")

    def anonymous(self, node: Any, depth: int) -> Expr:
        name = str(node.this).lower()
        if name == "base" and not self._scope.base:
            raise ExpressionError(_NO_BASE)
        if name != "base":
            raise ExpressionError(f"{name}() is not a function; allowed are {_ALLOWED}")
        if len(node.expressions) != 1:
            raise ExpressionError("base takes one value, as in base(price)")
        arg = self.read(node.expressions[0], depth)
        if not is_row_only(arg):
            raise ExpressionError("base takes a value of the event itself")
        return Expr("at", arg.type, (arg,), of="base")

    def count(self, node: Any, depth: int) -> Expr:
        inner = node.this
        kind = type(inner).__name__
        if inner is None or kind == "Star":
            return self._total("count")
        if kind == "Distinct":
            words = [_path(item) for item in inner.expressions]
            if words == [["member"]] and "members" in self._scope.totals:
                return self._total("members")
            if len(inner.expressions) == 1:
                self._check_of(inner.expressions[0], depth)
                return self._total("distinct_count")
        path = _path(inner)
        if len(path) == 1 and path[0] in self._scope.steps:
            return Expr("tally", "number", value="count", of=str(path[0]))
        raise ExpressionError(
            "count takes nothing, * or distinct and the value of the rule; in a sequence, a step"
        )

    def total(self, node: Any, depth: int) -> Expr:
        if node.expressions:
            raise ExpressionError("min and max take one value here")
        path = _path(node.this)
        if len(path) > 1 and path[0] in self._scope.steps:
            return self._tally(_TOTAL[type(node).__name__], str(path[0]), path[1:])
        self._check_of(node.this, depth)
        return self._total(_TOTAL[type(node).__name__])

    def _tally(self, what: str, step: str, path: list[str | int]) -> Expr:
        if what not in ("sum", "avg"):
            raise ExpressionError("of a step's values sum and avg are kept, and count(step)")
        value = coercion.as_number(self._row(path), what)
        total = Expr("tally", "number", (value,), value="sum", of=step)
        if what == "sum":
            return total
        return Expr("/", "number", (total, Expr("tally", "number", (value,), "present", of=step)))

    def _check_of(self, node: Any, depth: int) -> None:
        if _path(node) == ["of"] or self._scope.of is None:
            return
        arg = _Reader(Scope(lets=self._scope.lets)).read(node, depth)
        if arg != self._scope.of and Expr("to_number", "number", (arg,)) != self._scope.of:
            raise ExpressionError("a count rule has one value, its `of`; other totals are not kept")

    def _total(self, name: str) -> Expr:
        if name not in self._scope.totals:
            known = list(self._scope.totals)
            said = f"; known here: {', '.join(known)}" if known else ""
            raise ExpressionError(f"{name} is not known here{said}")
        return Expr("total", "number", value=name)

    # --- names -------------------------------------------------------------------------------------

    def _reference(self, path: list[str | int]) -> Expr:
        if not path:
            raise ExpressionError("only names can have parts, as in payload.items[0].price")
        scope, head = self._scope, path[0]
        if head == "key" and len(path) > 1 and scope.keys is not None:
            return self._key(path[1:], scope.keys)
        if head in scope.totals and len(path) == 1:
            return self._total(str(head))
        if head in scope.roles and len(path) > 1:
            return Expr("at", (inner := self._row(path[1:])).type, (inner,), of=str(head))
        if not scope.row:
            raise ExpressionError(f"{head} is not known here{suggest(str(head), scope.known())}")
        if head == "base":
            raise ExpressionError(_NO_BASE)
        inner = self._row(path)
        return Expr("at", inner.type, (inner,), of=scope.role) if scope.role else inner

    def _key(self, path: list[str | int], names: tuple[str, ...]) -> Expr:
        if len(path) == 1 and path[0] in names and path[0] != "":
            return Expr("key", "text", value=float(names.index(str(path[0]))))
        if len(path) == 1 and isinstance(path[0], int) and path[0] < len(names):
            return Expr("key", "text", value=float(path[0]))
        known = [f"key.{name}" for name in names if name] or ["none; the rule has no key"]
        raise ExpressionError(f"not a part of the key; they are {', '.join(known)}")

    def _row(self, path: list[str | int]) -> Expr:
        head, rest = path[0], path[1:]
        if head in self._scope.lets and not rest:
            return self._scope.lets[str(head)]
        if head == "payload":
            if len(rest) > _PATH_MAX:
                raise ExpressionError(f"a path has at most {_PATH_MAX} parts")
            return Expr("payload", "any", path=tuple(map(_checked, rest)))
        if head == "headers":
            if len(rest) != 1 or not isinstance(rest[0], str):
                raise ExpressionError("a header is written headers.name or headers['name']")
            return Expr("header", "any", value=str(_checked(rest[0])))
        if head in COLUMNS and not rest:
            return Expr("column", "text", value=str(head))
        if head in COLUMNS or head in self._scope.lets:
            raise ExpressionError(f"{head} has no parts")
        raise ExpressionError(f"{head} is not known here{suggest(str(head), self._scope.known())}")


def _path(node: Any) -> list[str | int]:
    """The parts of `a.b[0].c`; empty if the node is something else."""
    kind = type(node).__name__
    if kind == "Column":
        return [str(part.this) for part in node.parts]
    if kind == "Dot":
        return [*_path(node.this), str(node.expression.this)] if _path(node.this) else []
    if kind == "Bracket" and len(node.expressions) == 1:
        index = node.expressions[0]
        if type(index).__name__ == "Literal" and _path(node.this):
            part = str(index.this)
            if index.is_string:
                return [*_path(node.this), part]
            if part.isdigit() and int(part) <= _INDEX_MAX:
                return [*_path(node.this), int(part)]
    return []


def _checked(part: str | int) -> str | int:
    if isinstance(part, str) and (not _NAME.match(part) or part != part.strip()):
        raise ExpressionError("a name in a path has no quotes, brackets, ?, * or \\ in it")
    return part


def _called(node: Any) -> str:
    """How to call a node in a message: as SQL does, if it is a function."""
    name: str = type(node).__name__
    if name == "Concat":
        return "text beside text (write \\' for a quote, || to join)"
    return name.lower()


_Method = Callable[[_Reader, Any, int], Expr]
_METHODS: dict[str, tuple[_Method, frozenset[str]]] = {
    **{name: (_Reader.compare, frozenset()) for name in _COMPARE},
    **{name: (_Reader.arithmetic, frozenset()) for name in _ARITHMETIC},
    **{name: (_Reader.numeric, frozenset()) for name in _NUMERIC},
    **{name: (_Reader.textual, frozenset()) for name in _TEXTUAL},
    **{name: (_Reader.total, frozenset()) for name in _TOTAL},
    **{name: (_Reader.logic, frozenset()) for name in ("And", "Or", "Not")},
    "Anonymous": (_Reader.anonymous, frozenset()),
    "Between": (_Reader.between, frozenset({"low", "high"})),
    "Boolean": (_Reader.boolean, frozenset()),
    "Case": (_Reader.case, frozenset({"ifs", "default"})),
    "Cast": (_Reader.cast, frozenset({"to"})),
    "Coalesce": (_Reader.coalesce, frozenset()),
    "Count": (_Reader.count, frozenset()),
    "DPipe": (_Reader.concat, frozenset()),
    "If": (_Reader.if_, frozenset({"true", "false"})),
    "In": (_Reader.in_list, frozenset()),
    "Is": (_Reader.is_null, frozenset()),
    "Like": (_Reader.like, frozenset({"negate"})),
    "Literal": (_Reader.literal, frozenset({"is_string"})),
    "Null": (_Reader.null, frozenset()),
    "Paren": (_Reader.paren, frozenset()),
    "Round": (_Reader.round, frozenset({"decimals"})),
    "TryCast": (_Reader.cast, frozenset({"to"})),
}
