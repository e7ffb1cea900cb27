"""Schedulers record when at least one of them can send."""

import sqlalchemy as sa
from alembic import op

from warren.sql.dialects.columns import AUTO_ID, TABLE_OPTIONS
from warren.sql.dialects.supported import named

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table of uptimes; what was planned before it counts from now on."""
    # MySQL commits each table by itself, so a killed upgrade may have made it.
    op.execute("DROP TABLE IF EXISTS warren_uptime")
    op.create_table(
        "warren_uptime",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("down_since", sa.BigInteger(), nullable=False),
        sa.Column("since_at", sa.BigInteger(), nullable=False),
        sa.Column("until_at", sa.BigInteger(), nullable=False),
        sa.Column("is_settled", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **TABLE_OPTIONS,
    )
    now = named(op.get_context().dialect.name).now_ms
    op.execute(
        "INSERT INTO warren_uptime (down_since, since_at, until_at, is_settled) "  # noqa: S608 - constants of ours
        f"VALUES ({now}, {now}, {now}, 1)"
    )
