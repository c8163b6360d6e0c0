"""Types of the schema in words, for problems and for the reference page. Pure."""

from typing import Any, get_args

import msgspec
from msgspec import inspect as kinds

__all__ = ["bare", "describe", "found", "is_path", "is_reserved", "kind_of"]

_SHOWN_LEN_MAX = 40


def kind_of(annotation: Any) -> kinds.Type:
    """Return what msgspec makes of a type annotation, without wrappers."""
    kind = kinds.type_info(annotation)
    return kind.type if isinstance(kind, kinds.Metadata) else kind


def is_reserved(annotation: Any) -> bool:
    """Whether the field is accepted and does nothing yet."""
    return _is_marked(annotation, "reserved")


def is_path(annotation: Any) -> bool:
    """Whether the field names a file or directory."""
    return _is_marked(annotation, "path")


def _is_marked(annotation: Any, mark: str) -> bool:
    kind = kinds.type_info(annotation)
    return isinstance(kind, kinds.Metadata) and bool((kind.extra or {}).get(mark))


def bare(annotation: Any) -> Any:
    """Strip `Annotated`."""
    return get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation


def describe(annotation: Any) -> str:
    """Say what values a type takes, as "a whole number from 0 to 65535"."""
    kind, inner = kind_of(annotation), get_args(bare(annotation))
    match kind:
        case kinds.BoolType():
            return "true or false"
        case kinds.IntType():
            return "a whole number" + _range(kind)
        case kinds.FloatType():
            return "a number" + _range(kind)
        case kinds.StrType():
            return "text" if kind.pattern is None else "text of letters, digits and . _ - (1 to 64)"
        case kinds.LiteralType():
            return "one of " + ", ".join(inner)  # in the order they are written in
        case kinds.EnumType():
            return "one of " + ", ".join(str(member.value) for member in kind.cls)
        case kinds.VarTupleType():
            return f"a list; each item {describe(inner[0])}"
        case kinds.DictType():
            return f"names and values; each value {describe(inner[1])}"
    return "a group of fields"


def _range(kind: kinds.IntType | kinds.FloatType) -> str:
    if kind.gt is not None:
        return f" above {kind.gt:g}" + (f", at most {kind.le:.10g}" if kind.le is not None else "")
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge:g} to {kind.le:.10g}"
    return f", at least {kind.ge:g}" if kind.ge is not None else ""


def found(value: object, *, secret: bool) -> str:
    """Say what was found instead, as `text "abc"`. A secret's value is not shown, only its kind."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case int() | float():
            return "a number" if secret else f"{value}"
        case str():
            shown = value if len(value) <= _SHOWN_LEN_MAX else value[:_SHOWN_LEN_MAX] + "…"
            return "text" if secret else f"text {msgspec.json.encode(shown).decode()}"
        case list():
            return "a list"
        case dict():
            return "a group of fields"
    return type(value).__name__
