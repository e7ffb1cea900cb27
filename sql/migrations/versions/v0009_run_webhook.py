"""Webhooks of jobs and apps that receive the ends of runs."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_TABLES = ("xxl_job_group", "xxl_job_info")
_COLUMNS = {"webhook_url": 512, "webhook_when": 16}


def upgrade() -> None:
    """Add the columns."""
    for table in _TABLES:
        there = _columns(table)
        for name, length in _COLUMNS.items():
            if name not in there:
                op.add_column(table, sa.Column(name, sa.String(length), nullable=True))


def _columns(table: str) -> set[str]:
    # MySQL commits a column by itself, so a killed upgrade may have made it.
    context = op.get_context()
    if context.as_sql or context.connection is None:
        return set()
    return {column["name"] for column in sa.inspect(context.connection).get_columns(table)}
