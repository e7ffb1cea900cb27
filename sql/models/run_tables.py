"""The tables of runs, deleted runs, the day report, alarms, and of what Prometheus reads."""

from datetime import date, datetime

from sqlalchemy import (
    BigInteger,
    Date,
    DateTime,
    Index,
    Integer,
    SmallInteger,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from warren.sql.dialects.supported import AUTO_ID, LONG_TEXT, TABLE_OPTIONS
from warren.sql.models.base import Model

#: Indexes that statements are told to use.
BY_TICK = "i_tick"
BY_STATUS = "i_status_due"
BY_DUE_SECOND = "i_trigger_time"
#: The attributes of BY_TICK, a unique key: no two runs have the same.
TICK_KEY = ("job_id", "scheduled_at", "origin_id", "shard_index", "attempt")


class Run(Model):
    """One attempt of one shard of one tick; its unique key keeps a tick from firing twice."""

    __tablename__ = "xxl_job_log"
    __table_args__ = (
        UniqueConstraint(*TICK_KEY, name=BY_TICK),
        # With the job, so that peeks pass over ten thousand waiting runs in 12 ms instead of 80;
        # behind the id, so that lists can still be read in its order.
        Index(BY_STATUS, "status", "job_group", "due_at", "id", "job_id"),
        Index("i_kill", "kill_requested_at"),
        Index(BY_DUE_SECOND, "trigger_time"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    app_id: Mapped[int] = mapped_column("job_group", Integer)
    job_id: Mapped[int] = mapped_column(Integer)
    address: Mapped[str | None] = mapped_column("executor_address", String(255))
    handler: Mapped[str | None] = mapped_column("executor_handler", String(255))
    param: Mapped[str | None] = mapped_column("executor_param", LONG_TEXT)
    sharding: Mapped[str | None] = mapped_column("executor_sharding_param", String(20))
    retries_left: Mapped[int] = mapped_column("executor_fail_retry_count", Integer, default=0)
    #: `due_at` and `finished_at` in whole seconds, for programs that read XXL-JOB's table.
    due_second: Mapped[datetime | None] = mapped_column("trigger_time", DateTime)
    trigger_code: Mapped[int] = mapped_column(Integer, default=0)
    trigger_message: Mapped[str | None] = mapped_column("trigger_msg", LONG_TEXT)
    finished_second: Mapped[datetime | None] = mapped_column("handle_time", DateTime)
    handle_code: Mapped[int] = mapped_column(Integer, default=0)
    message: Mapped[str | None] = mapped_column("handle_msg", LONG_TEXT)
    alarm_status: Mapped[int] = mapped_column(SmallInteger, default=0)
    status: Mapped[str] = mapped_column(String(16))
    kind: Mapped[str] = mapped_column(String(16))
    scheduled_at: Mapped[int] = mapped_column(BigInteger)
    due_at: Mapped[int] = mapped_column(BigInteger)
    #: The date that it is about; None of runs that were imported.
    run_date: Mapped[date | None] = mapped_column(Date)
    origin_id: Mapped[int] = mapped_column(BigInteger, default=0)
    shard_index: Mapped[int] = mapped_column(Integer, default=0)
    shard_total: Mapped[int] = mapped_column(Integer, default=1)
    attempt: Mapped[int] = mapped_column(Integer, default=0)
    #: How many earlier attempts of the shard may have started; others do not count for users.
    starts: Mapped[int] = mapped_column(Integer, default=0)
    redeliveries: Mapped[int] = mapped_column(SmallInteger, default=0)
    wanted_addresses: Mapped[str | None] = mapped_column(Text)
    script_version: Mapped[int | None] = mapped_column("glue_id", Integer)
    #: The run that a re-run repeats; its retries have it too.
    rerun_of: Mapped[int | None] = mapped_column(BigInteger)
    #: The run that called it; its retries have it too.
    called_by: Mapped[int | None] = mapped_column(BigInteger)
    #: The flow's run whose node it belongs to; its retries have it too.
    flow_run_id: Mapped[int | None] = mapped_column(BigInteger)
    #: The backfill that it belongs to; its retries and re-runs have it too.
    backfill_id: Mapped[int | None] = mapped_column(BigInteger)
    #: How many limits it holds until it ends; None = none.
    holds: Mapped[int | None] = mapped_column(SmallInteger)
    #: 1 = its success starts no children.
    without_children: Mapped[int | None] = mapped_column(SmallInteger)
    #: When it was decided that it runs although it is late; None if it was not late.
    released_at: Mapped[int | None] = mapped_column(BigInteger)
    routed_at: Mapped[int | None] = mapped_column(BigInteger)
    #: When it was routed before its trigger was sent again; None if that never happened.
    first_routed_at: Mapped[int | None] = mapped_column(BigInteger)
    routed_by: Mapped[str | None] = mapped_column(String(64))
    boot_id: Mapped[str | None] = mapped_column(String(40))
    #: The version of the code of that boot; None = it does not say.
    code_version: Mapped[str | None] = mapped_column(String(64))
    sent_at: Mapped[int | None] = mapped_column(BigInteger)
    started_at: Mapped[int | None] = mapped_column(BigInteger)
    finished_at: Mapped[int | None] = mapped_column(BigInteger)
    #: Its progress as its handler reported it, in JSON.
    progress: Mapped[str | None] = mapped_column(String(512))
    kill_requested_at: Mapped[int | None] = mapped_column(BigInteger)
    # MEDIUMTEXT, because an UPDATE with a join truncates longer values of TEXT without an error.
    log_tail: Mapped[str | None] = mapped_column(LONG_TEXT)
    #: What its handler returned, as JSON; None if it returned nothing.
    result: Mapped[str | None] = mapped_column(LONG_TEXT)
    late_status: Mapped[str | None] = mapped_column(String(16))
    #: The reasons behind the two messages, as JSON; None if a message is other text.
    trigger_why: Mapped[str | None] = mapped_column(LONG_TEXT)
    message_why: Mapped[str | None] = mapped_column(LONG_TEXT)
    #: The trace in which it was triggered, in the format of W3C Trace Context.
    traceparent: Mapped[str | None] = mapped_column(String(55))


class Call(Model):
    """A run that another run called; the primary key keeps the caller's retries from repeating it.

    `origin_id` and the rest of the key are the tick and shard of the caller; those of a re-run are
    of the run that it repeats. `number` counts the calls of a run from 1 on.
    """

    __tablename__ = "warren_call"
    __table_args__ = (Index("i_called_by", "called_by"), TABLE_OPTIONS)

    job_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    scheduled_at: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    origin_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    shard_index: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    called_by: Mapped[int] = mapped_column(BigInteger)
    run_id: Mapped[int] = mapped_column(BigInteger)


class FlowNode(Model):
    """One node of one run of a flow; its id is the `origin_id` of the node's runs.

    `outcome` is set once, when the node has ended. `kept_of` is the id that it had in the run that
    is
    repeated: of a KEPT node, which became `kept_outcome` there, or of one that runs in any case.
    """

    __tablename__ = "warren_flow_node"
    __table_args__ = (
        UniqueConstraint("flow_run_id", "node", name="i_flow_node"),
        Index("i_flow_node_open", "outcome", "begun_at"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    flow_run_id: Mapped[int] = mapped_column(BigInteger)
    node: Mapped[str] = mapped_column(String(64))
    job_id: Mapped[int] = mapped_column(Integer)
    outcome: Mapped[str | None] = mapped_column(String(16))
    kept_outcome: Mapped[str | None] = mapped_column(String(16))
    kept_of: Mapped[int | None] = mapped_column(BigInteger)
    #: How many runs it has, each a shard; None = it has not begun.
    shards: Mapped[int | None] = mapped_column(Integer)
    #: When its runs were planned, and when it was over.
    begun_at: Mapped[int | None] = mapped_column(BigInteger)
    ended_at: Mapped[int | None] = mapped_column(BigInteger)
    reason: Mapped[str | None] = mapped_column(LONG_TEXT)
    #: The reason behind `reason`, as JSON.
    why: Mapped[str | None] = mapped_column(LONG_TEXT)
    #: What it returned, as JSON: of a node with `each`, a list with the result of each run.
    result: Mapped[str | None] = mapped_column(LONG_TEXT)


class Purge(Model):
    """How many final runs of a job one user has deleted, up to which tick."""

    __tablename__ = "warren_purge"
    __table_args__ = (Index("i_purge_job", "job_id"), TABLE_OPTIONS)

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    job_id: Mapped[int] = mapped_column(Integer)
    to_at: Mapped[int] = mapped_column(BigInteger)
    count: Mapped[int] = mapped_column(Integer)
    purged_at: Mapped[int] = mapped_column(BigInteger)
    purged_by: Mapped[str] = mapped_column(String(64))


class DayReport(Model):
    """Runs of one day by outcome; deleted runs are included, and also counted separately."""

    __tablename__ = "xxl_job_log_report"
    __table_args__ = (UniqueConstraint("trigger_day", name="i_trigger_day"), TABLE_OPTIONS)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    day: Mapped[datetime | None] = mapped_column("trigger_day", DateTime)
    running: Mapped[int] = mapped_column("running_count", Integer, default=0)
    succeeded: Mapped[int] = mapped_column("suc_count", Integer, default=0)
    failed: Mapped[int] = mapped_column("fail_count", Integer, default=0)
    skipped: Mapped[int] = mapped_column("skip_count", Integer, default=0)
    cleared_succeeded: Mapped[int] = mapped_column("cleared_suc", Integer, default=0)
    cleared_failed: Mapped[int] = mapped_column("cleared_fail", Integer, default=0)
    cleared_skipped: Mapped[int] = mapped_column("cleared_skip", Integer, default=0)
    update_time: Mapped[datetime | None] = mapped_column(DateTime)


class AppDay(Model):
    """The runs of one app in a day's report; written under the lock of the day's row."""

    __tablename__ = "warren_app_day"
    __table_args__ = (Index("i_app_day", "trigger_day"), TABLE_OPTIONS)

    app_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    day: Mapped[datetime] = mapped_column("trigger_day", DateTime, primary_key=True)
    running: Mapped[int] = mapped_column("running_count", Integer, default=0)
    succeeded: Mapped[int] = mapped_column("suc_count", Integer, default=0)
    failed: Mapped[int] = mapped_column("fail_count", Integer, default=0)
    skipped: Mapped[int] = mapped_column("skip_count", Integer, default=0)
    cleared_succeeded: Mapped[int] = mapped_column("cleared_suc", Integer, default=0)
    cleared_failed: Mapped[int] = mapped_column("cleared_fail", Integer, default=0)
    cleared_skipped: Mapped[int] = mapped_column("cleared_skip", Integer, default=0)


class MetricCount(Model):
    """One number that only grows, of one app: of a status, of a bucket, or a sum."""

    __tablename__ = "warren_metric"
    __table_args__ = (TABLE_OPTIONS,)

    name: Mapped[str] = mapped_column(String(16), primary_key=True)
    app_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    label: Mapped[str] = mapped_column(String(16), primary_key=True)
    count: Mapped[int] = mapped_column(BigInteger)


class JobSuccess(Model):
    """When a run of a job last succeeded; only of jobs that have metrics of their own."""

    __tablename__ = "warren_job_success"
    __table_args__ = (TABLE_OPTIONS,)

    job_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    succeeded_at: Mapped[int] = mapped_column(BigInteger)


#: An index that statements are told to use.
BY_CHANNEL = "i_alarm_channel"


class Alarm(Model):
    """A message to one target about one job or app.

    `subject_key` identifies what it is about, such as a tick or an absence, so that it is sent to a
    target only once.
    """

    __tablename__ = "warren_alarm"
    __table_args__ = (
        UniqueConstraint("subject_key", "channel", "target_hash", name="i_alarm_subject"),
        Index("i_alarm_next", "status", "next_try_at"),
        Index(BY_CHANNEL, "status", "channel", "next_try_at"),
        Index("i_alarm_app", "status", "app_id"),
        Index("i_alarm_job", "job_id", "status", "created_at"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    subject_key: Mapped[str] = mapped_column(String(100))
    channel: Mapped[str] = mapped_column(String(16))
    target: Mapped[str] = mapped_column(String(512))
    target_hash: Mapped[str] = mapped_column(String(32))
    status: Mapped[str] = mapped_column(String(16))
    job_id: Mapped[int] = mapped_column(Integer, default=0)
    app_id: Mapped[int] = mapped_column(Integer, default=0)
    run_id: Mapped[int] = mapped_column(BigInteger, default=0)
    content: Mapped[str] = mapped_column(LONG_TEXT)
    created_at: Mapped[int] = mapped_column(BigInteger)
    next_try_at: Mapped[int] = mapped_column(BigInteger)
    tries: Mapped[int] = mapped_column(Integer, default=0)
    sent_at: Mapped[int | None] = mapped_column(BigInteger)
    answer: Mapped[str | None] = mapped_column(String(255))
    error: Mapped[str | None] = mapped_column(String(512))


class Watch(Model):
    """When to check a job with expectations next, and what the last check found.

    `started_until` and `finished_until` are the last due times that were judged.
    """

    __tablename__ = "warren_watch"
    __table_args__ = (Index("i_watch_next", "next_look_at"), TABLE_OPTIONS)

    job_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    #: 0 = at once.
    next_look_at: Mapped[int] = mapped_column(BigInteger, default=0)
    #: Since when the job is watched: when it was enabled, or its expectations changed.
    since_at: Mapped[int] = mapped_column(BigInteger, default=0)
    started_until: Mapped[int] = mapped_column(BigInteger, default=0)
    finished_until: Mapped[int] = mapped_column(BigInteger, default=0)
    last_success_at: Mapped[int] = mapped_column(BigInteger, default=0)
    usual_ms: Mapped[int] = mapped_column(BigInteger, default=0)
    #: How long a run may take; 0 = not watched.
    longest_ms: Mapped[int] = mapped_column(BigInteger, default=0)


class Incident(Model):
    """A broken expectation of a job, from the due time that broke it until it is kept again."""

    __tablename__ = "warren_incident"
    __table_args__ = (
        UniqueConstraint("job_id", "rule", "due_at", name="i_incident"),
        Index("i_incident_open", "is_open", "remind_at"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    job_id: Mapped[int] = mapped_column(Integer)
    app_id: Mapped[int] = mapped_column(Integer)
    rule: Mapped[str] = mapped_column(String(16))
    due_at: Mapped[int] = mapped_column(BigInteger)
    #: What was expected, such as `5m`.
    expected: Mapped[str] = mapped_column(String(64))
    opened_at: Mapped[int] = mapped_column(BigInteger)
    is_open: Mapped[int] = mapped_column(SmallInteger, default=1)
    closed_at: Mapped[int | None] = mapped_column(BigInteger)
    #: Why it closed: a name of `ClosedBy`.
    closed_by: Mapped[str | None] = mapped_column(String(16))
    #: When to remind of it.
    remind_at: Mapped[int] = mapped_column(BigInteger)
    acked_at: Mapped[int | None] = mapped_column(BigInteger)
    acked_by: Mapped[str | None] = mapped_column(String(64))
    ack_note: Mapped[str | None] = mapped_column(String(255))
    #: Until when it stays silent; None = until it closes.
    ack_until: Mapped[int | None] = mapped_column(BigInteger)


class StoredLog(Model):
    """The log of a run in the log store; the row is there before anything can be stored.

    `key` is its name in the store; those of its parts have a number behind it. `size` is the log's
    length, `packed` that of what is stored. `fault` says why it was not stored. From `delete_at`
    on, schedulers delete it: the run is gone, or has another log.
    """

    __tablename__ = "warren_stored_log"
    __table_args__ = (Index("i_stored_log_delete", "delete_at"), TABLE_OPTIONS)

    run_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    identity: Mapped[int] = mapped_column(BigInteger)
    key: Mapped[str] = mapped_column("log_key", String(255))
    state: Mapped[str] = mapped_column(String(16))
    size: Mapped[int] = mapped_column("log_size", BigInteger, default=0)
    packed: Mapped[int] = mapped_column(BigInteger, default=0)
    #: How many parts of the log of a run that has not ended are stored.
    parts: Mapped[int] = mapped_column(Integer, default=0)
    told_at: Mapped[int] = mapped_column(BigInteger)
    delete_at: Mapped[int | None] = mapped_column(BigInteger)
    fault: Mapped[str | None] = mapped_column(String(500))
