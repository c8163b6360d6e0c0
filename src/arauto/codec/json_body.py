"""JSON bodies of HTTP: strictly typed, with errors that name the field and the rule. Pure.

The parser's own words are used where they come from the schema alone; what the client sent is never repeated.
Where a name or word is not known, the known one nearest to it is offered, or else all of them.

What decides who may do what is read with `read_once`, or checked by it, so that no two readers can take it
for different things.
"""

import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect as kinds

from arauto.codec.checks import bad_field
from arauto.codec.unknown import UnknownFieldError
from arauto.config.problems import nearest

__all__ = ["decode_body", "field_rule", "read_once"]

T = TypeVar("T")

_UNKNOWN = "Object contains unknown field"

# "… - at `$.quotas.sessionsMax`"; keys of a dict show as [...], so a path holds schema names only.
_PATH = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`\Z")
_STEP = re.compile(r"\[[^\]]*\]|[^.\[\]]+")
_UNKNOWN_FIELD = re.compile(
    r"Object contains unknown field `([^`]*)`(?: - at `(?:key in )?\$\.?([^`]*)`)?\Z"
)
_WORD = re.compile(r"Invalid enum value '(.*)'\Z", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_BOUND = re.compile(r"Expected `(\w+)` (?:of )?((?:length )?(?:<=|>=|<|>|==) \S+)")
_TYPE = re.compile(r"Expected `([\w| ]+)`(?:, got `(\w+)`)?")


def decode_body(data: bytes, wanted: type[T]) -> T:
    """Return a request's body as a record of type `wanted`.

    Raises:
        ArautoError: BAD_FIELD, naming the field, or `body` if it is not JSON at all; an UnknownFieldError if
            the first thing wrong is a field that `wanted` does not have.
    """
    if not data:
        raise bad_field("body", "is required")
    try:
        # The parser does not look into the strings of embedded values.
        if not data.isascii():
            data.decode()
        return msgspec.json.decode(data, type=wanted)
    except UnicodeDecodeError:
        raise bad_field("body", "must be UTF-8") from None
    except RecursionError:
        raise bad_field("body", "must not be nested so deep") from None
    except msgspec.ValidationError as error:
        text = str(error)
        field, rule = field_rule(text, wanted)
        if text.startswith(_UNKNOWN):
            raise UnknownFieldError(field or "body", rule) from None
        raise bad_field(field or "body", rule) from None
    except msgspec.DecodeError:
        raise bad_field("body", "must be one JSON value and nothing else") from None


def read_once(text: str | bytes) -> Any:
    """Return one JSON value whose objects name each member once. NaN and infinities are no JSON.

    Raises:
        ValueError: it is none.
    """
    try:
        return json.loads(text, object_pairs_hook=_each_once, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is named twice")
    return members


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def field_rule(text: str, wanted: Any = None) -> tuple[str, str]:
    """Return the field that a refusal of the parser is about, and the rule that was broken.

    Args:
        text: what the parser said.
        wanted: the type it was to make, which has the names and words that could have been meant.
    """
    if text.startswith(_UNKNOWN):
        unknown = _UNKNOWN_FIELD.match(text)
        name, field = (unknown[1], unknown[2] or "") if unknown else ("", "")
        names = _names_at(wanted, field)
        if not names:
            # The field's name is the sender's, who may have written what looks like a path.
            field, names = "", _names_at(wanted, "")
        return field, "must have no unknown fields" + _hint(name, names, "it may have")
    found = _PATH.search(text)
    field = found[1] if found else ""
    text = _PATH.sub("", text)
    missing = _MISSING.match(text)
    if missing:
        return f"{field}.{missing[1]}".removeprefix("."), "is required"
    bound = _BOUND.match(text)
    if bound:
        return field, f"must be of type {bound[1]} and {bound[2]}"
    expected = _TYPE.match(text)
    if expected and "matching" not in text:
        got = f", not {expected[2]}" if expected[2] else ""
        return field, f"must be of type {expected[1]}{got}"
    if text.startswith("Invalid base64"):
        return field, "must be standard base64 with padding"
    if text.startswith("Invalid enum value"):
        words = _words_at(wanted, field)
        rule = (
            f"must be one of {', '.join(words)}" if words else "must be one of the documented words"
        )
        word = _WORD.match(text)
        return field, rule + _hint(word[1] if word else "", words, "")
    return field, "breaks a rule of the schema"


def _hint(written: str, known: Iterable[str], otherwise: str) -> str:
    """The known name that was probably meant, or else all of them after some words; "" for no words."""
    known = tuple(known)
    meant = nearest(written, known)
    if meant:
        return f"; did you mean {meant}?"
    return f"; {otherwise} {', '.join(known)}" if known and otherwise else ""


def _names_at(wanted: Any, path: str) -> tuple[str, ...]:
    for kind in _kinds_at(wanted, path):
        if isinstance(kind, kinds.StructType):
            return tuple(field.encode_name for field in kind.fields)
    return ()


def _words_at(wanted: Any, path: str) -> tuple[str, ...]:
    words: list[str] = []
    for kind in _kinds_at(wanted, path):
        if isinstance(kind, kinds.EnumType):
            words += [str(member.value) for member in kind.cls]
        elif isinstance(kind, kinds.LiteralType):
            words += [str(value) for value in kind.values]
    return tuple(words)


def _kinds_at(wanted: Any, path: str) -> list[kinds.Type]:
    """What may stand at a path of the parser's."""
    found = [] if wanted is None else _options(_type_info(wanted))
    for step in _STEP.findall(path):
        found = [
            option for kind in found for below in _below(kind, step) for option in _options(below)
        ]
    return found


@cache
def _type_info(wanted: Any) -> kinds.Type:
    return kinds.type_info(wanted)


def _options(kind: kinds.Type) -> list[kinds.Type]:
    if isinstance(kind, kinds.Metadata):
        return _options(kind.type)
    if isinstance(kind, kinds.UnionType):
        return [option for one in kind.types for option in _options(one)]
    return [kind]


def _below(kind: kinds.Type, step: str) -> list[kinds.Type]:
    if isinstance(kind, kinds.StructType):
        return [field.type for field in kind.fields if field.encode_name == step]
    if isinstance(kind, kinds.DictType):
        return [kind.value_type]
    return [kind.item_type] if isinstance(kind, kinds.CollectionType) else []
