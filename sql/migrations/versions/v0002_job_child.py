"""A row for each child of a job; `child_jobid` is used only for a job without such rows."""

import sqlalchemy as sa
from alembic import op

from warren.sql.dialects.columns import TABLE_OPTIONS

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table of children, empty."""
    # MySQL commits each table by itself, so a killed upgrade may have made it.
    op.execute("DROP TABLE IF EXISTS warren_job_child")
    op.create_table(
        "warren_job_child",
        sa.Column("job_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("child_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "position"),
        sa.UniqueConstraint("job_id", "child_id", name="i_job_child"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_child", "warren_job_child", ["child_id"], unique=False)
