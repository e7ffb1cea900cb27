"""Which of the broker's accounts speaks for an executor's boot."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

_TABLE, _COLUMN = "xxl_job_registry", "account"


def upgrade() -> None:
    """Add the column."""
    if not _is_there():
        op.add_column(_TABLE, sa.Column(_COLUMN, sa.String(255), nullable=True))


def _is_there() -> bool:
    # MySQL commits a column by itself, so a killed upgrade may have made it.
    context = op.get_context()
    if context.as_sql or context.connection is None:
        return False
    columns = sa.inspect(context.connection).get_columns(_TABLE)
    return any(column["name"] == _COLUMN for column in columns)
