"""Epochs of run ids, what feeds leave out, and the secrets that sign alarms.

Existing rows are kept. Use the steps of `warren.sql.migrations.steps`, which may be repeated.
"""

import sqlalchemy as sa

from warren.sql.dialects.supported import TABLE_OPTIONS
from warren.sql.migrations.steps import add_column, create_table

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add what the models have and 0.1.0 had not."""
    create_table(
        "warren_epoch",
        sa.Column("began_at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cause", sa.String(length=16), nullable=False),
        sa.Column("told_by", sa.String(length=255), nullable=False),
        sa.Column("found_id", sa.BigInteger(), nullable=False),
        sa.Column("next_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("began_at"),
        **TABLE_OPTIONS,
    )
    add_column("warren_calendar", sa.Column("not_taken", sa.String(length=1_000)))
    for table in ("xxl_job_group", "xxl_job_info"):
        add_column(table, sa.Column("alarm_secret", sa.String(length=255)))
