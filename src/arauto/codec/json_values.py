"""The shared parts of the JSON flavour: places, payloads and document values, both ways. Pure."""

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from math import isfinite
from operator import add
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from arauto.codec.checks import (
    OPERATIONS_WITH_SOURCE,
    OPERATIONS_WITH_VALUE,
    bad_field,
    check_operation_parts,
)
from arauto.codec.events import Operation
from arauto.limits import JSON_DEPTH_MAX, VALUE_DEPTH_MAX
from arauto.model import BINARY, JSON, TEXT, Serial

__all__ = [
    "BINARY_KEY",
    "LITERAL_KEY",
    "Base64",
    "Data",
    "JsonValueWriter",
    "OperationShape",
    "RequestSerialShape",
    "SerialShape",
    "Text",
    "binary_from_json",
    "check_depth",
    "check_parts",
    "operation_from_json",
    "operation_of",
    "operation_to_json",
    "payload_from_json",
    "payload_to_json",
    "positions_from_json",
    "positions_to_json",
    "serial_from_json",
    "serial_to_json",
    "value_from_json",
    "value_to_json",
]

_EPOCH = re.compile(r"[0-9a-f]{16}\Z")
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
BINARY_KEY: Final = "$binary"
LITERAL_KEY: Final = "$literal"
#: The names of a map with a single member that stand for something else, as they are written.
_ESCAPES: Final = [[b'"$binary":'], [b'"$literal":']]


# --- places ----------------------------------------------------------------------------------------


class SerialShape(msgspec.Struct, gc=False):
    """A serial. The epoch is text because JSON readers do not keep 64 bits."""

    epoch: str
    offset: int


class RequestSerialShape(SerialShape, forbid_unknown_fields=True, gc=False):
    """A serial that a client sends: one thing, which no version adds a field to."""


def serial_from_json(shape: SerialShape, field: str) -> Serial:
    if not _EPOCH.match(shape.epoch):
        raise bad_field(f"{field}.epoch", "must be 16 hexadecimal digits in lower case")
    return Serial(int(shape.epoch, 16), shape.offset)


def serial_to_json(serial: Serial) -> RequestSerialShape:
    return RequestSerialShape(f"{serial.epoch:016x}", serial.offset)


def positions_from_json(shape: Mapping[str, SerialShape], field: str) -> dict[str, Serial]:
    return {channel: serial_from_json(serial, field) for channel, serial in shape.items()}


def positions_to_json(positions: dict[str, Serial]) -> dict[str, Any]:
    return {channel: serial_to_json(serial) for channel, serial in positions.items()}


# --- payloads ----------------------------------------------------------------------------------------


#: Bytes travel as exactly one of: `data`, any JSON value; `text`; `base64`.
Data = Raw | UnsetType
Text = str | UnsetType
Base64 = bytes | UnsetType


def payload_from_json(data: Data, text: Text, base64: Base64, field: str) -> tuple[bytes, str]:
    """Return the payload's bytes and the content type that its form implies ("" for base64).

    Raises:
        ArautoError: BAD_FIELD if there is not exactly one payload or its JSON is too deep.
    """
    if (data is UNSET) + (text is UNSET) + (base64 is UNSET) != 2:
        raise bad_field(field, "must have exactly one of data, text and base64")
    if isinstance(data, Raw):
        payload = bytes(data)
        if not _is_shallow(payload):
            rule = f"must be nested at most {JSON_DEPTH_MAX} levels deep"
            raise bad_field(f"{field}.data" if field else "data", rule)
        return payload, JSON
    if isinstance(text, str):
        return text.encode(), TEXT
    assert isinstance(base64, bytes)
    return base64, BINARY


def payload_to_json(payload: bytes, content_type: str) -> tuple[Any, Any, Any]:
    """Return what to put in `data`, `text` and `base64`; two of them are UNSET.

    What a publisher says of its content is not believed: only what is JSON from its first to its last
    byte is embedded as such, or a publisher could write fields of its choice into the envelope.
    """
    if content_type == JSON:
        if _is_embeddable(payload):
            return Raw(payload), UNSET, UNSET
    elif content_type == TEXT:
        try:
            return UNSET, payload.decode(), UNSET
        except UnicodeDecodeError:
            pass
    return UNSET, UNSET, payload


_encode = msgspec.json.Encoder().encode
_decode_any = msgspec.json.Decoder().decode
_decode_raw = msgspec.json.Decoder(Raw).decode


