"""Which runs' logs are in the log store."""

import sqlalchemy as sa

from warren.sql.dialects.supported import TABLE_OPTIONS
from warren.sql.migrations.steps import create_index, create_table

revision = "0007_0.2.0"
down_revision = "0006_0.2.0"


def upgrade() -> None:
    """Add the table; of runs that are over by then, only their executors have the logs."""
    create_table(
        "warren_stored_log",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("identity", sa.BigInteger(), nullable=False),
        sa.Column("log_key", sa.String(length=255), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("log_size", sa.BigInteger(), nullable=False),
        sa.Column("packed", sa.BigInteger(), nullable=False),
        sa.Column("parts", sa.Integer(), nullable=False),
        sa.Column("told_at", sa.BigInteger(), nullable=False),
        sa.Column("delete_at", sa.BigInteger(), nullable=True),
        sa.Column("fault", sa.String(length=500), nullable=True),
        sa.PrimaryKeyConstraint("run_id"),
        **TABLE_OPTIONS,
    )
    create_index("i_stored_log_delete", "warren_stored_log", ["delete_at"])
