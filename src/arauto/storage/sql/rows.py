"""Journal entries as database rows and back, the same for every SQL engine and for the exporter.

Each row carries a checksum over all its other columns. A disk that flips a bit, or a hand that edits a
row, is found when the row is read: what does not check out is refused, never served.
"""

from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

import msgspec

from arauto.errors import Code, StorageError
from arauto.storage.base import JournalEntry, Kind

__all__ = [
    "COLUMNS",
    "COLUMN_LIST",
    "SELECT_ROWS",
    "Row",
    "checksum",
    "entry_of",
    "rows_of",
    "size_of",
]

Row = Sequence[Any]

#: The journal's columns, in the order of the row tuples. `crc` stays last: it covers all before it, but for
#: an empty `origin`: rows written before that column was there must go on checking out.
COLUMNS = (
    "node",
    "seq",
    "kind",
    "ts_ms",
    "hub",
    "channel",
    "epoch",
    "offset",
    "session",
    "user",
    "content_type",
    "id",
    "key",
    "exclude",
    "headers",
    "expires_ms",
    "payload",
    "origin",
    "crc",
)
#: The same for a statement; quoted because `user` and `offset` are words of SQL.
COLUMN_LIST = ", ".join(f'"{name}"' for name in COLUMNS)
#: How every statement that reads whole rows begins.
SELECT_ROWS = " ".join(("SELECT", COLUMN_LIST, "FROM journal"))

_ENTRY_BYTES = 384  # the names, numbers and objects of an ordinary entry, without its payload

_KINDS = {int(kind): kind for kind in Kind}

_encode = msgspec.msgpack.Encoder().encode
_encode_headers = msgspec.json.Encoder().encode
_decode_headers = msgspec.json.Decoder(dict[str, str]).decode


def rows_of(node: int, first_seq: int, entries: Iterable[JournalEntry]) -> list[Row]:
    """Return one row per entry, numbered from `first_seq`. On the hot path: no checks but encoding's own.

    Raises:
        UnicodeEncodeError, OverflowError: an entry cannot be stored; `checks.entry_problem` says which.
    """
    rows: list[Row] = []
    add = rows.append
    seq = first_seq
    for e in entries:
        headers, origin = e.headers, e.origin
        body = (
            node,
            seq,
            int(e.kind),  # a plain int: the drivers treat an IntEnum as an unknown type
            e.ts_ms,
            e.hub,
            e.channel,
            e.epoch,
            e.offset,
            e.session,
            e.user,
            e.content_type,
            e.id,
            e.key,
            e.exclude,
            _encode_headers(headers).decode() if headers else None,
            e.expires_ms,
            e.payload,
        )
        add((*body, origin, crc32(_encode((*body, origin) if origin else body))))
        seq += 1
    return rows


def entry_of(row: Row) -> JournalEntry:
    """Return the entry a row holds.

    Raises:
        StorageError: STORAGE_CORRUPT, the row does not match its checksum.
    """
    origin = row[17]
    if crc32(_encode(tuple(row[:18] if origin else row[:17]))) != row[18]:
        raise StorageError(
            Code.STORAGE_CORRUPT, f"journal row {row[1]} of partition {row[0]} is damaged"
        )
    headers = row[14]
    kind = _KINDS.get(row[2])
    if kind is None:
        raise StorageError(
            Code.STORAGE_CORRUPT, f"journal row {row[1]} has the unknown kind {row[2]}"
        )
    return JournalEntry(
        kind=kind,
        ts_ms=row[3],
        hub=row[4],
        channel=row[5],
        epoch=row[6],
        offset=row[7],
        session=row[8],
        user=row[9],
        content_type=row[10],
        id=row[11],
        key=row[12],
        exclude=row[13],
        headers=None if headers is None else _decode_headers(headers),
        expires_ms=row[15],
        payload=row[16],
        origin=origin,
    )


def size_of(entry: JournalEntry) -> int:
    """Return roughly how many bytes an entry takes while it waits."""
    size_bytes = _ENTRY_BYTES + len(entry.payload)
    if entry.headers:
        size_bytes += sum(len(k) + len(v) + 100 for k, v in entry.headers.items())
    return size_bytes


def checksum(*fields: str | int | bytes) -> int:
    """Return the checksum stored beside a value: it covers the value and the whole of its key."""
    return crc32(_encode(fields))
