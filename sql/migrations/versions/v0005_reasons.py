"""Reasons beside their texts, so that a console can show them in any language."""

import sqlalchemy as sa
from alembic import op

from sql.dialects.columns import LONG_TEXT

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
        for name in names:
            op.add_column(table, sa.Column(name, LONG_TEXT, nullable=True))