def _is_embeddable(payload: bytes) -> bool:
    # The parser skips over strings without decoding them, so UTF-8 is looked at apart.
    try:
        if not payload.isascii():
            payload.decode()
        _decode_raw(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return _is_shallow(payload)


_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_RUNS = re.compile(rb"\[+|\]+")
_QUICK_LEVELS = 4


def _is_shallow(data: bytes) -> bool:
    """Whether valid JSON nests at most JSON_DEPTH_MAX levels deep.

    Free for small or plain data; else linear, and some ten times slower than parsing.
    """
    if len(data) <= 2 * JSON_DEPTH_MAX or data.count(b"[") + data.count(b"{") <= JSON_DEPTH_MAX:
        return True
    # Without escapes, every other piece between quotes lies outside strings.
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = b"".join(data.split(b'"')[::2]).translate(_SQUARE, _NOT_BRACKETS)
    # Taking away all innermost pairs takes away a level. What most data is made of goes first.
    for _ in range(_QUICK_LEVELS):
        if len(brackets) <= 2 * (JSON_DEPTH_MAX - _QUICK_LEVELS):
            return True
        brackets = brackets.replace(b"[]", b"")
    depth = _QUICK_LEVELS
    runs = _RUNS.findall(brackets)
    for opening, closing in zip(runs[::2], runs[1::2], strict=True):
        depth += len(opening)
        if depth > JSON_DEPTH_MAX:
            return False
        depth -= len(closing)
    return True


# --- documents ---------------------------------------------------------------------------------------


class OperationShape(msgspec.Struct, kw_only=True, gc=False):
    """A document operation, written as in RFC 6902, which wants members it does not define ignored."""

    op: str
    path: str
    source: str | UnsetType = msgspec.field(default=UNSET, name="from")
    value: Any = UNSET


_O = TypeVar("_O", bound=OperationShape)


def operation_from_json(shape: OperationShape, field: str) -> Operation:
    check_parts(shape, field)
    has_value = shape.op in OPERATIONS_WITH_VALUE
    return operation_of(
        shape, value_from_json(shape.value, f"{field}.value") if has_value else None
    )


def check_parts(shape: OperationShape, field: str) -> None:
    """Refuse an operation that lacks what its kind needs; what it does not take is passed over.

    Raises:
        ArautoError: BAD_FIELD.
    """
    check_operation_parts(
        shape.op,
        has_value=shape.op in OPERATIONS_WITH_VALUE and shape.value is not UNSET,
        has_source=shape.op in OPERATIONS_WITH_SOURCE and shape.source is not UNSET,
        field=field,
        source="from",
    )


def operation_of(shape: OperationShape, value: Any) -> Operation:
    """Return an operation that has its parts, with the value that was read; None if it takes none."""
    source = shape.source if shape.op in OPERATIONS_WITH_SOURCE else ""
    assert isinstance(source, str)
    return Operation(op=shape.op, path=shape.path, source=source, value=value)


def operation_to_json(operation: Operation, shape_type: type[_O]) -> _O:
    shape = shape_type(op=operation.op, path=operation.path)
    if operation.op in ("move", "copy"):
        shape.source = operation.source
    elif operation.op != "remove":
        shape.value = value_to_json(operation.value)
    return shape


def value_from_json(value: Any, field: str, depth: int = 0) -> Any:
    """Return a document value, its binary parts and escapes resolved.

    Args:
        value: what the parser made of the JSON.
        field: where the value stands in the request.
        depth: lists and maps around this value.

    Raises:
        ArautoError: BAD_FIELD if it is too deep, a number too large or an escape malformed.
    """
    if isinstance(value, dict):
        if len(value) == 1:
            if BINARY_KEY in value:
                return binary_from_json(value[BINARY_KEY], field)
            if LITERAL_KEY in value:
                value = value[LITERAL_KEY]
                if not isinstance(value, dict):
                    raise bad_field(field, "must hold an object in $literal")
        check_depth(depth + 1, field)
        return {key: value_from_json(item, field, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        check_depth(depth + 1, field)
        return [value_from_json(item, field, depth + 1) for item in value]
    if isinstance(value, int) and not _INT_MIN <= value <= _INT_MAX:
        raise bad_field(field, "must hold whole numbers of at most 64 bits")
    return value


def check_depth(depth: int, field: str) -> None:
    if depth > VALUE_DEPTH_MAX:
        raise bad_field(field, f"must be nested at most {VALUE_DEPTH_MAX} levels deep")


def binary_from_json(text: Any, field: str) -> bytes:
    if isinstance(text, str):
        try:
            return b64decode(text, validate=True)
        except ValueError:
            pass
    raise bad_field(field, "must hold base64 text in $binary")


def value_to_json(value: Any) -> Any:
    """Return a document value as the JSON encoder takes it.

    Raises:
        TypeError: the value is none of the types a document can hold.
    """
    if isinstance(value, dict):
        plain = {key: value_to_json(item) for key, item in value.items()}
        if len(plain) == 1 and (BINARY_KEY in plain or LITERAL_KEY in plain):
            return {LITERAL_KEY: plain}
        return plain
    if isinstance(value, list):
        return [value_to_json(item) for item in value]
    if isinstance(value, bytes):
        return {BINARY_KEY: b64encode(value).decode()}
    if (
        value is None
        or isinstance(value, str | int)
        or (isinstance(value, float) and isfinite(value))
    ):
        return value
    raise TypeError(f"a document cannot hold {type(value).__name__}")


class JsonValueWriter:
    """Implements `ValueWriter`."""

    def whole(self, value: Any) -> bytes:
        return _encode(value_to_json(value))

    def item(self, data: bytes) -> bytes:
        return data

    def key(self, key: str) -> bytes:
        return _encode(key) + b":"

    def joined(self, items: list[bytes], keys: list[bytes] | None) -> bytes:
        if keys is None:
            return b"[%b]" % b",".join(items)
        data = b"{%b}" % b",".join(map(add, keys, items))
        if keys in _ESCAPES:
            return b'{"%b":%b}' % (LITERAL_KEY.encode(), data)
        return data
