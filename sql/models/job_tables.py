"""The tables of jobs: their scripts, children, route memory, changes of schedule and skips.

Where a query depends on the values of a column, these are enums.
"""

from datetime import date, datetime
from enum import StrEnum

from sqlalchemy import (
    BigInteger,
    Date,
    DateTime,
    Double,
    Index,
    Integer,
    SmallInteger,
    String,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from warren.sql.dialects.supported import AUTO_ID, LASTING_ID_OPTIONS, LONG_TEXT, TABLE_OPTIONS
from warren.sql.models.base import Model

#: The schedule kind of a job that is only triggered by hand, by API or by a parent.
NO_SCHEDULE = "NONE"
#: The script type of a flow, whose versions are its graphs.
FLOW_TYPE = "FLOW"
#: The route of a job that names none, in an app that names none.
DEFAULT_ROUTE = "CONSISTENT_HASH"

#: How late a due time may still run as planned, in seconds, by default.
LATE_LIMIT_SECONDS = 60
#: Which missed due times are caught up by default.
CATCH_UP_SECONDS, CATCH_UP_MOST = 86_400, 100


class DeliveryGuarantee(StrEnum):
    """Whether a run that may have started is started again when its executor is lost."""

    AT_MOST_ONCE = "AT_MOST_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


class Backoff(StrEnum):
    """How the waits before retries grow."""

    FIXED = "fixed"
    #: Each is twice the one before.
    EXPONENTIAL = "exponential"


class Scope(StrEnum):
    """Where a job's runs are counted and wait for each other."""

    EXECUTOR = "executor"
    CLUSTER = "cluster"


class Priority(StrEnum):
    """Which runs go first when more are due than can be sent or started."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


#: The indexes of jobs by which statements are made to read.
BY_NEXT_TICK = "i_status_next"
BY_SEARCHED_TEXT = "i_search"


class Job(Model):
    """A job: what to run, when, where, and what to do if it fails."""

    __tablename__ = "xxl_job_info"
    __table_args__ = (
        UniqueConstraint("job_group", "job_desc", name="i_group_name"),
        Index(BY_NEXT_TICK, "trigger_status", "trigger_next_time"),
        Index("i_group_status_next", "job_group", "trigger_status", "trigger_next_time"),
        Index(
            BY_SEARCHED_TEXT,
            "job_group",
            "job_desc",
            "executor_handler",
            "author",
            "tags",
            "trigger_status",
        ),
        Index("i_limits", "limits"),
        Index("i_priority", "priority", "job_group"),
        # Otherwise SQLite would give a deleted job's id, and so its ticks, to a new job.
        {**TABLE_OPTIONS, **LASTING_ID_OPTIONS},
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    app_id: Mapped[int] = mapped_column("job_group", Integer)
    name: Mapped[str] = mapped_column("job_desc", String(255))
    add_time: Mapped[datetime | None] = mapped_column(DateTime)
    update_time: Mapped[datetime | None] = mapped_column(DateTime)
    author: Mapped[str | None] = mapped_column(String(64))
    #: Separated by commas.
    tags: Mapped[str | None] = mapped_column(String(128))
    alarm_email: Mapped[str | None] = mapped_column(String(255))
    alarm_webhook: Mapped[str | None] = mapped_column(String(512))
    alarm_style: Mapped[str | None] = mapped_column(String(16))
    #: What its robot's signatures are made with; never read back by people.
    alarm_secret: Mapped[str | None] = mapped_column(String(255))
    webhook_url: Mapped[str | None] = mapped_column(String(512))
    webhook_when: Mapped[str | None] = mapped_column(String(16))
    #: What is expected of it, as JSON; None = nothing.
    expect: Mapped[str | None] = mapped_column(String(255))
    schedule_kind: Mapped[str] = mapped_column("schedule_type", String(50), default=NO_SCHEDULE)
    schedule_value: Mapped[str | None] = mapped_column("schedule_conf", String(128))
    #: What narrows and moves its ticks, as JSON; None = nothing.
    schedule_options: Mapped[str | None] = mapped_column(String(512))
    timezone: Mapped[str | None] = mapped_column(String(64))
    #: How far the dates of its runs are from the days of their due times.
    run_date_days: Mapped[int] = mapped_column(Integer, default=0)
    run_date_months: Mapped[int] = mapped_column(Integer, default=0)
    #: The same in working days of this calendar.
    run_date_workdays: Mapped[int] = mapped_column(Integer, default=0)
    run_date_calendar: Mapped[str | None] = mapped_column(String(32))
    misfire: Mapped[str] = mapped_column("misfire_strategy", String(50), default="DO_NOTHING")
    late_limit: Mapped[int] = mapped_column(Integer, default=LATE_LIMIT_SECONDS)
    #: Which missed due times CATCH_UP catches up: how far back, in seconds, and how many.
    catch_up_within: Mapped[int] = mapped_column(Integer, default=CATCH_UP_SECONDS)
    catch_up_most: Mapped[int] = mapped_column(Integer, default=CATCH_UP_MOST)
    #: Empty = the app's, and without that DEFAULT_ROUTE.
    route: Mapped[str] = mapped_column("executor_route_strategy", String(50), default="")
    handler: Mapped[str | None] = mapped_column("executor_handler", String(255))
    param: Mapped[str | None] = mapped_column("executor_param", LONG_TEXT)
    #: The template that makes the param of each run, in place of `param`.
    param_template: Mapped[str | None] = mapped_column(LONG_TEXT)
    #: The graph of a flow as canonical JSON, in which jobs have their names; None = no flow.
    flow: Mapped[str | None] = mapped_column(LONG_TEXT)
    block: Mapped[str] = mapped_column(
        "executor_block_strategy", String(50), default="SERIAL_EXECUTION"
    )
    timeout: Mapped[int] = mapped_column("executor_timeout", Integer, default=0)
    retries: Mapped[int] = mapped_column("executor_fail_retry_count", Integer, default=0)
    retry_delay: Mapped[int] = mapped_column(Integer, default=0)
    retry_backoff: Mapped[str] = mapped_column(String(16), default=Backoff.FIXED)
    retry_most: Mapped[int] = mapped_column(Integer, default=0)
    #: In percent.
    retry_jitter: Mapped[int] = mapped_column(SmallInteger, default=0)
    delivery: Mapped[str] = mapped_column(String(16), default=DeliveryGuarantee.AT_MOST_ONCE)
    concurrency: Mapped[int] = mapped_column(Integer, default=1)
    #: Where `concurrency` and `block` hold.
    scope: Mapped[str] = mapped_column(String(16), default=Scope.EXECUTOR)
    #: The limits that its runs take, as NAME or NAME:WEIGHT, separated by commas.
    limits: Mapped[str | None] = mapped_column(String(255))
    priority: Mapped[str] = mapped_column(String(16), default=Priority.NORMAL)
    #: How many of its runs may wait; 0 = any number.
    max_waiting: Mapped[int] = mapped_column(Integer, default=0)
    #: Empty = as its handler or the executor says.
    process: Mapped[str] = mapped_column(String(16), default="")
    script_type: Mapped[str] = mapped_column("glue_type", String(50), default="BEAN")
    # Up to half a megabyte, which lists of jobs do not need.
    script_source: Mapped[str | None] = mapped_column("glue_source", LONG_TEXT, deferred=True)
    script_remark: Mapped[str | None] = mapped_column("glue_remark", String(128))
    script_updated: Mapped[datetime | None] = mapped_column("glue_updatetime", DateTime)
    #: The id of its script's version, for runs planned from now on; None without a script.
    script_version: Mapped[int | None] = mapped_column("glue_id", Integer)
    child_ids: Mapped[str | None] = mapped_column("child_jobid", String(255))
    is_enabled: Mapped[int] = mapped_column("trigger_status", SmallInteger, default=0)
    last_tick_at: Mapped[int] = mapped_column("trigger_last_time", BigInteger, default=0)
    next_tick_at: Mapped[int] = mapped_column("trigger_next_time", BigInteger, default=0)
    stop_reason: Mapped[str | None] = mapped_column(String(512))
    #: The reason behind `stop_reason`, as JSON.
    stop_why: Mapped[str | None] = mapped_column(LONG_TEXT)
    #: Where it is declared, as `warren.scheduler.jobs.places` says; None = nowhere else.
    declared_in: Mapped[str | None] = mapped_column(String(255))

    @property
    def has_script(self) -> bool:
        """Whether its runs execute a script; the version of a flow is its graph."""
        return self.script_version is not None and self.script_type != FLOW_TYPE


class JobChild(Model):
    """A job that runs after each success of another one, and its position among its siblings."""

    __tablename__ = "warren_job_child"
    __table_args__ = (
        UniqueConstraint("job_id", "child_id", name="i_job_child"),
        Index("i_child", "child_id"),
        TABLE_OPTIONS,
    )

    job_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    position: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    child_id: Mapped[int] = mapped_column(Integer)


class FlowJob(Model):
    """A job that is a node of a flow."""

    __tablename__ = "warren_flow_job"
    __table_args__ = (Index("i_flow_job", "job_id"), TABLE_OPTIONS)

    flow_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    job_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)


class ScriptVersion(Model):
    """One saved version of a job's script."""

    __tablename__ = "xxl_job_logglue"
    __table_args__ = (
        Index("i_job_id", "job_id"),
        # Otherwise SQLite would give a deleted version's id, which a run may name, to a new one.
        {**TABLE_OPTIONS, **LASTING_ID_OPTIONS},
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    job_id: Mapped[int] = mapped_column(Integer)
    script_type: Mapped[str | None] = mapped_column("glue_type", String(50))
    source: Mapped[str | None] = mapped_column("glue_source", LONG_TEXT)
    remark: Mapped[str] = mapped_column("glue_remark", String(128))
    author: Mapped[str | None] = mapped_column(String(64))
    add_time: Mapped[datetime | None] = mapped_column(DateTime)
    update_time: Mapped[datetime | None] = mapped_column(DateTime)
    #: The number that users see: 1, 2, 3 … in each job. Columns that name a version hold its id.
    number: Mapped[int] = mapped_column(Integer, server_default="0")


class RouteMemory(Model):
    """What a route remembers about a job, as JSON."""

    __tablename__ = "warren_route_memory"
    __table_args__ = (TABLE_OPTIONS,)

    job_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    memory: Mapped[str] = mapped_column(LONG_TEXT)


class History(Model):
    """One change of a job's schedule, valid for ticks after `watermark`."""

    __tablename__ = "warren_history"
    __table_args__ = (Index("i_history_job", "job_id", "id"), TABLE_OPTIONS)

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    job_id: Mapped[int] = mapped_column(Integer)
    changed_at: Mapped[int] = mapped_column(BigInteger)
    changed_by: Mapped[str] = mapped_column(String(64))
    watermark: Mapped[int] = mapped_column(BigInteger)
    enabled: Mapped[int] = mapped_column(SmallInteger)
    schedule_kind: Mapped[str] = mapped_column("schedule_type", String(50))
    schedule_value: Mapped[str | None] = mapped_column("schedule_conf", String(128))
    schedule_options: Mapped[str | None] = mapped_column(String(512))
    timezone: Mapped[str] = mapped_column(String(64))
    misfire: Mapped[str] = mapped_column("misfire_strategy", String(50))
    late_limit: Mapped[int] = mapped_column(Integer, default=LATE_LIMIT_SECONDS)
    anchor: Mapped[int] = mapped_column(BigInteger)


class SkippedTicks(Model):
    """Skipped due times: `count` of them, from `from_at` to `to_at`."""

    __tablename__ = "warren_skip"
    __table_args__ = (
        Index("i_skip_job", "job_id", "from_at"),
        Index("i_skip_end", "to_at"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    job_id: Mapped[int] = mapped_column(Integer)
    from_at: Mapped[int] = mapped_column(BigInteger)
    to_at: Mapped[int] = mapped_column(BigInteger)
    count: Mapped[int] = mapped_column(Integer)
    reason: Mapped[str] = mapped_column(String(255))
    recorded_at: Mapped[int] = mapped_column(BigInteger)
    #: The reason behind `reason`, as JSON.
    why: Mapped[str | None] = mapped_column(LONG_TEXT)


class BackfillState(StrEnum):
    """The state of a backfill."""

    OPEN = "OPEN"
    PAUSED = "PAUSED"
    #: Every due time is decided, and every run has ended.
    DONE = "DONE"
    #: No more runs are planned; those that were open when it was cancelled may run on.
    CANCELLED = "CANCELLED"


class Selection(StrEnum):
    """Which due times of its range a backfill runs."""

    #: Those for which nothing ran.
    MISSING = "missing"
    #: Those that are unresolved.
    FAILED = "failed"
    #: Every one, whatever ran before.
    ALL = "all"


class Backfill(Model):
    """A backfill; its id, from the sequence of run ids, is the origin of its runs.

    `ticks` is how many due times its `spans` have by its `schedule`, both JSON; the first `decided`
    of them have runs or are left out, and `cursor_at` is the last of these. `left_out` has the
    ranks of those left out, such as "0-2,7", and `open_ticks`, a JSON list, the due times whose
    runs have not all ended. `succeeded`, `failed` and `skipped` count the others that had runs.
    """

    __tablename__ = "warren_backfill"
    __table_args__ = (
        UniqueConstraint("job_id", "backfill_key", name="i_backfill_key"),
        Index("i_backfill_ended", "ended_at"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    job_id: Mapped[int] = mapped_column(Integer)
    #: What names it among those of its job, so that the same request makes no second one.
    key: Mapped[str | None] = mapped_column("backfill_key", String(64))
    #: Its range of run dates; None if it was made for single due times.
    from_date: Mapped[date | None] = mapped_column(Date)
    to_date: Mapped[date | None] = mapped_column(Date)
    schedule: Mapped[str] = mapped_column(LONG_TEXT)
    spans: Mapped[str] = mapped_column(LONG_TEXT)
    ticks: Mapped[int] = mapped_column(Integer)
    decided: Mapped[int] = mapped_column(Integer, default=0)
    cursor_at: Mapped[int | None] = mapped_column(BigInteger)
    left_out: Mapped[str] = mapped_column(LONG_TEXT, default="")
    open_ticks: Mapped[str] = mapped_column(LONG_TEXT, default="[]")
    at_once: Mapped[int] = mapped_column(Integer, default=1)
    newest_first: Mapped[int] = mapped_column(SmallInteger, default=0)
    selection: Mapped[str] = mapped_column(String(16), default=Selection.MISSING)
    stop_on_failure: Mapped[int] = mapped_column(SmallInteger, default=0)
    #: 1 = the successes of its runs start no children.
    without_children: Mapped[int | None] = mapped_column(SmallInteger)
    #: 1 = the job's schedule is stopped until it ends.
    instead: Mapped[int] = mapped_column(SmallInteger, default=0)
    #: The param of its runs; None = the job's own.
    param: Mapped[str | None] = mapped_column(LONG_TEXT)
    succeeded: Mapped[int] = mapped_column(Integer, default=0)
    failed: Mapped[int] = mapped_column(Integer, default=0)
    skipped: Mapped[int] = mapped_column(Integer, default=0)
    state: Mapped[str] = mapped_column(String(16), default=BackfillState.OPEN)
    #: Why it is paused or has ended, in words, and the reason behind them, as JSON.
    state_reason: Mapped[str | None] = mapped_column(String(512))
    state_why: Mapped[str | None] = mapped_column(LONG_TEXT)
    made_at: Mapped[int] = mapped_column(BigInteger)
    made_by: Mapped[str] = mapped_column(String(64))
    #: When it last planned a run or noted the end of one.
    moved_at: Mapped[int] = mapped_column(BigInteger)
    #: When no run of it was left that may still come or go on.
    ended_at: Mapped[int | None] = mapped_column(BigInteger)


class CalendarRow(Model):
    """One version of a calendar, which counts from `effective_at` on.

    `days` are those that are not as their weekday says, as JSON; `source` says where they are from.
    `digest` is the SHA-256 of weekend, days and `until`.
    """

    __tablename__ = "warren_calendar"
    __table_args__ = (UniqueConstraint("name", "number", name="i_calendar"), TABLE_OPTIONS)

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    name: Mapped[str] = mapped_column(String(32))
    number: Mapped[int] = mapped_column(Integer)
    #: Three letters each, separated by commas.
    weekend: Mapped[str] = mapped_column(String(32))
    days: Mapped[str] = mapped_column(LONG_TEXT)
    #: The last day that it knows.
    until: Mapped[date] = mapped_column("until_date", Date)
    source: Mapped[str] = mapped_column(String(255))
    digest: Mapped[str] = mapped_column(String(64))
    effective_at: Mapped[int] = mapped_column(BigInteger)
    made_by: Mapped[str] = mapped_column(String(64))
    #: The events of a feed that are not days of it, as JSON; NULL = there are none.
    not_taken: Mapped[str | None] = mapped_column(String(1_000))


class Limit(Model):
    """How many runs of all jobs that name it may be on their way or running, and how often.

    `at_once` units may be held at a time; `rate` units may be taken per `per_ms`, from a bucket
    that has `tokens` since `refilled_at`. NULL = no such limit. A job whose scope is the cluster
    has a limit of its own, which is without a name; its `concurrency` says how many.
    """

    __tablename__ = "warren_limit"
    __table_args__ = (
        UniqueConstraint("name", name="i_limit_name"),
        UniqueConstraint("job_id", name="i_limit_job"),
        # Claims remember ids by name; a new limit of that name must not have the old one's.
        {**TABLE_OPTIONS, **LASTING_ID_OPTIONS},
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str | None] = mapped_column(String(64))
    job_id: Mapped[int | None] = mapped_column(Integer)
    at_once: Mapped[int | None] = mapped_column(Integer)
    rate: Mapped[int | None] = mapped_column(Integer)
    per_ms: Mapped[int | None] = mapped_column(BigInteger)
    tokens: Mapped[float | None] = mapped_column(Double)
    refilled_at: Mapped[int | None] = mapped_column(BigInteger)
    changed_at: Mapped[int] = mapped_column(BigInteger, default=0)


class Hold(Model):
    """What a run takes of a limit, from the claim that routes it until it has ended."""

    __tablename__ = "warren_hold"
    __table_args__ = (Index("i_hold_run", "run_id"), TABLE_OPTIONS)

    limit_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    run_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    weight: Mapped[int] = mapped_column(Integer)
