"""How long each job usually took a week ago."""

import sqlalchemy as sa

from warren.sql.migrations.steps import add_column

revision = "0006_0.2.0"
down_revision = "0005_0.2.0"


def upgrade() -> None:
    """Add the duration; schedulers read it from the runs that are there, within a few hours."""
    week = sa.Column("week_ms", sa.BigInteger(), nullable=False, server_default="0")
    add_column("warren_job_state", week)
