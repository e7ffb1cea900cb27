"""The board: the state of jobs, their errors, quarters of an hour, events, outlook and mutes.

The tables begin empty; a scheduler fills them from the rows that are there, in the background.
"""

import sqlalchemy as sa

from warren.sql.dialects.supported import AUTO_ID, LONG_TEXT, TABLE_OPTIONS
from warren.sql.migrations.steps import create_index, create_table

revision = "0004_0.2.0"
down_revision = "0003_0.2.0"


def upgrade() -> None:
    """Add the tables of the board."""
    create_table(
        "warren_unfolded",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("runs", LONG_TEXT, nullable=False),
        sa.Column("counts", LONG_TEXT, nullable=False),
        sa.Column("jobs", LONG_TEXT, nullable=False),
        sa.Column("skips", LONG_TEXT, nullable=False),
        sa.Column("skipped_since", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        **TABLE_OPTIONS,
    )
    create_table(
        "warren_job_state",
        sa.Column("job_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("trouble", sa.SmallInteger(), nullable=False),
        sa.Column("failing_since", sa.BigInteger(), nullable=False),
        sa.Column("failing_count", sa.Integer(), nullable=False),
        sa.Column("error_key", sa.String(length=16), nullable=False),
        sa.Column("error_since", sa.BigInteger(), nullable=False),
        sa.Column("error_count", sa.Integer(), nullable=False),
        sa.Column("error_text", sa.String(length=400), nullable=False),
        sa.Column("error_run_id", sa.BigInteger(), nullable=False),
        sa.Column("good_at", sa.BigInteger(), nullable=False),
        sa.Column("newest_at", sa.BigInteger(), nullable=False),
        sa.Column("newest_status", sa.String(length=16), nullable=False),
        sa.Column("newest_run_id", sa.BigInteger(), nullable=False),
        sa.Column("took_ms", sa.BigInteger(), nullable=False),
        sa.Column("usual_ms", sa.BigInteger(), nullable=False),
        sa.Column("skipped_since", sa.BigInteger(), nullable=False),
        sa.Column("skipped_count", sa.Integer(), nullable=False),
        sa.Column("waiting_count", sa.Integer(), nullable=False),
        sa.Column("waiting_since", sa.BigInteger(), nullable=False),
        sa.Column("long_since", sa.BigInteger(), nullable=False),
        sa.Column("strip", sa.String(length=2_000), nullable=False),
        sa.PrimaryKeyConstraint("job_id"),
        **TABLE_OPTIONS,
    )
    create_index("i_job_trouble", "warren_job_state", ["trouble"])
    create_table(
        "warren_error",
        sa.Column("job_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("error_key", sa.String(length=16), nullable=False),
        sa.Column("text", sa.String(length=400), nullable=False),
        sa.Column("since_at", sa.BigInteger(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "error_key"),
        **TABLE_OPTIONS,
    )
    create_index("i_error_last", "warren_error", ["last_at"])
    create_table(
        "warren_quarter",
        sa.Column("quarter_at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("app_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("succeeded", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("skipped", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("quarter_at", "app_id"),
        **TABLE_OPTIONS,
    )
    create_table(
        "warren_board",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("jobs_until", sa.Integer(), nullable=False),
        sa.Column("quarter_at", sa.BigInteger(), nullable=False),
        sa.Column("quarters_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **TABLE_OPTIONS,
    )
    create_table(
        "warren_event",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("app_id", sa.Integer(), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("since_at", sa.BigInteger(), nullable=False),
        sa.Column("until_at", sa.BigInteger(), nullable=True),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **TABLE_OPTIONS,
    )
    create_index("i_event_until", "warren_event", ["until_at"])
    create_table(
        "warren_outlook",
        sa.Column("app_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("content", LONG_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("app_id"),
        **TABLE_OPTIONS,
    )
    create_table(
        "warren_mute",
        sa.Column("job_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("silences", sa.SmallInteger(), nullable=False),
        sa.Column("error_key", sa.String(length=16), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("made_by", sa.String(length=64), nullable=False),
        sa.Column("until_at", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("job_id"),
        **TABLE_OPTIONS,
    )
