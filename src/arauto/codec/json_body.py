"""JSON bodies of HTTP requests: strictly typed, with errors that name the field and the rule. Pure.

The parser's own words are used where they come from the schema alone; what the client sent is never repeated.
"""

import re
from typing import Any, TypeVar

import msgspec
from msgspec import inspect as kinds

from arauto.codec.checks import bad_field
from arauto.codec.unknown import UnknownFieldError

__all__ = ["decode_body", "field_rule"]

T = TypeVar("T")

_UNKNOWN = "Object contains unknown field"

# "… - at `$.quotas.sessionsMax`"; keys of a dict show as [...], so a path holds schema names only.
_PATH = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`\Z")
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


def field_rule(text: str, wanted: Any = None) -> tuple[str, str]:
    """Return the field that a refusal of the parser is about, and the rule that was broken.

    Args:
        text: what the parser said.
        wanted: the type it was to make; its field names are listed where an unknown one was found.
    """
    found = _PATH.search(text)
    field = found[1] if found else ""
    missing = _MISSING.match(text)
    if missing:
        return f"{field}.{missing[1]}".removeprefix("."), "is required"
    if text.startswith(_UNKNOWN):
        names = "" if field or wanted is None else _names_of(wanted)
        return field, "must have no unknown fields" + (f"; it may have {names}" if names else "")
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
        return field, "must be one of the documented words"
    return field, "breaks a rule of the schema"


def _names_of(wanted: Any) -> str:
    kind = kinds.type_info(wanted)
    if not isinstance(kind, kinds.StructType):
        return ""
    return ", ".join(field.encode_name for field in kind.fields)
