"""What a document may hold, and what it weighs. Pure.

A value is None, a bool, a signed 64-bit int, a finite float, a str, bytes, a list of values, or a dict
from str to values; exactly these types, no subclasses. Everything that comes from outside goes through
`check` before it becomes part of a document; the other functions trust what they are given.

The *size* of a value counts its nodes (every value, containers included) and estimates its bytes from
above: what the value would take packed, with every length field at its widest. Members' names weigh
like strings. Depth counts the arrays and objects around a value, itself included if it is one: a scalar
at the root has depth 0, and the depth of a scalar is the number of segments of its pointer.

What a value *holds* is the memory it takes, estimated from above too: texts by the width of their widest
character, and once more as the UTF-8 that encoders leave beside them; containers with room to grow. It
follows from the value alone, so that what was counted when it came is given back when it goes: see `fit`.
"""

import math
from sys import getsizeof
from typing import Any, TypeAlias

import msgspec

from arauto.errors import ArautoError, Code
from arauto.limits import BATCH_LEN_MAX, DOCUMENT_VALUES_MAX, VALUE_DEPTH_MAX

__all__ = [
    "CEILING",
    "ELEMENT_BYTES",
    "LIMITS",
    "Limits",
    "Size",
    "Value",
    "check",
    "check_key",
    "clone",
    "equal",
    "fit",
    "key_bytes",
    "measure",
    "member_bytes",
]

Value: TypeAlias = bool | int | float | str | bytes | list["Value"] | dict[str, "Value"] | None

_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_LENGTH_BYTES = 5
_NUMBER_BYTES = 9

# Memory is what allocators give for what Python asks for, in CPython 3.11 and later: up to 23 bytes more.
_ALLOCATOR_BYTES = 23
#: An array, and the place of each element. Arrays shrink when they are less than half full.
_ARRAY_BYTES = 96
ELEMENT_BYTES = 16
#: An object, and the place of each member. Objects do not shrink by themselves.
_OBJECT_BYTES = 160
_MEMBER_BYTES = 48
#: What else a value takes beside its size: text in ASCII, other text without its characters, byte strings,
#: numbers.
_NARROW_TEXT_BYTES = 67
_WIDE_TEXT_BYTES = 42
_BINARY_BYTES = 51
_WIDE_NUMBER_BYTES = 39


class Limits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one document, and one request to change it, may cost.

    None of them may be above `CEILING`: what was once written must be readable later, whatever the
    limits are then.
    """

    depth_max: int = VALUE_DEPTH_MAX
    """Arrays and objects inside one another."""
    nodes_max: int = DOCUMENT_VALUES_MAX
    """Values in the whole document."""
    text_bytes_max: int = 1_048_576
    """One string, byte string or member name."""
    size_bytes_max: int = 4_194_304
    """The whole document, estimated."""
    operations_max: int = BATCH_LEN_MAX
    """Operations in one request."""
    work_nodes_max: int = 250_000
    """Values one request may visit: copying and removing a large part again and again costs time even
    when the document does not grow."""

    def __post_init__(self) -> None:
        for name, ceiling in _CEILINGS.items():
            if not 1 <= getattr(self, name) <= ceiling:
                raise ArautoError(Code.BAD_CONFIG, f"{name} is 1 to {ceiling}", field=name)


_CEILINGS = {
    "depth_max": 200,
    "nodes_max": 4_000_000,
    "text_bytes_max": 2**26,
    "size_bytes_max": 2**26,
    "operations_max": 100_000,
    "work_nodes_max": 2**40,
}

LIMITS = Limits()
CEILING = Limits(**_CEILINGS)


class Size(msgspec.Struct, frozen=True, gc=False):
    """The weight of a value. `height` is 0 for scalars, for containers 1 + the highest child's."""

    nodes: int
    size_bytes: int
    height: int
    held_bytes: int
    """Memory."""


def check(value: Any, limits: Limits, *, nodes_room: int, bytes_room: int, depth: int = 0) -> Size:
    """Prove that something is a value and fits; return its size. Builds nothing that it has not counted.

    Args:
        value: anything at all, also something that contains itself.
        limits: for the depth and the length of single strings.
        nodes_room: how many nodes still fit.
        bytes_room: how many bytes still fit.
        depth: how many containers will be around the value.

    Raises:
        ArautoError: BAD_OPERATION if it is not a value, DOCUMENT_TOO_LARGE if it does not fit. The
            field is "value".
    """
    nodes = size_bytes = height = beside_bytes = 0
    level = [value]
    while level:
        nodes += len(level)
        nested = False
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict or kind is list:
                nested = True
                size_bytes += _LENGTH_BYTES
                if nodes + len(below) + len(item) > nodes_room:
                    raise _too_large(f"a document has at most {limits.nodes_max} values")
                if kind is dict:
                    size_bytes += sum(check_key(key, limits) for key in item)
                    beside_bytes += _OBJECT_BYTES + sum(map(member_bytes, item))
                    below.extend(item.values())
                else:
                    beside_bytes += _ARRAY_BYTES + ELEMENT_BYTES * len(item)
                    below.extend(item)
            else:
                size_bytes += _checked_scalar_bytes(item, limits)
                beside_bytes += _beside_scalar_bytes(item)
        height += nested
        if depth + height > limits.depth_max:
            raise _too_large(f"a document is at most {limits.depth_max} levels deep")
        if nodes > nodes_room:
            raise _too_large(f"a document has at most {limits.nodes_max} values")
        if size_bytes > bytes_room:
            raise _too_large(f"a document has at most {limits.size_bytes_max} bytes")
        level = below
    return Size(nodes, size_bytes, height, size_bytes + beside_bytes)


