"""The operations of a change in the protobuf flavour: outlines → records, step by step. Pure."""

from collections.abc import Generator, Sequence
from typing import Any

from google.protobuf.message import DecodeError

from arauto.codec import arauto_pb2 as pb
from arauto.codec.checks import bad_field
from arauto.codec.events import Operation
from arauto.codec.proto_outline import OutlineValue
from arauto.codec.proto_values import (
    bad_payload,
    check_depth,
    check_known,
    check_parts,
    container_of,
    operation_from_proto,
    plain_from_proto,
    value_from_proto,
)
from arauto.codec.unread import WHOLE_BYTES, Steps, check_values_count
from arauto.limits import BATCH_LEN_MAX

__all__ = ["read_operations", "read_small"]

_parse = pb.Value.FromString


def read_operations(outlines: Any) -> Generator[None, None, tuple[Operation, ...]]:
    """Return the operations of an `OutlineDocumentChange`.

    Raises:
        ArautoError: BAD_FIELD, BAD_ENVELOPE or DOCUMENT_TOO_LARGE.
    """
    steps = Steps()
    operations = []
    try:
        for index, outline in enumerate(outlines):
            operations.append((yield from _operation(outline, f"operations[{index}]", steps)))
    except DecodeError:
        raise bad_payload() from None
    return tuple(operations)


def read_small(messages: Sequence[pb.Operation]) -> Generator[None, None, tuple[Operation, ...]]:
    """The same of a change that is small enough to have been parsed whole."""
    yield from ()
    return tuple(
        operation_from_proto(message, f"operations[{index}]", strict=True)
        for index, message in enumerate(messages)
    )


def _operation(outline: Any, field: str, steps: Steps) -> Generator[None, None, Operation]:
    has_value = len(outline.value) > 0
    op = check_parts(outline, field, has_value=has_value)
    if len(outline.value) > BATCH_LEN_MAX:  # they would be one, but nobody writes it so
        raise bad_field(f"{field}.value", "must be given once")
    value = None
    if has_value:
        value = yield from _value(b"".join(outline.value), f"{field}.value", 0, steps)
    return Operation(op=op, path=outline.path, source=outline.source, value=value)


def _value(data: bytes, field: str, depth: int, steps: Steps) -> Generator[None, None, Any]:
    size_bytes = len(data)
    if size_bytes <= WHOLE_BYTES:
        value = value_from_proto(_parse(data), field, strict=True, depth=depth)
        if steps.is_due(size_bytes):
            yield
        return value
    outline = OutlineValue.FromString(data)
    check_known(outline, field)
    kind = outline.WhichOneof("kind")
    if kind not in ("list", "map"):
        return plain_from_proto(outline, kind, field)
    depth += 1
    check_depth(depth, field)
    check_values_count(len(outline.items), field)
    if len(outline.keys) != (len(outline.items) if kind == "map" else 0):
        raise bad_field(field, "must have one key per item in maps, and none in lists")
    items = []
    for item in outline.items:
        size_bytes = len(item)
        if size_bytes > WHOLE_BYTES:
            items.append((yield from _value(item, field, depth, steps)))
            continue
        items.append(value_from_proto(_parse(item), field, strict=True, depth=depth))
        if steps.is_due(size_bytes):
            yield
    return container_of(kind, items, list(outline.keys), field)
