"""The tables, as they are now. Migrations lead here; a test checks that they do.

Imported by migrations and tests only: the running node speaks plain SQL and does not need SQLAlchemy.
"""

from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, Table, Text, text
from sqlalchemy.types import TypeEngine

__all__ = ["metadata"]

metadata = MetaData()


def _number() -> TypeEngine[Any]:
    # SQLite has one integer type, of 64 bits, and its strict tables accept no other name for it.
    return BigInteger().with_variant(Integer(), "sqlite")


def _words() -> TypeEngine[Any]:
    # By code point on every engine, so that lists come in the same order whatever the server's locale.
    return Text().with_variant(Text(collation="C"), "postgresql")


def _need(name: str, kind: TypeEngine[Any], *, key: bool = False) -> Column[Any]:
    return Column(name, kind, nullable=False, primary_key=key, autoincrement=False)


Table(
    "journal_partition",
    metadata,
    _need("node", _number(), key=True),
    _need("name", _words()),
    Column("trimmed_seq", _number(), nullable=False, server_default="0"),
    Column("writes", _number(), nullable=False, server_default="0"),
    Index("journal_partition_name", "name", unique=True),
    sqlite_strict=True,
)

Table(
    "journal_incarnation",
    metadata,
    _need("node", _number(), key=True),
    _need("first_seq", _number(), key=True),
    _need("name", _words()),
    _need("place", _words()),
    sqlite_strict=True,
)

_journal = Table(
    "journal",
    metadata,
    _need("node", _number(), key=True),
    _need("seq", _number(), key=True),
    _need("kind", _number()),
    _need("ts_ms", _number()),
    _need("hub", _words()),
    _need("channel", _words()),
    _need("epoch", _number()),
    _need("offset", _number()),
    _need("session", _words()),
    _need("user", _words()),
    _need("content_type", _words()),
    _need("id", _words()),
    _need("key", _words()),
    _need("exclude", _words()),
    Column("headers", _words()),
    _need("expires_ms", _number()),
    _need("payload", LargeBinary()),
    _need("crc", _number()),
    Column("origin", _words(), nullable=False, server_default=""),
    sqlite_strict=True,
)

_is_message = text("kind = 1")
Index(
    "journal_message",
    _journal.c.hub,
    _journal.c.channel,
    _journal.c.epoch,
    _journal.c.offset,
    sqlite_where=_is_message,
    postgresql_where=_is_message,
)
# Time never goes back within a channel, so a few signposts are enough to find a time, and one message
# in 61 costs next to nothing. A prime, so that no regular pattern of stored offsets avoids them all.
_is_signpost = text('kind = 1 AND "offset" % 61 = 0')
Index(
    "journal_signpost",
    _journal.c.hub,
    _journal.c.channel,
    _journal.c.ts_ms,
    _journal.c.epoch,
    _journal.c.offset,
    sqlite_where=_is_signpost,
    postgresql_where=_is_signpost,
)
_does_expire = text("kind = 1 AND expires_ms > 0")
Index(
    "journal_expiry",
    _journal.c.node,
    _journal.c.expires_ms,
    _journal.c.seq,
    sqlite_where=_does_expire,
    postgresql_where=_does_expire,
)

Table(
    "setting",
    metadata,
    _need("kind", _words(), key=True),
    _need("hub", _words(), key=True),
    _need("id", _words(), key=True),
    _need("value", LargeBinary()),
    _need("crc", _number()),
    Index("setting_hub", "hub"),
    sqlite_strict=True,
)

_kv = Table(
    "kv",
    metadata,
    _need("hub", _words(), key=True),
    _need("key", _words(), key=True),
    _need("value", LargeBinary()),
    _need("crc", _number()),
    _need("expires_ms", _number()),
    sqlite_strict=True,
)
_ends = text("expires_ms > 0")
Index("kv_expiry", _kv.c.expires_ms, sqlite_where=_ends, postgresql_where=_ends)

Table(
    "kv_list",
    metadata,
    _need("hub", _words(), key=True),
    _need("key", _words(), key=True),
    _need("first_n", _number()),
    _need("next_n", _number()),
    sqlite_strict=True,
)

Table(
    "kv_item",
    metadata,
    _need("hub", _words(), key=True),
    _need("key", _words(), key=True),
    _need("n", _number(), key=True),
    _need("value", LargeBinary()),
    _need("crc", _number()),
    sqlite_strict=True,
)

Table(
    "document",
    metadata,
    _need("hub", _words(), key=True),
    _need("channel", _words(), key=True),
    _need("version", _number()),
    _need("data", LargeBinary()),
    _need("crc", _number()),
    sqlite_strict=True,
)
