"""The first tables: journal, settings, key-value, documents."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_WORDS = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_BYTES = sa.LargeBinary()


def _columns(
    kind: sa.types.TypeEngine[Any], *names: str, key: bool = False
) -> list[sa.Column[Any]]:
    return [
        sa.Column(name, kind, nullable=False, primary_key=key, autoincrement=False)
        for name in names
    ]


def upgrade() -> None:
    """Create everything."""
    _create_journal()
    op.create_table(
        "setting",
        *_columns(_WORDS, "kind", "hub", "id", key=True),
        *_columns(_BYTES, "value"),
        *_columns(_NUMBER, "crc"),
        sqlite_strict=True,
    )
    op.create_index("setting_hub", "setting", ["hub"])
    _create_kv()
    op.create_table(
        "document",
        *_columns(_WORDS, "hub", "channel", key=True),
        *_columns(_NUMBER, "version"),
        *_columns(_BYTES, "data"),
        *_columns(_NUMBER, "crc"),
        sqlite_strict=True,
    )


def _create_journal() -> None:
    op.create_table(
        "journal_partition",
        *_columns(_NUMBER, "node", key=True),
        *_columns(_WORDS, "name"),
        sa.Column("trimmed_seq", _NUMBER, nullable=False, server_default="0"),
        sa.Column("writes", _NUMBER, nullable=False, server_default="0"),
        sqlite_strict=True,
    )
    op.create_index("journal_partition_name", "journal_partition", ["name"], unique=True)
    op.create_table(
        "journal",
        *_columns(_NUMBER, "node", "seq", key=True),
        *_columns(_NUMBER, "kind", "ts_ms"),
        *_columns(_WORDS, "hub", "channel"),
        *_columns(_NUMBER, "epoch", "offset"),
        *_columns(_WORDS, "session", "user", "content_type", "id", "key", "exclude"),
        sa.Column("headers", _WORDS),
        *_columns(_NUMBER, "expires_ms"),
        *_columns(_BYTES, "payload"),
        *_columns(_NUMBER, "crc"),
        sqlite_strict=True,
    )
    _create_partial_index(
        "journal_message", "journal", ["hub", "channel", "epoch", "offset"], "kind = 1"
    )
    _create_partial_index(
        "journal_signpost",
        "journal",
        ["hub", "channel", "ts_ms", "epoch", "offset"],
        'kind = 1 AND "offset" % 61 = 0',
    )
    _create_partial_index(
        "journal_expiry", "journal", ["node", "expires_ms", "seq"], "kind = 1 AND expires_ms > 0"
    )


def _create_kv() -> None:
    op.create_table(
        "kv",
        *_columns(_WORDS, "hub", "key", key=True),
        *_columns(_BYTES, "value"),
        *_columns(_NUMBER, "crc", "expires_ms"),
        sqlite_strict=True,
    )
    _create_partial_index("kv_expiry", "kv", ["expires_ms"], "expires_ms > 0")
    op.create_table(
        "kv_list",
        *_columns(_WORDS, "hub", "key", key=True),
        *_columns(_NUMBER, "first_n", "next_n"),
        sqlite_strict=True,
    )
    op.create_table(
        "kv_item",
        *_columns(_WORDS, "hub", "key", key=True),
        *_columns(_NUMBER, "n", key=True),
        *_columns(_BYTES, "value"),
        *_columns(_NUMBER, "crc"),
        sqlite_strict=True,
    )


def _create_partial_index(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(
        name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where)
    )


def downgrade() -> None:
    """Drop everything: the data goes with it."""
    for table in (
        "document",
        "kv_item",
        "kv_list",
        "kv",
        "setting",
        "journal",
        "journal_partition",
    ):
        op.drop_table(table)
