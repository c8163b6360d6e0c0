"""Document values and the other shared parts of the protobuf flavour, both ways. Pure."""

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from google.protobuf.message import Message as ProtoMessage
from google.protobuf.unknown_fields import UnknownFieldSet

from arauto.codec import arauto_pb2 as pb
from arauto.codec.checks import bad_field, check_operation_parts
from arauto.codec.events import Operation
from arauto.codec.unknown import (
    ESSENTIAL_NUMBER_MIN,
    Unknown,
    UnknownFieldError,
    check_unknown_bytes,
    essential,
)
from arauto.errors import ArautoError, Code
from arauto.limits import UNKNOWN_BYTES_MAX, VALUE_DEPTH_MAX
from arauto.model import Serial

__all__ = [
    "ProtoValueWriter",
    "bad_payload",
    "check_depth",
    "check_known",
    "check_parts",
    "check_top",
    "check_unknown_size",
    "container_of",
    "field_bytes",
    "operation_from_proto",
    "operation_to_proto",
    "places_from_proto",
    "plain_from_proto",
    "positions_from_proto",
    "positions_to_proto",
    "serial_from_proto",
    "serial_to_proto",
    "value_from_proto",
    "value_to_proto",
]

_OP_NAMES: Final = {
    pb.OP_ADD: "add",
    pb.OP_REMOVE: "remove",
    pb.OP_REPLACE: "replace",
    pb.OP_MOVE: "move",
    pb.OP_COPY: "copy",
    pb.OP_TEST: "test",
}
_OP_NUMBERS: Final = {name: number for number, name in _OP_NAMES.items()}

# Value.list = 7 and Value.map = 8, both true; Value.items = 9; Value.keys = 10.
_LIST: Final = b"\x38\x01"
_MAP: Final = b"\x40\x01"
_ITEM_TAG: Final = b"\x4a"
_KEY_TAG: Final = b"\x52"


def check_known(message: ProtoMessage, field: str, unknown: Unknown | None = None) -> None:
    """Note in `unknown` the fields this schema does not have (this level only), or refuse them without it.

    Raises:
        ArautoError: BAD_FIELD; an UnknownFieldError where a second look with an `Unknown` may pass.
    """
    found = UnknownFieldSet(message)
    if not found:
        return
    known = message.DESCRIPTOR.fields_by_number
    for part in found:  # type: ignore[attr-defined]
        if part.field_number in known:
            raise bad_field(field, "must have its fields in the types of the schema")
        if part.field_number >= ESSENTIAL_NUMBER_MIN:
            raise essential(field)
    if unknown is None:
        raise UnknownFieldError(field)
    unknown.note(len(found), field)


def check_top(message: ProtoMessage, payload: bytes, unknown: Unknown | None) -> bool:
    """As `check_known`, for the whole of a request: before anything is made of what is not known, there must
    be little of it. Whether there can be any in its parts.

    Raises:
        ArautoError: BAD_FIELD.
    """
    has_unknown = len(payload) <= UNKNOWN_BYTES_MAX or check_unknown_size(message, "payload")
    check_known(message, "payload", unknown)
    return has_unknown


def check_unknown_size(message: ProtoMessage, field: str) -> bool:
    """Refuse a message that is unknown for too large a part, at all levels together. Whether any of it is.

    Raises:
        ArautoError: BAD_FIELD.
    """
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    unknown_bytes = message.ByteSize() - known.ByteSize()
    check_unknown_bytes(unknown_bytes, field)
    return unknown_bytes > 0


def bad_payload() -> ArautoError:
    rule = "must be the protobuf message that belongs to the event"
    return ArautoError(Code.BAD_ENVELOPE, rule, field="payload")


def serial_from_proto(serial: pb.Serial, field: str, *, strict: bool) -> Serial:
    if strict:
        check_known(serial, field)
    return Serial(serial.epoch, serial.offset)


def serial_to_proto(serial: Serial, out: pb.Serial) -> None:
    out.epoch = serial.epoch
    out.offset = serial.offset
    out.SetInParent()  # Serial(0, 0) is a place, not an absence


def positions_from_proto(positions: pb.Positions, field: str, *, strict: bool) -> dict[str, Serial]:
    if strict:
        check_known(positions, field)
    return places_from_proto(positions.channels, field, strict=strict)


def places_from_proto(
    places: Mapping[str, pb.Serial], field: str, *, strict: bool
) -> dict[str, Serial]:
    if strict:
        return {
            channel: serial_from_proto(serial, field, strict=True)
            for channel, serial in places.items()
        }
    return {channel: Serial(serial.epoch, serial.offset) for channel, serial in places.items()}


def positions_to_proto(positions: dict[str, Serial], out: pb.Positions) -> None:
    out.SetInParent()
    for channel, serial in positions.items():
        serial_to_proto(serial, out.channels[channel])


