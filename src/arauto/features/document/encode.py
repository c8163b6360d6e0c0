"""Documents and changes as bytes for storage: MessagePack, compressed, with a check sum. Pure.

    byte 0 = 1   MessagePack, then its CRC-32 (4 bytes, big endian)
    byte 0 = 2   a zlib stream of MessagePack

Small bodies are not compressed: that would make most changes longer. The first byte is the version of
the format; a new one gets a new number. What is read is checked like foreign input, because disks, other
nodes and other versions are not to be trusted with the types of our values.

Documents are written in two steps so that the event loop only pays for the first: `pack_document` takes
a consistent picture of the value, `seal` compresses it and may run in a thread.
"""

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from arauto.codec.events import Operation
from arauto.errors import ArautoError, Code, StorageError
from arauto.features.document.value import CEILING, Limits, Value, check

__all__ = [
    "SEALED_BYTES_MAX",
    "dump_change",
    "dump_document",
    "load_change",
    "load_document",
    "pack_document",
    "pack_value",
    "seal",
]

#: What may come out of decompression. Above any document (its estimate is an upper bound of its bytes).
SEALED_BYTES_MAX = CEILING.size_bytes_max + 64

_PLAIN = 1
_ZLIB = 2
_PLAIN_BYTES_MAX = 256
_CRC_BYTES = 4
#: Level 1 is four times as fast as the default and costs a tenth more bytes on typical documents.
_ZLIB_LEVEL = 1

_encoder = msgspec.msgpack.Encoder()
_document_decoder = msgspec.msgpack.Decoder(tuple[int, Any])
_change_decoder = msgspec.msgpack.Decoder(tuple[int, list[tuple[str, str, str, Any]]])


def pack_document(version: int, value: Value) -> bytes:
    """First step: the value as it is now. Not readable until sealed."""
    return _encoder.encode((version, value))


def pack_value(value: Value) -> bytes:
    """The value alone as it is now, for `codec.value_steps`."""
    return _encoder.encode(value)


def seal(packed: bytes) -> bytes:
    """Second step: compress and protect. Touches nothing but its argument.

    Raises:
        ArautoError: BATCH_TOO_LARGE if this could not be read back.
    """
    if len(packed) <= _PLAIN_BYTES_MAX:
        return bytes((_PLAIN,)) + packed + zlib.crc32(packed).to_bytes(_CRC_BYTES, "big")
    if len(packed) > SEALED_BYTES_MAX:
        raise ArautoError(
            Code.BATCH_TOO_LARGE,
            f"one change has at most {SEALED_BYTES_MAX} bytes",
            field="operations",
        )
    return bytes((_ZLIB,)) + zlib.compress(packed, _ZLIB_LEVEL)


def dump_document(version: int, value: Value) -> bytes:
    """Both steps at once."""
    return seal(pack_document(version, value))


def load_document(data: bytes) -> tuple[int, Value]:
    """Return the version and the value.

    Raises:
        StorageError: STORAGE_CORRUPT.
    """
    packed = _open(data)
    try:
        version, value = _document_decoder.decode(packed)
    except (ValueError, RecursionError):
        raise _corrupt("a stored document cannot be decoded") from None
    _check_loaded(version, [value])
    return version, value


def dump_change(version: int, operations: Sequence[Operation]) -> bytes:
    """One change for the operation log: what turned `version` - 1 into `version`.

    Raises:
        ArautoError: BATCH_TOO_LARGE if this could not be read back.
    """
    rows = [(each.op, each.path, each.source, each.value) for each in operations]
    return seal(_encoder.encode((version, rows)))


def load_change(data: bytes) -> tuple[int, tuple[Operation, ...]]:
    """Return the version and the operations.

    Raises:
        StorageError: STORAGE_CORRUPT.
    """
    packed = _open(data)
    try:
        version, rows = _change_decoder.decode(packed)
    except (ValueError, RecursionError):
        raise _corrupt("a stored change cannot be decoded") from None
    _check_loaded(version, [value for _, _, _, value in rows])
    return version, tuple(
        Operation(op=op, path=path, source=source, value=value) for op, path, source, value in rows
    )


def _open(data: bytes) -> bytes:
    if data[:1] == bytes((_PLAIN,)) and len(data) > _CRC_BYTES:
        packed, crc = data[1:-_CRC_BYTES], data[-_CRC_BYTES:]
        if zlib.crc32(packed).to_bytes(_CRC_BYTES, "big") == crc:
            return packed
        raise _corrupt("a stored document's check sum is wrong")
    if data[:1] != bytes((_ZLIB,)):
        raise _corrupt("a stored document has an unknown format")
    inflater = zlib.decompressobj()
    try:
        packed = inflater.decompress(data[1:], SEALED_BYTES_MAX + 1)
    except zlib.error:
        raise _corrupt("a stored document cannot be decompressed") from None
    if not inflater.eof or inflater.unused_data or len(packed) > SEALED_BYTES_MAX:
        raise _corrupt("a stored document is too long or has been cut")
    return packed


def _check_loaded(version: int, values: list[Any], limits: Limits = CEILING) -> None:
    if version < 0:
        raise _corrupt("a stored document's version is negative")
    try:
        for value in values:
            check(value, limits, nodes_room=limits.nodes_max, bytes_room=limits.size_bytes_max)
    except ArautoError:
        raise _corrupt("a stored document holds something that is not a value") from None


def _corrupt(message: str) -> StorageError:
    return StorageError(Code.STORAGE_CORRUPT, message)
