"""Logins of the command line that wait for a user."""

import sqlalchemy as sa

from warren.sql.dialects.supported import AUTO_ID, TABLE_OPTIONS
from warren.sql.migrations.steps import create_index, create_table

revision = "0009_0.2.0"
down_revision = "0008_0.2.0"


def upgrade() -> None:
    create_table(
        "warren_command_login",
        sa.Column("id", AUTO_ID, primary_key=True),
        sa.Column("key_hash", sa.String(length=64), nullable=False),
        sa.Column("challenge", sa.String(length=64), nullable=False),
        sa.Column("machine", sa.String(length=64), nullable=False),
        sa.Column("address", sa.String(length=64), nullable=False),
        sa.Column("days", sa.Integer(), nullable=False),
        sa.Column("port", sa.Integer(), nullable=True),
        sa.Column("state", sa.String(length=64), nullable=False),
        sa.Column("until_at", sa.BigInteger(), nullable=False),
        sa.Column("decision", sa.String(length=16), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=True),
        sa.Column("scopes", sa.String(length=128), nullable=False),
        sa.Column("code_hash", sa.String(length=64), nullable=True),
        sa.UniqueConstraint("key_hash", name="i_command_login_key"),
        sa.UniqueConstraint("challenge", name="i_command_login_challenge"),
        **TABLE_OPTIONS,
    )
    create_index("i_command_login_until", "warren_command_login", ["until_at"])