def check_key(key: Any, limits: Limits) -> int:
    """Prove that something can be a member's name; return what it weighs.

    Raises:
        ArautoError: as `check` does.
    """
    if type(key) is not str:
        raise _bad("the name of a member is a string")
    return _checked_text_bytes(key, limits)


def measure(value: Value) -> Size:
    """Return the size of a value that is known to be one."""
    nodes = size_bytes = height = beside_bytes = 0
    level = [value]
    while level:
        nodes += len(level)
        nested = False
        below: list[Value] = []
        for item in level:
            if isinstance(item, dict):
                nested = True
                size_bytes += _LENGTH_BYTES + sum(map(key_bytes, item))
                beside_bytes += _OBJECT_BYTES + sum(map(member_bytes, item))
                below.extend(item.values())
            elif isinstance(item, list):
                nested = True
                size_bytes += _LENGTH_BYTES
                beside_bytes += _ARRAY_BYTES + ELEMENT_BYTES * len(item)
                below.extend(item)
            else:
                beside_bytes += _beside_scalar_bytes(item)
                if isinstance(item, str):
                    size_bytes += key_bytes(item)
                elif isinstance(item, bytes):
                    size_bytes += _LENGTH_BYTES + len(item)
                else:
                    is_number = item is not None and item is not True and item is not False
                    size_bytes += _NUMBER_BYTES if is_number else 1
        height += nested
        level = below
    return Size(nodes, size_bytes, height, size_bytes + beside_bytes)


def key_bytes(text: str) -> int:
    """What a member's name, or a string, weighs."""
    return _LENGTH_BYTES + (len(text) if text.isascii() else len(text.encode()))


def member_bytes(name: str) -> int:
    """What a member takes in memory beside what its name weighs, and without its value."""
    if name.isascii():
        return _MEMBER_BYTES + _NARROW_TEXT_BYTES
    return _MEMBER_BYTES + _beside_wide_text_bytes(name)


def fit(members: dict[str, Value]) -> None:
    """See to it that an object that was changed takes no more memory than is counted for it.

    Many members have to be gone or new before it is made anew, so each of them pays for a few.
    """
    if getsizeof(members) + _ALLOCATOR_BYTES > _OBJECT_BYTES + _MEMBER_BYTES * len(members):
        fitting = dict(members)
        members.clear()
        members.update(fitting)


def clone(value: Value) -> Value:
    """Copy the containers; scalars are immutable and shared."""
    if isinstance(value, dict):
        return {key: clone(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clone(item) for item in value]
    return value


def equal(left: Value, right: Value) -> bool:
    """Whether two values are the same for `test`.

    Numbers compare by what they count (1 equals 1.0), but True is not 1, text is not bytes, and the
    order of members does not matter.
    """
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and len(left) == len(right)
            and all(key in right and equal(item, right[key]) for key, item in left.items())
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float):
        return isinstance(right, int | float) and left == right
    return type(left) is type(right) and left == right


def _checked_text_bytes(text: str, limits: Limits) -> int:
    # Characters never outnumber bytes, so text that is hopelessly long is refused before it is encoded.
    if len(text) <= limits.text_bytes_max:
        try:
            size_bytes = key_bytes(text)
        except UnicodeEncodeError:
            raise _bad("text is valid Unicode, without lone surrogates") from None
        if size_bytes <= limits.text_bytes_max + _LENGTH_BYTES:
            return size_bytes
    raise _too_large(f"a string has at most {limits.text_bytes_max} bytes")


def _checked_scalar_bytes(item: Any, limits: Limits) -> int:
    kind = type(item)
    if kind is str:
        return _checked_text_bytes(item, limits)
    if item is None or kind is bool:
        return 1
    if kind is int:
        if not _INT_MIN <= item <= _INT_MAX:
            raise _bad("an integer fits in 64 bits, signed")
        return _NUMBER_BYTES
    if kind is float:
        if not math.isfinite(item):
            raise _bad("a number is finite")
        return _NUMBER_BYTES
    if kind is bytes:
        if len(item) > limits.text_bytes_max:
            raise _too_large(f"a byte string has at most {limits.text_bytes_max} bytes")
        return _LENGTH_BYTES + len(item)
    raise _bad("a value is null, a boolean, a number, a string, bytes, an array or an object")


def _beside_scalar_bytes(item: bool | float | str | bytes | None) -> int:
    if isinstance(item, str):
        return _NARROW_TEXT_BYTES if item.isascii() else _beside_wide_text_bytes(item)
    if isinstance(item, bytes):
        return _BINARY_BYTES
    return 0 if item is None or item is True or item is False else _WIDE_NUMBER_BYTES


def _beside_wide_text_bytes(text: str) -> int:
    # A copy is as wide, and nothing is kept beside it; that is faster than looking for the widest character.
    return _WIDE_TEXT_BYTES + getsizeof(text + "\0")


def _bad(rule: str) -> ArautoError:
    return ArautoError(Code.BAD_OPERATION, rule, field="value")


def _too_large(rule: str) -> ArautoError:
    return ArautoError(Code.DOCUMENT_TOO_LARGE, rule, field="value")
