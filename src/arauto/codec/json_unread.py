"""The operations of a change in the JSON flavour: unparsed values → records, step by step. Pure."""

from collections.abc import Generator, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from arauto.codec.checks import OPERATIONS_WITH_VALUE, bad_field
from arauto.codec.events import Operation
from arauto.codec.json_values import (
    BINARY_KEY,
    LITERAL_KEY,
    OperationShape,
    binary_from_json,
    check_depth,
    check_parts,
    operation_of,
    value_from_json,
)
from arauto.codec.unread import WHOLE_BYTES, Steps, check_values_count
from arauto.errors import ArautoError, Code
from arauto.limits import DOCUMENT_VALUES_MAX

__all__ = ["read_operations"]

_decode = msgspec.json.Decoder().decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_dict = msgspec.json.Decoder(dict[str, Raw]).decode


def read_operations(
    shapes: Sequence[OperationShape],
) -> Generator[None, None, tuple[Operation, ...]]:
    """Return the operations of a change.

    Raises:
        ArautoError: BAD_FIELD or DOCUMENT_TOO_LARGE, and BAD_ENVELOPE if a value is no JSON after all.
    """
    steps = Steps()
    operations = []
    for index, shape in enumerate(shapes):
        operations.append((yield from _operation(shape, f"operations[{index}]", steps)))
    return tuple(operations)


def _operation(shape: OperationShape, field: str, steps: Steps) -> Generator[None, None, Operation]:
    check_parts(shape, field)
    value = None
    if isinstance(shape.value, Raw):
        data = bytes(shape.value)
        try:
            if len(data) > DOCUMENT_VALUES_MAX and b'"' not in data:
                check_values_count(data.count(b",") + 1, f"{field}.value")
            if shape.op in OPERATIONS_WITH_VALUE:
                value = yield from _value(data, f"{field}.value", 0, steps)
            else:
                _decode(data)  # it is passed over, but must be JSON
        except msgspec.ValidationError:
            raise bad_field(f"{field}.value", "must be a number this protocol can carry") from None
        except RecursionError:
            raise ArautoError(Code.BAD_ENVELOPE, "must not be nested so deep") from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            # The parser does not look into the strings of what it leaves raw.
            raise ArautoError(
                Code.BAD_ENVELOPE, "must be one JSON object and nothing else"
            ) from None
    return operation_of(shape, value)


def _value(data: bytes, field: str, depth: int, steps: Steps) -> Generator[None, None, Any]:
    """As `value_from_json`, of JSON text."""
    size_bytes = len(data)
    if size_bytes <= WHOLE_BYTES:
        value = value_from_json(_decode(data), field, depth)
        if steps.is_due(size_bytes):
            yield
        return value
    first = data.lstrip()[:1]
    if first == b"[":
        found = _decode_list(data)
        return (yield from _items(found, field, depth + 1, steps))
    if first != b"{":
        return value_from_json(_decode(data), field, depth)
    members = _decode_dict(data)
    if len(members) == 1:
        if BINARY_KEY in members:
            return binary_from_json(_decode(members[BINARY_KEY]), field)
        if LITERAL_KEY in members:
            data = bytes(members[LITERAL_KEY])
            if data.lstrip()[:1] != b"{":
                raise bad_field(field, "must hold an object in $literal")
            members = _decode_dict(data)
    items = yield from _items(list(members.values()), field, depth + 1, steps)
    return dict(zip(members, items, strict=True))


def _items(
    found: list[Raw], field: str, depth: int, steps: Steps
) -> Generator[None, None, list[Any]]:
    check_depth(depth, field)
    check_values_count(len(found), field)
    items = []
    for raw in found:
        size_bytes = memoryview(raw).nbytes
        if size_bytes > WHOLE_BYTES:
            items.append((yield from _value(bytes(raw), field, depth, steps)))
            continue
        items.append(value_from_json(_decode(raw), field, depth))
        if steps.is_due(size_bytes):
            yield
    return items
