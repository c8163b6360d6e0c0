"""The lives of a journal partition: a restored one begins another."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_WORDS = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the table. A partition without a row in it is in its first life."""
    op.create_table(
        "journal_incarnation",
        sa.Column("node", _NUMBER, primary_key=True, nullable=False, autoincrement=False),
        sa.Column("first_seq", _NUMBER, primary_key=True, nullable=False, autoincrement=False),
        sa.Column("name", _WORDS, nullable=False),
        sa.Column("place", _WORDS, nullable=False),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Drop the table: later rows are again taken for those of the first life."""
    op.drop_table("journal_incarnation")
