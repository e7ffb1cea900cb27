"""Versions of scripts are numbered per job."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

_TABLE, _COLUMN = "xxl_job_logglue", "number"


def upgrade() -> None:
    """Add the column, and number the versions of each job in the order they were saved."""
    if not _is_there():
        op.add_column(_TABLE, sa.Column(_COLUMN, sa.Integer(), server_default="0", nullable=False))
    op.execute(
        "UPDATE xxl_job_logglue SET number = ("
        "SELECT counted.place FROM ("
        "SELECT id, ROW_NUMBER() OVER (PARTITION BY job_id ORDER BY id) AS place "
        "FROM xxl_job_logglue) AS counted "
        "WHERE counted.id = xxl_job_logglue.id) "
        "WHERE number = 0"
    )


def _is_there() -> bool:
    # MySQL commits a column by itself, so a killed upgrade may have made it.
    context = op.get_context()
    if context.as_sql or context.connection is None:
        return False
    columns = sa.inspect(context.connection).get_columns(_TABLE)
    return any(column["name"] == _COLUMN for column in columns)
