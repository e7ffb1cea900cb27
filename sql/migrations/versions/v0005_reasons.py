"""Reasons beside their texts, so that a console can show them in any language."""

import sqlalchemy as sa
from alembic import op

from warren.sql.dialects.columns import LONG_TEXT

revision = "0005"
down_revision = "0004"

_COLUMNS = {
    "xxl_job_log": ("trigger_why", "message_why"),
    "xxl_job_info": ("stop_why",),
    "warren_skip": ("why",),
}


def upgrade() -> None:
    """Add the columns; rows from before keep their texts alone."""
    for table, names in _COLUMNS.items():
        there = _columns(table)
        for name in names:
            if name not in there:
                op.add_column(table, sa.Column(name, LONG_TEXT, nullable=True))


def _columns(table: str) -> set[str]:
    # MySQL commits a column by itself, so a killed upgrade may have made it.
    context = op.get_context()
    if context.as_sql or context.connection is None:
        return set()
    return {column["name"] for column in sa.inspect(context.connection).get_columns(table)}
