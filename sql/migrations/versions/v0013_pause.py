"""Pauses as rows: of the whole cluster or of one app, with a reason and an end."""

import sqlalchemy as sa
from alembic import op

from warren.sql.dialects.columns import AUTO_ID, TABLE_OPTIONS

revision = "0013"
down_revision = "0012"

_CLUSTER = "warren_cluster"


def upgrade() -> None:
    """Make the table, move the present pause there, and drop the columns that had it."""
    # MySQL commits each step by itself, so a killed upgrade may have made some.
    if _has("paused_at"):
        _move()
        op.drop_column(_CLUSTER, "paused_at")
    if _has("paused_by"):
        op.drop_column(_CLUSTER, "paused_by")


def _move() -> None:
    op.execute("DROP TABLE IF EXISTS warren_pause")
    op.create_table(
        "warren_pause",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("app_id", sa.Integer(), nullable=False),
        sa.Column("since_at", sa.BigInteger(), nullable=False),
        sa.Column("until_at", sa.BigInteger(), nullable=True),
        sa.Column("paused_by", sa.String(64), nullable=False),
        sa.Column("reason", sa.String(200), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_pause_app", "warren_pause", ["app_id"], unique=False)
    op.execute(
        "INSERT INTO warren_pause (app_id, since_at, paused_by, reason) "
        "SELECT 0, paused_at, COALESCE(paused_by, ''), '' FROM warren_cluster WHERE paused_at > 0"
    )


def _has(column: str) -> bool:
    context = op.get_context()
    if context.as_sql or context.connection is None:
        return True
    columns = sa.inspect(context.connection).get_columns(_CLUSTER)
    return any(one["name"] == column for one in columns)
