"""The error of an outage, by which its parts in several apps are found."""

import sqlalchemy as sa

from warren.sql.migrations.steps import add_column

revision = "0005_0.2.0"
down_revision = "0004_0.2.0"


def upgrade() -> None:
    """Add the key; events that are there already name none, and are over within eight days."""
    add_column("warren_event", sa.Column("error_key", sa.String(length=16)))
