"""API tokens and idempotency keys."""

import sqlalchemy as sa
from alembic import op

from warren.sql.dialects.columns import AUTO_ID, LASTING_ID_OPTIONS, TABLE_OPTIONS

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make both tables, empty."""
    # MySQL commits each table by itself, so a killed upgrade may have made one.
    for table in ("warren_token", "warren_idempotency"):
        op.execute(f"DROP TABLE IF EXISTS {table}")
    op.create_table(
        "warren_token",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("name", sa.String(50), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("scopes", sa.String(128), nullable=False),
        sa.Column("permission", sa.Text(), nullable=True),
        sa.Column("jobs", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(64), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.Column("used_from", sa.String(64), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_by", sa.String(64), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("token_hash", name="i_token_hash"),
        sa.UniqueConstraint("name", name="i_token_name"),
        **TABLE_OPTIONS,
        **LASTING_ID_OPTIONS,
    )
    op.create_index("i_token_user", "warren_token", ["user_id"], unique=False)
    op.create_table(
        "warren_idempotency",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("idempotency_key", sa.String(128), nullable=False),
        sa.Column("body_hash", sa.String(64), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("user_id", "idempotency_key", name="i_idempotency"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_idempotency_at", "warren_idempotency", ["created_at"], unique=False)
