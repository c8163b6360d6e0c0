"""Where a message without a session came from."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_WORDS = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column. Rows that are there keep their checksum: an empty origin is not part of it."""
    op.add_column("journal", sa.Column("origin", _WORDS, nullable=False, server_default=""))


def downgrade() -> None:
    """Drop the column. Rows that have an origin no longer check out."""
    op.drop_column("journal", "origin")
