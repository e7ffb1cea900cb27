"""Where imported apps, jobs and users came from."""

import sqlalchemy as sa
from alembic import op

from warren.sql.dialects.columns import AUTO_ID, TABLE_OPTIONS

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Make the table, empty."""
    # MySQL commits a table by itself, so a killed upgrade may have made it.
    op.execute("DROP TABLE IF EXISTS warren_import")
    op.create_table(
        "warren_import",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("source", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("source_id", sa.BigInteger(), nullable=False),
        sa.Column("target_id", sa.Integer(), nullable=False),
        sa.Column("there", sa.String(32), nullable=False),
        sa.Column("here", sa.String(32), nullable=False),
        sa.Column("imported_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("source", "kind", "source_id", name="i_import_source"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_import_target", "warren_import", ["kind", "target_id"], unique=False)
