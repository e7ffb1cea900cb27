"""The load of executors, one row per minute."""

import sqlalchemy as sa
from alembic import op

from warren.sql.dialects.columns import TABLE_OPTIONS

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Make the table, empty."""
    # MySQL commits a table by itself, so a killed upgrade may have made it.
    op.execute("DROP TABLE IF EXISTS warren_executor_load")
    op.create_table(
        "warren_executor_load",
        sa.Column("executor_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("minute_at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("running", sa.Integer(), nullable=False),
        sa.Column("waiting", sa.Integer(), nullable=False),
        sa.Column("cpu_percent", sa.SmallInteger(), nullable=False),
        sa.Column("memory_percent", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("executor_id", "minute_at"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_load_minute", "warren_executor_load", ["minute_at"], unique=False)
