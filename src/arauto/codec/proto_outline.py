"""Looks at the outline of a large request before it is parsed: how many parts of which kind. Pure.

A part takes two bytes on the wire, and a hundred times as much once the generated code has made an object
of it; so they are counted from the bytes, and counting ends at the first part that is too many. What is not
well formed is left to the parser, which says so. Small requests cannot hold many parts and come by unseen.

A large change of a document is parsed without the values of its operations: those stay bytes, which
`proto_unread` reads when somebody wants them.
"""

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from arauto.codec import arauto_pb2 as pb
from arauto.codec.checks import bad_field, check_count
from arauto.limits import (
    BATCH_LEN_MAX,
    HEADERS_LEN_MAX,
    POSITIONS_LEN_MAX,
    UNKNOWN_BYTES_MAX,
)

__all__ = [
    "SMALL_BYTES",
    "OutlineDocumentChange",
    "OutlineValue",
    "check_batch",
    "check_publish",
    "check_restore",
    "check_subscribe",
]

#: In a request of no more bytes there can be half as many parts, whatever they are.
SMALL_BYTES: Final = 4_096
#: Fields that may stand beside those that are counted: unknown ones take two bytes at least.
_OTHERS_MAX: Final = UNKNOWN_BYTES_MAX // 2
_SUBMESSAGE: Final = 2
_FIXED_BYTES: Final = {1: 8, 5: 4}
_GROUPS: Final = {3: 1, 4: -1}

_Field = descriptor_pb2.FieldDescriptorProto


def check_batch(payload: bytes, number: int, field: str) -> None:
    """Refuse a request with too many items, which stand in field `number` and are called `field`.

    Raises:
        ArautoError: BATCH_TOO_LARGE; BAD_FIELD if it repeats other fields without end.
    """
    if len(payload) > SMALL_BYTES:
        for _ in _items(payload, number, field):
            pass


def check_publish(payload: bytes) -> None:
    """The same for messages to publish, and their headers."""
    if len(payload) > SMALL_BYTES:
        for index, (start, end) in enumerate(_items(payload, 2, "messages")):
            if end - start > SMALL_BYTES:
                _check_entries(
                    payload, start, end, 11, f"messages[{index}].headers", HEADERS_LEN_MAX
                )


def check_subscribe(payload: bytes) -> None:
    """The same for subscriptions, and their places."""
    if len(payload) <= SMALL_BYTES:
        return
    for index, (start, end) in enumerate(_items(payload, 2, "items")):
        if end - start > SMALL_BYTES:
            field = f"items[{index}].positions"
            # Several of them count as one, which holds what all of them do.
            count = 0
            for at, until in _parts(payload, start, end, 3, field, BATCH_LEN_MAX):
                count = _check_entries(payload, at, until, 1, field, POSITIONS_LEN_MAX, count)


def check_restore(payload: bytes) -> None:
    """The same for the places of a returning client."""
    if len(payload) > SMALL_BYTES:
        _check_entries(payload, 0, len(payload), 3, "positions", POSITIONS_LEN_MAX)


def _items(payload: bytes, number: int, field: str) -> Iterator[tuple[int, int]]:
    for count, part in enumerate(
        _parts(payload, 0, len(payload), number, field, BATCH_LEN_MAX), start=1
    ):
        check_count(count, field)
        yield part


def _check_entries(
    data: bytes, start: int, end: int, number: int, field: str, most: int, count: int = 0
) -> int:
    for _ in _parts(data, start, end, number, field, most):
        count += 1
        if count > most:
            raise bad_field(field, f"must have at most {most} entries")
    return count


def _parts(
    data: bytes, start: int, end: int, number: int, field: str, most: int
) -> Iterator[tuple[int, int]]:
    """Where each part of a message lies that stands in field `number`; ends at what is not well formed."""
    wanted = number << 3 | _SUBMESSAGE
    left = most + _OTHERS_MAX
    depth = 0
    pos = start
    try:
        while pos < end:
            if left == 0:
                rule = f"must have at most {UNKNOWN_BYTES_MAX} bytes of unknown fields, and others once"
                raise bad_field(field, rule)
            left -= 1
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = _varint(data, tag, pos)
            wire = tag & 7
            if wire == _SUBMESSAGE:
                size = data[pos]
                pos += 1
                if size > 127:
                    size, pos = _varint(data, size, pos)
                if tag == wanted and not depth:
                    yield pos, min(pos + size, end)
                pos += size
            elif wire == 0:
                while data[pos] > 127:
                    pos += 1
                pos += 1
            elif wire in _FIXED_BYTES:
                pos += _FIXED_BYTES[wire]
            else:
                depth += _GROUPS[wire]
    except (IndexError, KeyError):
        return


def _varint(data: bytes, first: int, pos: int) -> tuple[int, int]:
    """A number of more than one byte, and where it ends."""
    value = first & 127
    for shift in range(7, 64, 7):
        byte = data[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, pos
    raise IndexError


# --- what is parsed without its values ---------------------------------------------------------------


def _outlines() -> tuple[Any, Any]:
    """Classes of a change and of a value, as the schema has them, but that values within them are bytes. (Two
    values in one place are one, whose bytes are those of both.)"""
    file = descriptor_pb2.FileDescriptorProto(
        name="arauto/outline.proto", package="arauto.outline", syntax="proto3"
    )
    for message in (pb.Value, pb.Operation, pb.DocumentChangeRequest):
        outline = file.message_type.add()
        message.DESCRIPTOR.CopyToProto(outline)
        for field in outline.field:
            if field.type_name == ".arauto.v1.Value":
                field.type, field.label = _Field.TYPE_BYTES, _Field.LABEL_REPEATED
                field.ClearField("type_name")
            elif field.type_name == ".arauto.v1.Op":
                field.type = _Field.TYPE_INT32
                field.ClearField("type_name")
            elif field.type_name:
                field.type_name = field.type_name.replace(".v1.", ".outline.")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    change, value = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"arauto.outline.{name}"))
        for name in ("DocumentChangeRequest", "Value")
    )
    return change, value


OutlineDocumentChange, OutlineValue = _outlines()
