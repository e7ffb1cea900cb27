"""Logs in a store, single sign-on, and logins of the command line."""

import sqlalchemy as sa

from warren.sql.dialects.supported import AUTO_ID, LONG_TEXT, TABLE_OPTIONS
from warren.sql.migrations.steps import add_column, create_index, create_table

revision = "0007_0.2.0"
down_revision = "0006_0.2.0"


def upgrade() -> None:
    """Add the tables, which begin empty; users and sessions that are there stay local.

    Of runs that are over by then, only their executors have the logs.
    """
    create_table(
        "warren_stored_log",
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("identity", sa.BigInteger(), nullable=False),
        sa.Column("log_key", sa.String(length=255), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("log_size", sa.BigInteger(), nullable=False),
        sa.Column("packed", sa.BigInteger(), nullable=False),
        sa.Column("parts", sa.Integer(), nullable=False),
        sa.Column("told_at", sa.BigInteger(), nullable=False),
        sa.Column("delete_at", sa.BigInteger(), nullable=True),
        sa.Column("fault", sa.String(length=500), nullable=True),
        sa.PrimaryKeyConstraint("run_id"),
        **TABLE_OPTIONS,
    )
    create_index("i_stored_log_delete", "warren_stored_log", ["delete_at"])
    create_table(
        "warren_identity",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("key_hash", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("issuer", sa.String(length=255), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("linked_at", sa.BigInteger(), nullable=False),
        sa.Column("linked_by", sa.String(length=64), nullable=False),
        sa.Column("signed_in_at", sa.BigInteger(), nullable=True),
        sa.Column("read_at", sa.BigInteger(), nullable=True),
        sa.Column("next_read_at", sa.BigInteger(), nullable=False),
        sa.Column("group_names", LONG_TEXT, nullable=True),
        sa.Column("refresh_token", LONG_TEXT, nullable=True),
        sa.Column("fault", sa.String(length=255), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key_hash", name="i_identity_key"),
        sa.UniqueConstraint("user_id", name="i_identity_user"),
        **TABLE_OPTIONS,
    )
    create_index("i_identity_due", "warren_identity", ["next_read_at"])
    create_table(
        "warren_group_rule",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("key_hash", sa.String(length=64), nullable=False),
        sa.Column("group_name", sa.String(length=255), nullable=False),
        sa.Column("role", sa.SmallInteger(), nullable=False),
        sa.Column("permission", sa.Text(), nullable=True),
        sa.Column("may_edit_glue", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key_hash", name="i_group_rule_key"),
        **TABLE_OPTIONS,
    )
    add_column("xxl_job_user", sa.Column("sso_until", sa.BigInteger(), nullable=True))
    add_column("xxl_job_user", sa.Column("tokens_until", sa.BigInteger(), nullable=True))
    by_sso = sa.Column("is_sso", sa.SmallInteger(), nullable=False, server_default="0")
    add_column("warren_session", by_sso)
    add_column("warren_session", sa.Column("id_token", LONG_TEXT, nullable=True))
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
