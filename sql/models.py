"""The tables as thin maps: XXL-JOB's eight by their names, and Warren's own.

Columns that XXL-JOB has keep its names and meanings. `*_at` of a run and of Warren's own tables are
epoch milliseconds in UTC; DATETIME columns are XXL-JOB's and hold UTC too.
"""

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    DateTime,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.mysql import MEDIUMTEXT
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

LongText = Text().with_variant(MEDIUMTEXT(), "mysql")
AutoId = BigInteger().with_variant(Integer, "sqlite")

_TABLE_OPTIONS = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
}


class Model(DeclarativeBase):
    """Root of all tables."""

    metadata = MetaData()


class App(Model):
    """A named group of executors; `address_type` 0 = they register themselves, 1 = a fixed list."""

    __tablename__ = "xxl_job_group"
    __table_args__ = (
        UniqueConstraint("app_name", name="i_app_name"),
        # The runs of a deleted app keep its id: no other app may get it.
        {**_TABLE_OPTIONS, "sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    app_name: Mapped[str] = mapped_column(String(64))
    title: Mapped[str] = mapped_column(String(64))
    address_type: Mapped[int] = mapped_column(SmallInteger, default=0)
    address_list: Mapped[str | None] = mapped_column(Text)
    alarm_email: Mapped[str | None] = mapped_column(String(255))
    alarm_webhook: Mapped[str | None] = mapped_column(String(512))
    alarm_style: Mapped[str | None] = mapped_column(String(16))
    update_time: Mapped[datetime | None] = mapped_column(DateTime)


class Job(Model):
    """What to run, when, where, and what to do when it fails; `job_desc` is its name."""

    __tablename__ = "xxl_job_info"
    __table_args__ = (
        UniqueConstraint("job_group", "job_desc", name="i_group_name"),
        Index("i_status_next", "trigger_status", "trigger_next_time"),
        Index("i_group_status_next", "job_group", "trigger_status", "trigger_next_time"),
        Index("i_search", "job_group", "job_desc", "executor_handler", "author", "trigger_status"),
        # SQLite would give a deleted job's id, and with it its ticks, to the next job.
        {**_TABLE_OPTIONS, "sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    job_group: Mapped[int] = mapped_column(Integer)
    job_desc: Mapped[str] = mapped_column(String(255))
    add_time: Mapped[datetime | None] = mapped_column(DateTime)
    update_time: Mapped[datetime | None] = mapped_column(DateTime)
    author: Mapped[str | None] = mapped_column(String(64))
    alarm_email: Mapped[str | None] = mapped_column(String(255))
    alarm_webhook: Mapped[str | None] = mapped_column(String(512))
    alarm_style: Mapped[str | None] = mapped_column(String(16))
    schedule_type: Mapped[str] = mapped_column(String(50), default="NONE")
    schedule_conf: Mapped[str | None] = mapped_column(String(128))
    timezone: Mapped[str | None] = mapped_column(String(64))
    misfire_strategy: Mapped[str] = mapped_column(String(50), default="DO_NOTHING")
    executor_route_strategy: Mapped[str] = mapped_column(String(50), default="FIRST")
    executor_handler: Mapped[str | None] = mapped_column(String(255))
    executor_param: Mapped[str | None] = mapped_column(LongText)
    executor_block_strategy: Mapped[str] = mapped_column(String(50), default="SERIAL_EXECUTION")
    executor_timeout: Mapped[int] = mapped_column(Integer, default=0)
    executor_fail_retry_count: Mapped[int] = mapped_column(Integer, default=0)
    retry_delay: Mapped[int] = mapped_column(Integer, default=0)
    delivery: Mapped[str] = mapped_column(String(16), default="AT_MOST_ONCE")
    concurrency: Mapped[int] = mapped_column(Integer, default=1)
    fresh_process: Mapped[int] = mapped_column(SmallInteger, default=0)
    glue_type: Mapped[str] = mapped_column(String(50), default="BEAN")
    # Up to half a megabyte, which no list of jobs wants.
    glue_source: Mapped[str | None] = mapped_column(LongText, deferred=True)
    glue_remark: Mapped[str | None] = mapped_column(String(128))
    glue_updatetime: Mapped[datetime | None] = mapped_column(DateTime)
    #: The version of its script that runs planned from now on name; None without a script.
    glue_id: Mapped[int | None] = mapped_column(Integer)
    child_jobid: Mapped[str | None] = mapped_column(String(255))
    trigger_status: Mapped[int] = mapped_column(SmallInteger, default=0)
    trigger_last_time: Mapped[int] = mapped_column(BigInteger, default=0)
    trigger_next_time: Mapped[int] = mapped_column(BigInteger, default=0)
    stop_reason: Mapped[str | None] = mapped_column(String(512))


class Run(Model):
    """One attempt of one shard of one tick; its unique key keeps a tick from firing twice."""

    __tablename__ = "xxl_job_log"
    __table_args__ = (
        UniqueConstraint(
            "job_id", "scheduled_at", "origin_id", "shard_index", "attempt", name="i_tick"
        ),
        Index("i_status_due", "status", "job_group", "due_at"),
        Index("i_kill", "kill_requested_at"),
        Index("i_trigger_time", "trigger_time"),
        _TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    job_group: Mapped[int] = mapped_column(Integer)
    job_id: Mapped[int] = mapped_column(Integer)
    executor_address: Mapped[str | None] = mapped_column(String(255))
    executor_handler: Mapped[str | None] = mapped_column(String(255))
    executor_param: Mapped[str | None] = mapped_column(LongText)
    executor_sharding_param: Mapped[str | None] = mapped_column(String(20))
    executor_fail_retry_count: Mapped[int] = mapped_column(Integer, default=0)
    trigger_time: Mapped[datetime | None] = mapped_column(DateTime)
    trigger_code: Mapped[int] = mapped_column(Integer, default=0)
    trigger_msg: Mapped[str | None] = mapped_column(LongText)
    handle_time: Mapped[datetime | None] = mapped_column(DateTime)
    handle_code: Mapped[int] = mapped_column(Integer, default=0)
    handle_msg: Mapped[str | None] = mapped_column(LongText)
    alarm_status: Mapped[int] = mapped_column(SmallInteger, default=0)
    status: Mapped[str] = mapped_column(String(16))
    kind: Mapped[str] = mapped_column(String(16))
    scheduled_at: Mapped[int] = mapped_column(BigInteger)
    due_at: Mapped[int] = mapped_column(BigInteger)
    origin_id: Mapped[int] = mapped_column(BigInteger, default=0)
    shard_index: Mapped[int] = mapped_column(Integer, default=0)
    shard_total: Mapped[int] = mapped_column(Integer, default=1)
    attempt: Mapped[int] = mapped_column(Integer, default=0)
    redeliveries: Mapped[int] = mapped_column(SmallInteger, default=0)
    wanted_addresses: Mapped[str | None] = mapped_column(Text)
    glue_id: Mapped[int | None] = mapped_column(Integer)
    routed_at: Mapped[int | None] = mapped_column(BigInteger)
    routed_by: Mapped[str | None] = mapped_column(String(64))
    boot_id: Mapped[str | None] = mapped_column(String(40))
    sent_at: Mapped[int | None] = mapped_column(BigInteger)
    started_at: Mapped[int | None] = mapped_column(BigInteger)
    finished_at: Mapped[int | None] = mapped_column(BigInteger)
    kill_requested_at: Mapped[int | None] = mapped_column(BigInteger)
    # MEDIUMTEXT: into TEXT, an UPDATE with a join stores a longer text cut without an error.
    log_tail: Mapped[str | None] = mapped_column(LongText)
    late_status: Mapped[str | None] = mapped_column(String(16))


class Alarm(Model):
    """A message to one channel of one job or app, kept until it is sent or given up.

    `subject_key` says what it is about, so that the same thing is told once: a tick, an absence.
    """

    __tablename__ = "warren_alarm"
    __table_args__ = (
        UniqueConstraint("subject_key", "channel", "target_hash", name="i_alarm_subject"),
        Index("i_alarm_next", "status", "next_try_at"),
        Index("i_alarm_job", "job_id", "status", "created_at"),
        _TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(AutoId, primary_key=True)
    subject_key: Mapped[str] = mapped_column(String(100))
    channel: Mapped[str] = mapped_column(String(16))
    target: Mapped[str] = mapped_column(String(512))
    target_hash: Mapped[str] = mapped_column(String(32))
    status: Mapped[str] = mapped_column(String(16))
    job_id: Mapped[int] = mapped_column(Integer, default=0)
    app_id: Mapped[int] = mapped_column(Integer, default=0)
    run_id: Mapped[int] = mapped_column(BigInteger, default=0)
    content: Mapped[str] = mapped_column(LongText)
    created_at: Mapped[int] = mapped_column(BigInteger)
    next_try_at: Mapped[int] = mapped_column(BigInteger)
    tries: Mapped[int] = mapped_column(Integer, default=0)
    sent_at: Mapped[int | None] = mapped_column(BigInteger)
    error: Mapped[str | None] = mapped_column(String(512))


class DayReport(Model):
    """Runs of one day by outcome; what was cleared of them is in the counts, and counted apart."""

    __tablename__ = "xxl_job_log_report"
    __table_args__ = (UniqueConstraint("trigger_day", name="i_trigger_day"), _TABLE_OPTIONS)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    trigger_day: Mapped[datetime | None] = mapped_column(DateTime)
    running_count: Mapped[int] = mapped_column(Integer, default=0)
    suc_count: Mapped[int] = mapped_column(Integer, default=0)
    fail_count: Mapped[int] = mapped_column(Integer, default=0)
    cleared_suc: Mapped[int] = mapped_column(Integer, default=0)
    cleared_fail: Mapped[int] = mapped_column(Integer, default=0)
    update_time: Mapped[datetime | None] = mapped_column(DateTime)


class GlueVersion(Model):
    """One saved version of a job's script."""

    __tablename__ = "xxl_job_logglue"
    __table_args__ = (
        Index("i_job_id", "job_id"),
        # SQLite would give a deleted version's id, which a run may name, to another source.
        {**_TABLE_OPTIONS, "sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    job_id: Mapped[int] = mapped_column(Integer)
    glue_type: Mapped[str | None] = mapped_column(String(50))
    glue_source: Mapped[str | None] = mapped_column(LongText)
    glue_remark: Mapped[str] = mapped_column(String(128))
    author: Mapped[str | None] = mapped_column(String(64))
    add_time: Mapped[datetime | None] = mapped_column(DateTime)
    update_time: Mapped[datetime | None] = mapped_column(DateTime)


class Registration(Model):
    """A process that registered: executors under EXECUTOR, schedulers and consoles under ADMIN."""

    __tablename__ = "xxl_job_registry"
    __table_args__ = (
        UniqueConstraint("registry_group", "registry_key", "registry_value", name="i_g_k_v"),
        _TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(AutoId, primary_key=True)
    registry_group: Mapped[str] = mapped_column(String(50))
    registry_key: Mapped[str] = mapped_column(String(64))
    registry_value: Mapped[str] = mapped_column(String(255))
    update_time: Mapped[datetime | None] = mapped_column(DateTime)
    boot_id: Mapped[str] = mapped_column(String(40), default="")
    boot_at: Mapped[int] = mapped_column(BigInteger, default=0)
    beat_at: Mapped[int] = mapped_column(BigInteger, default=0)
    load: Mapped[str | None] = mapped_column(LongText)
    draining: Mapped[int] = mapped_column(SmallInteger, default=0)
    #: When somebody asked that this boot be drained, 0 = nobody did.
    drain_asked_at: Mapped[int] = mapped_column(BigInteger, default=0)


class User(Model):
    """Someone who may sign in to the console.

    `role` 0 = operator (XXL-JOB's normal user), 1 = administrator, 2 = viewer; `permission` holds
    the ids of the apps that an operator or viewer may see, with commas between.
    """

    __tablename__ = "xxl_job_user"
    __table_args__ = (
        UniqueConstraint("username", name="i_username"),
        # The audit trail names users by id too.
        {**_TABLE_OPTIONS, "sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    username: Mapped[str] = mapped_column(String(50))
    password: Mapped[str] = mapped_column(String(255))
    token: Mapped[str | None] = mapped_column(String(100))
    role: Mapped[int] = mapped_column(SmallInteger)
    permission: Mapped[str | None] = mapped_column(Text)
    may_edit_glue: Mapped[int] = mapped_column(SmallInteger, default=0)
    must_change_password: Mapped[int] = mapped_column(SmallInteger, default=0)
    is_disabled: Mapped[int] = mapped_column(SmallInteger, default=0)
    locale: Mapped[str | None] = mapped_column(String(16))
    timezone: Mapped[str | None] = mapped_column(String(64))
    theme: Mapped[str | None] = mapped_column(String(16))
    #: Grows with each change of password, rights or state; sessions of an earlier one are void.
    generation: Mapped[int] = mapped_column(Integer, default=0)


class SignIn(Model):
    """One sign-in of a user at the console; of its cookie only the hash is kept."""

    __tablename__ = "warren_session"
    __table_args__ = (
        UniqueConstraint("token_hash", name="i_session_token"),
        Index("i_session_user", "user_id"),
        _TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(AutoId, primary_key=True)
    token_hash: Mapped[str] = mapped_column(String(64))
    user_id: Mapped[int] = mapped_column(Integer)
    generation: Mapped[int] = mapped_column(Integer)
    created_at: Mapped[int] = mapped_column(BigInteger)
    seen_at: Mapped[int] = mapped_column(BigInteger)
    address: Mapped[str] = mapped_column(String(64))
    agent: Mapped[str] = mapped_column(String(255))


class Guess(Model):
    """How full the measure of wrong passwords is for one account or address: until `full_until`."""

    __tablename__ = "warren_guess"
    __table_args__ = (_TABLE_OPTIONS,)

    subject: Mapped[str] = mapped_column(String(80), primary_key=True)
    full_until: Mapped[int] = mapped_column(BigInteger)


class TrailEntry(Model):
    """One thing that somebody did, or tried; rows are only ever added.

    `origin` is the address of a browser or `cli`; `before` and `after` are JSON objects.
    """

    __tablename__ = "warren_trail"
    __table_args__ = (
        Index("i_trail_at", "at"),
        Index("i_trail_who", "who", "id"),
        Index("i_trail_object", "kind", "name", "id"),
        _TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(AutoId, primary_key=True)
    at: Mapped[int] = mapped_column(BigInteger)
    who: Mapped[str] = mapped_column(String(64))
    origin: Mapped[str] = mapped_column(String(64))
    action: Mapped[str] = mapped_column(String(32))
    kind: Mapped[str] = mapped_column(String(16))
    object_id: Mapped[int] = mapped_column(BigInteger, default=0)
    name: Mapped[str] = mapped_column(String(255))
    before: Mapped[str | None] = mapped_column(LongText)
    after: Mapped[str | None] = mapped_column(LongText)


class Lease(Model):
    """Who may do a thing that one process does at a time, and until when."""

    __tablename__ = "xxl_job_lock"
    __table_args__ = (_TABLE_OPTIONS,)

    lock_name: Mapped[str] = mapped_column(String(50), primary_key=True)
    holder: Mapped[str | None] = mapped_column(String(64))
    until_at: Mapped[int] = mapped_column(BigInteger, default=0)


class History(Model):
    """One change of what decides a job's ticks, valid for ticks after `watermark`."""

    __tablename__ = "warren_history"
    __table_args__ = (Index("i_history_job", "job_id", "id"), _TABLE_OPTIONS)

    id: Mapped[int] = mapped_column(AutoId, primary_key=True)
    job_id: Mapped[int] = mapped_column(Integer)
    changed_at: Mapped[int] = mapped_column(BigInteger)
    changed_by: Mapped[str] = mapped_column(String(64))
    watermark: Mapped[int] = mapped_column(BigInteger)
    enabled: Mapped[int] = mapped_column(SmallInteger)
    schedule_type: Mapped[str] = mapped_column(String(50))
    schedule_conf: Mapped[str | None] = mapped_column(String(128))
    timezone: Mapped[str] = mapped_column(String(64))
    misfire_strategy: Mapped[str] = mapped_column(String(50))
    anchor: Mapped[int] = mapped_column(BigInteger)


class SkippedTicks(Model):
    """Due times that were decided not to fire: `count` of them, `from_at` to `to_at`."""

    __tablename__ = "warren_skip"
    __table_args__ = (Index("i_skip_job", "job_id", "from_at"), _TABLE_OPTIONS)

    id: Mapped[int] = mapped_column(AutoId, primary_key=True)
    job_id: Mapped[int] = mapped_column(Integer)
    from_at: Mapped[int] = mapped_column(BigInteger)
    to_at: Mapped[int] = mapped_column(BigInteger)
    count: Mapped[int] = mapped_column(Integer)
    reason: Mapped[str] = mapped_column(String(255))
    recorded_at: Mapped[int] = mapped_column(BigInteger)


class Purge(Model):
    """Runs that were cleared: all final ones of a job up to a tick."""

    __tablename__ = "warren_purge"
    __table_args__ = (Index("i_purge_job", "job_id"), _TABLE_OPTIONS)

    id: Mapped[int] = mapped_column(AutoId, primary_key=True)
    job_id: Mapped[int] = mapped_column(Integer)
    to_at: Mapped[int] = mapped_column(BigInteger)
    count: Mapped[int] = mapped_column(Integer)
    purged_at: Mapped[int] = mapped_column(BigInteger)
    purged_by: Mapped[str] = mapped_column(String(64))


class RouteMemory(Model):
    """What a route remembers of a job, as JSON."""

    __tablename__ = "warren_route_memory"
    __table_args__ = (_TABLE_OPTIONS,)

    job_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    memory: Mapped[str] = mapped_column(LongText)


class Sequence(Model):
    """The next free id of a counter."""

    __tablename__ = "warren_sequence"
    __table_args__ = (_TABLE_OPTIONS,)

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    next_id: Mapped[int] = mapped_column(BigInteger)


class Cluster(Model):
    """The one row that says which cluster this database is, and whether dispatch is paused."""

    __tablename__ = "warren_cluster"
    __table_args__ = (_TABLE_OPTIONS,)

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    cluster_id: Mapped[str] = mapped_column(String(36))
    paused_at: Mapped[int] = mapped_column(BigInteger, default=0)
    paused_by: Mapped[str | None] = mapped_column(String(64))
