"""The tables of the business day: calendars of working days, limits that jobs share, backfills."""

from datetime import date

from sqlalchemy import (
    BigInteger,
    Date,
    Double,
    Index,
    Integer,
    SmallInteger,
    String,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from warren.sql.backfill_status import BackfillState, Selection
from warren.sql.dialects.supported import AUTO_ID, LASTING_ID_OPTIONS, LONG_TEXT, TABLE_OPTIONS
from warren.sql.models.base import Model


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
    #: 1 = the job's schedule is stopped until it is over.
    instead: Mapped[int] = mapped_column(SmallInteger, default=0)
    #: The param of its runs; None = the job's own.
    param: Mapped[str | None] = mapped_column(LONG_TEXT)
    succeeded: Mapped[int] = mapped_column(Integer, default=0)
    failed: Mapped[int] = mapped_column(Integer, default=0)
    skipped: Mapped[int] = mapped_column(Integer, default=0)
    state: Mapped[str] = mapped_column(String(16), default=BackfillState.OPEN)
    #: Why it is paused or over, in words, and the reason behind them, as JSON.
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
    #: The events of a feed that are no days of it, as JSON; NULL = there are none.
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
