"""The day report by app; all days are counted again, so that past days have it too."""

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from alembic import op

from warren.sql.dialects.columns import TABLE_OPTIONS

revision = "0003"
down_revision = "0002"

#: The days that the reporter looks at.
_FARTHEST = timedelta(days=366)


def upgrade() -> None:
    """Make the table, and let the reporter fill it from the runs that are still there."""
    # MySQL commits each table by itself, so a killed upgrade may have made it.
    op.execute("DROP TABLE IF EXISTS warren_app_day")
    op.create_table(
        "warren_app_day",
        sa.Column("app_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("trigger_day", sa.DateTime(), nullable=False),
        sa.Column("running_count", sa.Integer(), nullable=False),
        sa.Column("suc_count", sa.Integer(), nullable=False),
        sa.Column("fail_count", sa.Integer(), nullable=False),
        sa.Column("cleared_suc", sa.Integer(), nullable=False),
        sa.Column("cleared_fail", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("app_id", "trigger_day"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_app_day", "warren_app_day", ["trigger_day"], unique=False)
    since = (datetime.now(UTC) - _FARTHEST).strftime("%Y-%m-%d 00:00:00")
    op.execute(
        f"UPDATE xxl_job_log_report SET update_time = NULL WHERE trigger_day >= '{since}'"  # noqa: S608 - a date of ours
    )
