"""The server that the database is written on."""

import sqlalchemy as sa

from warren.sql.migrations.steps import add_column

revision = "0003_0.2.0"
down_revision = "0002"


def upgrade() -> None:
    """Add what tells a promoted server; existing rows name none, so the next process names its."""
    add_column("warren_cluster", sa.Column("server", sa.String(length=80)))
