"""Which type an operand has to have, and what is put around it if it has another one.

Only what came from outside (`any`: payload paths and headers) changes its type silently. Everything else
says `cast(… as …)`, because a rule that compares text with numbers by accident fires by accident.
"""

from arauto.correlation.expression import Expr, Type

__all__ = ["ExpressionError", "as_boolean", "as_number", "as_text", "cast", "cast_any", "unify"]

_WORDS = {"any": "text", "text": "text", "number": "a number", "boolean": "true or false"}


class ExpressionError(Exception):
    """What is wrong with an expression, and in which column of its text (0 if that is not known)."""

    def __init__(self, message: str, column: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.column = column


def as_number(expr: Expr, what: str) -> Expr:
    """The operand as a number."""
    return _as(expr, "number", "to_number", what, "double")


def as_text(expr: Expr, what: str) -> Expr:
    """The operand as text."""
    if expr.type == "any":
        return expr
    return _as(expr, "text", "to_text", what, "string")


def as_boolean(expr: Expr, what: str) -> Expr:
    """The operand as a boolean."""
    return _as(expr, "boolean", "to_boolean", what, "boolean")


def _as(expr: Expr, type_: Type, op: str, what: str, name: str) -> Expr:
    if expr.type == type_:
        return expr
    if expr.type == "null":
        return Expr("literal", type_)
    if expr.type == "any":
        return Expr(op, type_, (expr,))
    hint = "" if type_ == "boolean" else f"; use cast(… as {name})"
    raise ExpressionError(f"{what} needs {_WORDS[type_]}, not {_WORDS[expr.type]}{hint}")


def cast_any(expr: Expr, like: Type) -> Expr:
    """What came from outside, as the type of what it is compared with."""
    if expr.type == "null":
        return Expr("literal", "text" if like in ("any", "null") else like)
    if expr.type != "any" or like in ("any", "text", "null"):
        return expr
    return Expr("to_number" if like == "number" else "to_boolean", like, (expr,))


def unify(exprs: list[Expr], what: str) -> tuple[list[Expr], Type]:
    """Operands that must be of one type (comparison, `in`, `case`, `coalesce`) and that type."""
    types = {expr.type for expr in exprs} - {"any", "null"}
    if len(types) > 1:
        said = " and ".join(sorted(_WORDS[type_] for type_ in types))
        raise ExpressionError(f"{what} mixes {said}; use cast(… as …)")
    fallback: Type = "any" if any(expr.type == "any" for expr in exprs) else "null"
    type_ = next(iter(types), fallback)
    return [cast_any(expr, type_) for expr in exprs], type_ if type_ != "null" else "text"


def cast(expr: Expr, to: str) -> Expr:
    """`cast(expr as to)`."""
    if to == "double":
        if expr.type == "boolean":
            raise ExpressionError("true and false cannot be cast to a number; use if(…, 1, 0)")
        return expr if expr.type == "number" else _conversion("to_number", "number", expr)
    if to == "boolean":
        if expr.type == "number":
            raise ExpressionError("a number cannot be cast to boolean; compare it, as in x <> 0")
        return expr if expr.type == "boolean" else _conversion("to_boolean", "boolean", expr)
    if expr.type in ("any", "text"):
        return Expr("to_text", "text", (expr,)) if expr.type == "any" else expr
    return _conversion("to_text", "text", expr)


def _conversion(op: str, type_: Type, expr: Expr) -> Expr:
    return Expr("literal", type_) if expr.type == "null" else Expr(op, type_, (expr,))
