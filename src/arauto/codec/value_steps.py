"""A document's value for the wire, step by step, so that nobody has to wait for a large one. Pure.

The value comes packed (MessagePack): a picture that nothing changes any more, of which a large part can be
taken apart without building what is in it. Whoever drives the steps lets others run between them.
"""

from collections.abc import Generator
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw

__all__ = ["ValueWriter", "all_at_once", "value_steps"]

#: A part of no more packed bytes is written in one go. Its values may take a byte each.
_WHOLE_BYTES = 1_024
#: Small parts are written in one step until they have so many packed bytes.
_STEP_BYTES = 2_048
#: What one more part weighs beside its bytes.
_PART_BYTES = 16

_decode = msgspec.msgpack.Decoder().decode
_decode_list = msgspec.msgpack.Decoder(list[Raw]).decode
_decode_dict = msgspec.msgpack.Decoder(dict[str, Raw]).decode

_LISTS: Final = frozenset({*range(0x90, 0xA0), 0xDC, 0xDD})
_DICTS: Final = frozenset({*range(0x80, 0x90), 0xDE, 0xDF})


class ValueWriter(Protocol):
    """How a flavour writes values. What `whole` writes and what is put together of parts is the same."""

    def whole(self, value: Any) -> bytes: ...

    def item(self, data: bytes) -> bytes:
        """A value that `whole` or `joined` wrote, as part of a list or map."""

    def key(self, key: str) -> bytes:
        """A member's name, as part of a map."""

    def joined(self, items: list[bytes], keys: list[bytes] | None) -> bytes:
        """The list of these items, or the map of these keys and items."""


def value_steps(packed: bytes | Raw, writer: ValueWriter) -> Generator[None, None, bytes]:
    """Write a packed value; returns its bytes. A step takes about as long as writing 2 KiB does."""
    view = memoryview(packed)
    if view.nbytes <= _WHOLE_BYTES or view[0] not in _LISTS | _DICTS:
        return writer.whole(_decode(packed))
    keys: list[bytes] | None = None
    if view[0] in _DICTS:
        members = _decode_dict(packed)
        names, parts, keys = iter(members), iter(members.values()), []
    else:
        names, parts = iter(()), iter(_decode_list(packed))
    yield
    items: list[bytes] = []
    step_bytes = 0
    for part in parts:
        if keys is not None:
            keys.append(writer.key(next(names)))
        size_bytes = memoryview(part).nbytes
        if size_bytes > _WHOLE_BYTES:
            items.append(writer.item((yield from value_steps(part, writer))))
            continue
        items.append(writer.item(writer.whole(_decode(part))))
        step_bytes += size_bytes + _PART_BYTES
        if step_bytes >= _STEP_BYTES:
            step_bytes = 0
            yield
    yield
    return writer.joined(items, keys)


def all_at_once(steps: Generator[None, None, bytes]) -> bytes:
    """Take all steps without a pause: for small values."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            data: bytes = end.value
            return data
