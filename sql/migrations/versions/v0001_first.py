"""The schema: XXL-JOB's eight tables and Warren's own, with the rows that a cluster begins with."""

import sqlalchemy as sa
from alembic import op

from warren.sql.dialects.supported import (
    AUTO_ID,
    LASTING_ID_OPTIONS,
    LONG_TEXT,
    TABLE_OPTIONS,
    named,
)
from warren.sql.schema.fresh import first_rows

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create every table, a run counter at 1, a new cluster id, and an uptime that begins now."""
    _make_tables()
    for statement in first_rows(named(op.get_context().dialect.name)):
        op.execute(statement)


def _make_tables() -> None:
    op.create_table(
        "warren_alarm",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("subject_key", sa.String(length=100), nullable=False),
        sa.Column("channel", sa.String(length=16), nullable=False),
        sa.Column("target", sa.String(length=512), nullable=False),
        sa.Column("target_hash", sa.String(length=32), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("app_id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("content", LONG_TEXT, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("next_try_at", sa.BigInteger(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
        sa.Column("answer", sa.String(length=255), nullable=True),
        sa.Column("error", sa.String(length=512), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("subject_key", "channel", "target_hash", name="i_alarm_subject"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_alarm_app", "warren_alarm", ["status", "app_id"])
    op.create_index("i_alarm_channel", "warren_alarm", ["status", "channel", "next_try_at"])
    op.create_index("i_alarm_job", "warren_alarm", ["job_id", "status", "created_at"])
    op.create_index("i_alarm_next", "warren_alarm", ["status", "next_try_at"])
    op.create_table(
        "warren_app_day",
        sa.Column("app_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("trigger_day", sa.DateTime(), nullable=False),
        sa.Column("running_count", sa.Integer(), nullable=False),
        sa.Column("suc_count", sa.Integer(), nullable=False),
        sa.Column("fail_count", sa.Integer(), nullable=False),
        sa.Column("skip_count", sa.Integer(), nullable=False),
        sa.Column("cleared_suc", sa.Integer(), nullable=False),
        sa.Column("cleared_fail", sa.Integer(), nullable=False),
        sa.Column("cleared_skip", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("app_id", "trigger_day"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_app_day", "warren_app_day", ["trigger_day"])
    op.create_table(
        "warren_backfill",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("backfill_key", sa.String(length=64), nullable=True),
        sa.Column("from_date", sa.Date(), nullable=True),
        sa.Column("to_date", sa.Date(), nullable=True),
        sa.Column("schedule", LONG_TEXT, nullable=False),
        sa.Column("spans", LONG_TEXT, nullable=False),
        sa.Column("ticks", sa.Integer(), nullable=False),
        sa.Column("decided", sa.Integer(), nullable=False),
        sa.Column("cursor_at", sa.BigInteger(), nullable=True),
        sa.Column("left_out", LONG_TEXT, nullable=False),
        sa.Column("open_ticks", LONG_TEXT, nullable=False),
        sa.Column("at_once", sa.Integer(), nullable=False),
        sa.Column("newest_first", sa.SmallInteger(), nullable=False),
        sa.Column("selection", sa.String(length=16), nullable=False),
        sa.Column("stop_on_failure", sa.SmallInteger(), nullable=False),
        sa.Column("without_children", sa.SmallInteger(), nullable=True),
        sa.Column("instead", sa.SmallInteger(), nullable=False),
        sa.Column("param", LONG_TEXT, nullable=True),
        sa.Column("succeeded", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("skipped", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("state_reason", sa.String(length=512), nullable=True),
        sa.Column("state_why", LONG_TEXT, nullable=True),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("made_by", sa.String(length=64), nullable=False),
        sa.Column("moved_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job_id", "backfill_key", name="i_backfill_key"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_backfill_ended", "warren_backfill", ["ended_at"])
    op.create_table(
        "warren_call",
        sa.Column("job_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("scheduled_at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("origin_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("shard_index", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("called_by", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "scheduled_at", "origin_id", "shard_index", "number"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_called_by", "warren_call", ["called_by"])
    op.create_table(
        "warren_catalogue",
        sa.Column("fingerprint", sa.String(length=32), nullable=False),
        sa.Column("contents", LONG_TEXT, nullable=False),
        sa.Column("told_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("fingerprint"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "warren_cluster",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("cluster_id", sa.String(length=36), nullable=False),
        sa.Column("secret_fingerprint", sa.String(length=64), nullable=True),
        sa.Column("other_fingerprint", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "warren_executor_load",
        sa.Column("executor_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("minute_at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("running", sa.Integer(), nullable=False),
        sa.Column("waiting", sa.Integer(), nullable=False),
        sa.Column("cpu_percent", sa.SmallInteger(), nullable=False),
        sa.Column("memory_percent", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("executor_id", "minute_at"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_load_minute", "warren_executor_load", ["minute_at"])
    op.create_table(
        "warren_favourite",
        sa.Column("user_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("user_id", "job_id"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_favourite_job", "warren_favourite", ["job_id"])
    op.create_table(
        "warren_filter",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("page", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("query", sa.String(length=1024), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("user_id", "page", "name", name="i_filter_name"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "warren_flow_node",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("flow_run_id", sa.BigInteger(), nullable=False),
        sa.Column("node", sa.String(length=64), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("kept_outcome", sa.String(length=16), nullable=True),
        sa.Column("kept_of", sa.BigInteger(), nullable=True),
        sa.Column("shards", sa.Integer(), nullable=True),
        sa.Column("begun_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("reason", LONG_TEXT, nullable=True),
        sa.Column("why", LONG_TEXT, nullable=True),
        sa.Column("result", LONG_TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("flow_run_id", "node", name="i_flow_node"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_flow_node_open", "warren_flow_node", ["outcome", "begun_at"])
    op.create_table(
        "warren_flow_job",
        sa.Column("flow_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("flow_id", "job_id"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_flow_job", "warren_flow_job", ["job_id"])
    op.create_table(
        "warren_guess",
        sa.Column("subject", sa.String(length=80), nullable=False),
        sa.Column("full_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("subject"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "warren_calendar",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("weekend", sa.String(length=32), nullable=False),
        sa.Column("days", LONG_TEXT, nullable=False),
        sa.Column("until_date", sa.Date(), nullable=False),
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("effective_at", sa.BigInteger(), nullable=False),
        sa.Column("made_by", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name", "number", name="i_calendar"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "warren_history",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("changed_by", sa.String(length=64), nullable=False),
        sa.Column("watermark", sa.BigInteger(), nullable=False),
        sa.Column("enabled", sa.SmallInteger(), nullable=False),
        sa.Column("schedule_type", sa.String(length=50), nullable=False),
        sa.Column("schedule_conf", sa.String(length=128), nullable=True),
        sa.Column("schedule_options", sa.String(length=512), nullable=True),
        sa.Column("timezone", sa.String(length=64), nullable=False),
        sa.Column("misfire_strategy", sa.String(length=50), nullable=False),
        sa.Column("late_limit", sa.Integer(), nullable=False),
        sa.Column("anchor", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_history_job", "warren_history", ["job_id", "id"])
    op.create_table(
        "warren_hold",
        sa.Column("limit_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("weight", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("limit_id", "run_id"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_hold_run", "warren_hold", ["run_id"])
    op.create_table(
        "warren_idempotency",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("idempotency_key", sa.String(length=128), nullable=False),
        sa.Column("body_hash", sa.String(length=64), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("user_id", "idempotency_key", name="i_idempotency"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_idempotency_at", "warren_idempotency", ["created_at"])
    op.create_table(
        "warren_import",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("source", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("source_id", sa.BigInteger(), nullable=False),
        sa.Column("target_id", sa.Integer(), nullable=False),
        sa.Column("there", sa.String(length=32), nullable=False),
        sa.Column("here", sa.String(length=32), nullable=False),
        sa.Column("imported_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("source", "kind", "source_id", name="i_import_source"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_import_target", "warren_import", ["kind", "target_id"])
    op.create_table(
        "warren_incident",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("app_id", sa.Integer(), nullable=False),
        sa.Column("rule", sa.String(length=16), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("expected", sa.String(length=64), nullable=False),
        sa.Column("opened_at", sa.BigInteger(), nullable=False),
        sa.Column("is_open", sa.SmallInteger(), nullable=False),
        sa.Column("closed_at", sa.BigInteger(), nullable=True),
        sa.Column("closed_by", sa.String(length=16), nullable=True),
        sa.Column("remind_at", sa.BigInteger(), nullable=False),
        sa.Column("acked_at", sa.BigInteger(), nullable=True),
        sa.Column("acked_by", sa.String(length=64), nullable=True),
        sa.Column("ack_note", sa.String(length=255), nullable=True),
        sa.Column("ack_until", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job_id", "rule", "due_at", name="i_incident"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_incident_open", "warren_incident", ["is_open", "remind_at"])
    op.create_table(
        "warren_job_child",
        sa.Column("job_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("child_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "position"),
        sa.UniqueConstraint("job_id", "child_id", name="i_job_child"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_child", "warren_job_child", ["child_id"])
    op.create_table(
        "warren_job_success",
        sa.Column("job_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("succeeded_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job_id"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "warren_limit",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=True),
        sa.Column("job_id", sa.Integer(), nullable=True),
        sa.Column("at_once", sa.Integer(), nullable=True),
        sa.Column("rate", sa.Integer(), nullable=True),
        sa.Column("per_ms", sa.BigInteger(), nullable=True),
        sa.Column("tokens", sa.Double(), nullable=True),
        sa.Column("refilled_at", sa.BigInteger(), nullable=True),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name", name="i_limit_name"),
        sa.UniqueConstraint("job_id", name="i_limit_job"),
        **LASTING_ID_OPTIONS,
        **TABLE_OPTIONS,
    )
    op.create_table(
        "warren_metric",
        sa.Column("name", sa.String(length=16), nullable=False),
        sa.Column("app_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("label", sa.String(length=16), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", "app_id", "label"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "warren_pause",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("app_id", sa.Integer(), nullable=False),
        sa.Column("since_at", sa.BigInteger(), nullable=False),
        sa.Column("until_at", sa.BigInteger(), nullable=True),
        sa.Column("paused_by", sa.String(length=64), nullable=False),
        sa.Column("reason", sa.String(length=200), nullable=False),
        sa.Column("is_settled", sa.SmallInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_pause_open", "warren_pause", ["is_settled", "app_id"])
    op.create_table(
        "warren_purge",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("to_at", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("purged_at", sa.BigInteger(), nullable=False),
        sa.Column("purged_by", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_purge_job", "warren_purge", ["job_id"])
    op.create_table(
        "warren_route_memory",
        sa.Column("job_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("memory", LONG_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("job_id"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "warren_sequence",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("next_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "warren_session",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("address", sa.String(length=64), nullable=False),
        sa.Column("agent", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("token_hash", name="i_session_token"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_session_user", "warren_session", ["user_id"])
    op.create_table(
        "warren_skip",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("from_at", sa.BigInteger(), nullable=False),
        sa.Column("to_at", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("reason", sa.String(length=255), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("why", LONG_TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_skip_end", "warren_skip", ["to_at"])
    op.create_index("i_skip_job", "warren_skip", ["job_id", "from_at"])
    op.create_table(
        "warren_token",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=50), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("scopes", sa.String(length=128), nullable=False),
        sa.Column("permission", sa.Text(), nullable=True),
        sa.Column("jobs", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=64), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=True),
        sa.Column("used_from", sa.String(length=64), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_by", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("token_hash", name="i_token_hash"),
        sa.UniqueConstraint("name", name="i_token_name"),
        **LASTING_ID_OPTIONS,
        **TABLE_OPTIONS,
    )
    op.create_index("i_token_user", "warren_token", ["user_id"])
    op.create_table(
        "warren_trail",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("who", sa.String(length=64), nullable=False),
        sa.Column("origin", sa.String(length=64), nullable=False),
        sa.Column("action", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("object_id", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("before", LONG_TEXT, nullable=True),
        sa.Column("after", LONG_TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_trail_action", "warren_trail", ["action", "object_id", "id"])
    op.create_index("i_trail_at", "warren_trail", ["at"])
    op.create_index("i_trail_object", "warren_trail", ["kind", "name", "id"])
    op.create_index("i_trail_who", "warren_trail", ["who", "id"])
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
    op.create_index("i_uptime_open", "warren_uptime", ["is_settled"])
    op.create_table(
        "warren_watch",
        sa.Column("job_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("next_look_at", sa.BigInteger(), nullable=False),
        sa.Column("since_at", sa.BigInteger(), nullable=False),
        sa.Column("started_until", sa.BigInteger(), nullable=False),
        sa.Column("finished_until", sa.BigInteger(), nullable=False),
        sa.Column("last_success_at", sa.BigInteger(), nullable=False),
        sa.Column("usual_ms", sa.BigInteger(), nullable=False),
        sa.Column("longest_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job_id"),
        **TABLE_OPTIONS,
    )
    op.create_index("i_watch_next", "warren_watch", ["next_look_at"])
    op.create_table(
        "xxl_job_group",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("app_name", sa.String(length=64), nullable=False),
        sa.Column("title", sa.String(length=64), nullable=False),
        sa.Column("address_type", sa.SmallInteger(), nullable=False),
        sa.Column("address_list", sa.Text(), nullable=True),
        sa.Column("alarm_email", sa.String(length=255), nullable=True),
        sa.Column("alarm_webhook", sa.String(length=512), nullable=True),
        sa.Column("alarm_style", sa.String(length=16), nullable=True),
        sa.Column("webhook_url", sa.String(length=512), nullable=True),
        sa.Column("webhook_when", sa.String(length=16), nullable=True),
        sa.Column("route", sa.String(length=50), nullable=True),
        sa.Column("update_time", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("app_name", name="i_app_name"),
        **LASTING_ID_OPTIONS,
        **TABLE_OPTIONS,
    )
    op.create_table(
        "xxl_job_info",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_group", sa.Integer(), nullable=False),
        sa.Column("job_desc", sa.String(length=255), nullable=False),
        sa.Column("add_time", sa.DateTime(), nullable=True),
        sa.Column("update_time", sa.DateTime(), nullable=True),
        sa.Column("author", sa.String(length=64), nullable=True),
        sa.Column("tags", sa.String(length=128), nullable=True),
        sa.Column("alarm_email", sa.String(length=255), nullable=True),
        sa.Column("alarm_webhook", sa.String(length=512), nullable=True),
        sa.Column("alarm_style", sa.String(length=16), nullable=True),
        sa.Column("webhook_url", sa.String(length=512), nullable=True),
        sa.Column("webhook_when", sa.String(length=16), nullable=True),
        sa.Column("expect", sa.String(length=255), nullable=True),
        sa.Column("schedule_type", sa.String(length=50), nullable=False),
        sa.Column("schedule_conf", sa.String(length=128), nullable=True),
        sa.Column("schedule_options", sa.String(length=512), nullable=True),
        sa.Column("timezone", sa.String(length=64), nullable=True),
        sa.Column("run_date_days", sa.Integer(), nullable=False),
        sa.Column("run_date_months", sa.Integer(), nullable=False),
        sa.Column("run_date_workdays", sa.Integer(), nullable=False),
        sa.Column("run_date_calendar", sa.String(length=32), nullable=True),
        sa.Column("misfire_strategy", sa.String(length=50), nullable=False),
        sa.Column("late_limit", sa.Integer(), nullable=False),
        sa.Column("catch_up_within", sa.Integer(), nullable=False),
        sa.Column("catch_up_most", sa.Integer(), nullable=False),
        sa.Column("executor_route_strategy", sa.String(length=50), nullable=False),
        sa.Column("executor_handler", sa.String(length=255), nullable=True),
        sa.Column("executor_param", LONG_TEXT, nullable=True),
        sa.Column("param_template", LONG_TEXT, nullable=True),
        sa.Column("flow", LONG_TEXT, nullable=True),
        sa.Column("executor_block_strategy", sa.String(length=50), nullable=False),
        sa.Column("executor_timeout", sa.Integer(), nullable=False),
        sa.Column("executor_fail_retry_count", sa.Integer(), nullable=False),
        sa.Column("retry_delay", sa.Integer(), nullable=False),
        sa.Column("retry_backoff", sa.String(length=16), nullable=False),
        sa.Column("retry_most", sa.Integer(), nullable=False),
        sa.Column("retry_jitter", sa.SmallInteger(), nullable=False),
        sa.Column("delivery", sa.String(length=16), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("scope", sa.String(length=16), nullable=False),
        sa.Column("limits", sa.String(length=255), nullable=True),
        sa.Column("priority", sa.String(length=16), nullable=False),
        sa.Column("max_waiting", sa.Integer(), nullable=False),
        sa.Column("process", sa.String(length=16), nullable=False),
        sa.Column("glue_type", sa.String(length=50), nullable=False),
        sa.Column("glue_source", LONG_TEXT, nullable=True),
        sa.Column("glue_remark", sa.String(length=128), nullable=True),
        sa.Column("glue_updatetime", sa.DateTime(), nullable=True),
        sa.Column("glue_id", sa.Integer(), nullable=True),
        sa.Column("child_jobid", sa.String(length=255), nullable=True),
        sa.Column("trigger_status", sa.SmallInteger(), nullable=False),
        sa.Column("trigger_last_time", sa.BigInteger(), nullable=False),
        sa.Column("trigger_next_time", sa.BigInteger(), nullable=False),
        sa.Column("stop_reason", sa.String(length=512), nullable=True),
        sa.Column("stop_why", LONG_TEXT, nullable=True),
        sa.Column("declared_in", sa.String(length=255), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job_group", "job_desc", name="i_group_name"),
        **LASTING_ID_OPTIONS,
        **TABLE_OPTIONS,
    )
    op.create_index(
        "i_group_status_next", "xxl_job_info", ["job_group", "trigger_status", "trigger_next_time"]
    )
    op.create_index("i_limits", "xxl_job_info", ["limits"])
    op.create_index("i_priority", "xxl_job_info", ["priority", "job_group"])
    op.create_index(
        "i_search",
        "xxl_job_info",
        ["job_group", "job_desc", "executor_handler", "author", "tags", "trigger_status"],
    )
    op.create_index("i_status_next", "xxl_job_info", ["trigger_status", "trigger_next_time"])
    op.create_table(
        "xxl_job_lock",
        sa.Column("lock_name", sa.String(length=50), nullable=False),
        sa.Column("holder", sa.String(length=64), nullable=True),
        sa.Column("until_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("lock_name"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "xxl_job_log",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("job_group", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("executor_address", sa.String(length=255), nullable=True),
        sa.Column("executor_handler", sa.String(length=255), nullable=True),
        sa.Column("executor_param", LONG_TEXT, nullable=True),
        sa.Column("executor_sharding_param", sa.String(length=20), nullable=True),
        sa.Column("executor_fail_retry_count", sa.Integer(), nullable=False),
        sa.Column("trigger_time", sa.DateTime(), nullable=True),
        sa.Column("trigger_code", sa.Integer(), nullable=False),
        sa.Column("trigger_msg", LONG_TEXT, nullable=True),
        sa.Column("handle_time", sa.DateTime(), nullable=True),
        sa.Column("handle_code", sa.Integer(), nullable=False),
        sa.Column("handle_msg", LONG_TEXT, nullable=True),
        sa.Column("alarm_status", sa.SmallInteger(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("scheduled_at", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("run_date", sa.Date(), nullable=True),
        sa.Column("origin_id", sa.BigInteger(), nullable=False),
        sa.Column("shard_index", sa.Integer(), nullable=False),
        sa.Column("shard_total", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("starts", sa.Integer(), nullable=False),
        sa.Column("redeliveries", sa.SmallInteger(), nullable=False),
        sa.Column("wanted_addresses", sa.Text(), nullable=True),
        sa.Column("glue_id", sa.Integer(), nullable=True),
        sa.Column("rerun_of", sa.BigInteger(), nullable=True),
        sa.Column("called_by", sa.BigInteger(), nullable=True),
        sa.Column("flow_run_id", sa.BigInteger(), nullable=True),
        sa.Column("backfill_id", sa.BigInteger(), nullable=True),
        sa.Column("holds", sa.SmallInteger(), nullable=True),
        sa.Column("without_children", sa.SmallInteger(), nullable=True),
        sa.Column("released_at", sa.BigInteger(), nullable=True),
        sa.Column("routed_at", sa.BigInteger(), nullable=True),
        sa.Column("first_routed_at", sa.BigInteger(), nullable=True),
        sa.Column("routed_by", sa.String(length=64), nullable=True),
        sa.Column("boot_id", sa.String(length=40), nullable=True),
        sa.Column("code_version", sa.String(length=64), nullable=True),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("progress", sa.String(length=512), nullable=True),
        sa.Column("kill_requested_at", sa.BigInteger(), nullable=True),
        sa.Column("log_tail", LONG_TEXT, nullable=True),
        sa.Column("result", LONG_TEXT, nullable=True),
        sa.Column("late_status", sa.String(length=16), nullable=True),
        sa.Column("trigger_why", LONG_TEXT, nullable=True),
        sa.Column("message_why", LONG_TEXT, nullable=True),
        sa.Column("traceparent", sa.String(length=55), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint(
            "job_id", "scheduled_at", "origin_id", "shard_index", "attempt", name="i_tick"
        ),
        **TABLE_OPTIONS,
    )
    op.create_index("i_kill", "xxl_job_log", ["kill_requested_at"])
    op.create_index(
        "i_status_due", "xxl_job_log", ["status", "job_group", "due_at", "id", "job_id"]
    )
    op.create_index("i_trigger_time", "xxl_job_log", ["trigger_time"])
    op.create_table(
        "xxl_job_log_report",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("trigger_day", sa.DateTime(), nullable=True),
        sa.Column("running_count", sa.Integer(), nullable=False),
        sa.Column("suc_count", sa.Integer(), nullable=False),
        sa.Column("fail_count", sa.Integer(), nullable=False),
        sa.Column("skip_count", sa.Integer(), nullable=False),
        sa.Column("cleared_suc", sa.Integer(), nullable=False),
        sa.Column("cleared_fail", sa.Integer(), nullable=False),
        sa.Column("cleared_skip", sa.Integer(), nullable=False),
        sa.Column("update_time", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("trigger_day", name="i_trigger_day"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "xxl_job_logglue",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("glue_type", sa.String(length=50), nullable=True),
        sa.Column("glue_source", LONG_TEXT, nullable=True),
        sa.Column("glue_remark", sa.String(length=128), nullable=False),
        sa.Column("author", sa.String(length=64), nullable=True),
        sa.Column("add_time", sa.DateTime(), nullable=True),
        sa.Column("update_time", sa.DateTime(), nullable=True),
        sa.Column("number", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **LASTING_ID_OPTIONS,
        **TABLE_OPTIONS,
    )
    op.create_index("i_job_id", "xxl_job_logglue", ["job_id"])
    op.create_table(
        "xxl_job_registry",
        sa.Column("id", AUTO_ID, nullable=False),
        sa.Column("registry_group", sa.String(length=50), nullable=False),
        sa.Column("registry_key", sa.String(length=64), nullable=False),
        sa.Column("registry_value", sa.String(length=255), nullable=False),
        sa.Column("update_time", sa.DateTime(), nullable=True),
        sa.Column("boot_id", sa.String(length=40), nullable=False),
        sa.Column("boot_at", sa.BigInteger(), nullable=False),
        sa.Column("beat_at", sa.BigInteger(), nullable=False),
        sa.Column("load", LONG_TEXT, nullable=True),
        sa.Column("draining", sa.SmallInteger(), nullable=False),
        sa.Column("drain_asked_at", sa.BigInteger(), nullable=False),
        sa.Column("account", sa.String(length=255), nullable=True),
        sa.Column("catalogue", sa.String(length=32), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("registry_group", "registry_key", "registry_value", name="i_g_k_v"),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "xxl_job_user",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("username", sa.String(length=50), nullable=False),
        sa.Column("password", sa.String(length=255), nullable=False),
        sa.Column("token", sa.String(length=100), nullable=True),
        sa.Column("role", sa.SmallInteger(), nullable=False),
        sa.Column("permission", sa.Text(), nullable=True),
        sa.Column("may_edit_glue", sa.SmallInteger(), nullable=False),
        sa.Column("must_change_password", sa.SmallInteger(), nullable=False),
        sa.Column("is_disabled", sa.SmallInteger(), nullable=False),
        sa.Column("locale", sa.String(length=16), nullable=True),
        sa.Column("timezone", sa.String(length=64), nullable=True),
        sa.Column("theme", sa.String(length=16), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("username", name="i_username"),
        **LASTING_ID_OPTIONS,
        **TABLE_OPTIONS,
    )