def operation_from_proto(operation: pb.Operation, field: str, *, strict: bool) -> Operation:
    """Return an operation; whether it has fields of its own that are not known is the caller's to check."""
    has_value = operation.HasField("value")
    op = check_parts(operation, field, has_value=has_value)
    value = (
        value_from_proto(operation.value, f"{field}.value", strict=strict) if has_value else None
    )
    return Operation(op=op, path=operation.path, source=operation.source, value=value)


def check_parts(operation: Any, field: str, *, has_value: bool) -> str:
    """Return an operation's kind, if it has what belongs to that and nothing else.

    Raises:
        ArautoError: BAD_FIELD.
    """
    op = _OP_NAMES.get(operation.op, "")
    has_source = operation.HasField("source")
    check_operation_parts(
        op, has_value=has_value, has_source=has_source, field=field, source="source"
    )
    return op


def operation_to_proto(operation: Operation, out: pb.Operation) -> None:
    out.op = _OP_NUMBERS[operation.op]
    out.path = operation.path
    if operation.op in ("move", "copy"):
        out.source = operation.source
    elif operation.op != "remove":
        value_to_proto(operation.value, out.value)


def value_from_proto(value: pb.Value, field: str, *, strict: bool, depth: int = 0) -> Any:
    """Return a document value as plain Python.

    Args:
        value: the wire form.
        field: where the value stands in the request.
        strict: refuse unknown fields, as servers do.
        depth: lists and maps around this value.

    Raises:
        ArautoError: BAD_FIELD if the value is not well formed or too deep.
    """
    if strict:
        check_known(value, field)
    kind = value.WhichOneof("kind")
    if kind in ("list", "map"):
        check_depth(depth + 1, field)
        items = [
            value_from_proto(item, field, strict=strict, depth=depth + 1) for item in value.items
        ]
        return container_of(kind, items, list(value.keys), field)
    return plain_from_proto(value, kind, field)


def plain_from_proto(value: Any, kind: str | None, field: str) -> Any:
    """The same for a value that is no container."""
    if value.items or value.keys:
        raise bad_field(field, "must have items and keys only in lists and maps")
    if kind == "null":
        return None
    if kind is None:
        raise bad_field(field, "must have a kind; nothing is said with null")
    plain = getattr(value, kind)
    if kind == "number" and not isfinite(plain):
        raise bad_field(field, "must not hold NaN or infinity")
    return plain


def check_depth(depth: int, field: str) -> None:
    if depth > VALUE_DEPTH_MAX:
        raise bad_field(field, f"must be nested at most {VALUE_DEPTH_MAX} levels deep")


def container_of(kind: str, items: list[Any], keys: list[str], field: str) -> Any:
    """A list, or a map, whose items were read."""
    if kind == "list":
        if keys:
            raise bad_field(field, "must have keys only in maps")
        return items
    plain = dict(zip(keys, items, strict=False))
    if len(keys) != len(items) or len(plain) != len(keys):
        raise bad_field(field, "must have one key per item in maps, each once")
    return plain


def value_to_proto(value: Any, out: pb.Value) -> None:
    """Write a document value into `out`.

    Raises:
        TypeError: the value is none of the types a document can hold.
    """
    if value is None:
        out.null = True
    elif isinstance(value, bool):
        out.boolean = value
    elif isinstance(value, int):
        out.integer = value
    elif isinstance(value, float):
        out.number = value
    elif isinstance(value, str):
        out.text = value
    elif isinstance(value, bytes):
        out.binary = value
    elif isinstance(value, list):
        out.list = True
        for item in value:
            value_to_proto(item, out.items.add())
    elif isinstance(value, dict):
        out.map = True
        for key, item in value.items():
            out.keys.append(key)
            value_to_proto(item, out.items.add())
    else:
        raise TypeError(f"a document cannot hold {type(value).__name__}")


class ProtoValueWriter:
    """Implements `ValueWriter`: what the generated code would write, part by part."""

    def whole(self, value: Any) -> bytes:
        out = pb.Value()
        value_to_proto(value, out)
        return out.SerializeToString()

    def item(self, data: bytes) -> bytes:
        return field_bytes(_ITEM_TAG, data)

    def key(self, key: str) -> bytes:
        return field_bytes(_KEY_TAG, key.encode())

    def joined(self, items: list[bytes], keys: list[bytes] | None) -> bytes:
        return b"".join([_LIST, *items] if keys is None else [_MAP, *items, *keys])


def field_bytes(tag: bytes, data: bytes) -> bytes:
    """One field of bytes, text or a message, as it stands on the wire."""
    size = len(data)
    length = bytearray()
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    length.append(size)
    return b"".join((tag, length, data))
