"""The tables of the board: what is wrong with which job, stored as it changes.

All of it follows from runs and skipped due times, except who has acknowledged what.
"""

from sqlalchemy import BigInteger, Index, Integer, SmallInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from warren.sql.dialects.supported import AUTO_ID, LONG_TEXT, TABLE_OPTIONS
from warren.sql.models.base import Model

#: The longest error text that is kept.
ERROR_LIMIT = 400


class Unfolded(Model):
    """What one transaction has changed about runs and skips, until the board has taken it in.

    The transaction itself writes it, so nothing is missed, in whatever order transactions commit.
    Lists are ids joined by commas; `counts` is as `warren.sql.unfolded` says.
    """

    __tablename__ = "warren_unfolded"
    __table_args__ = (TABLE_OPTIONS,)

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    #: Runs that have ended, or whose due time is open again.
    runs: Mapped[str] = mapped_column(LONG_TEXT)
    #: What this adds to the counts of quarters.
    counts: Mapped[str] = mapped_column(LONG_TEXT)
    #: Jobs of which runs were deleted, added or moved.
    jobs: Mapped[str] = mapped_column(LONG_TEXT)
    #: Jobs that have skipped due times, and since when.
    skips: Mapped[str] = mapped_column(LONG_TEXT)
    skipped_since: Mapped[int | None] = mapped_column(BigInteger)


class JobState(Model):
    """How a job is doing by its due times; `strip` has the last of them and all that follows.

    The other columns are what lists read and sort by. Instants that name a due time are that due
    time. `trouble` is a `warren.sql.board.job_states.Trouble`.
    """

    __tablename__ = "warren_job_state"
    __table_args__ = (Index("i_job_trouble", "trouble"), TABLE_OPTIONS)

    job_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    trouble: Mapped[int] = mapped_column(SmallInteger)
    #: The first due time since which all have failed, and how many these are; 0 = it does not fail.
    failing_since: Mapped[int] = mapped_column(BigInteger, default=0)
    failing_count: Mapped[int] = mapped_column(Integer, default=0)
    #: The same of the newest error alone; its key, its text, and a run that has it.
    error_key: Mapped[str] = mapped_column(String(16), default="")
    error_since: Mapped[int] = mapped_column(BigInteger, default=0)
    error_count: Mapped[int] = mapped_column(Integer, default=0)
    error_text: Mapped[str] = mapped_column(String(ERROR_LIMIT), default="")
    error_run_id: Mapped[int] = mapped_column(BigInteger, default=0)
    #: The last due time that succeeded.
    good_at: Mapped[int] = mapped_column(BigInteger, default=0)
    #: The newest due time that succeeded or failed, its status, its run, and how long it took.
    newest_at: Mapped[int] = mapped_column(BigInteger, default=0)
    newest_status: Mapped[str] = mapped_column(String(16), default="")
    newest_run_id: Mapped[int] = mapped_column(BigInteger, default=0)
    took_ms: Mapped[int] = mapped_column(BigInteger, default=0)
    #: The median of the last successes; 0 = there are too few.
    usual_ms: Mapped[int] = mapped_column(BigInteger, default=0)
    #: Due times after the newest one that were skipped: the first, and how many.
    skipped_since: Mapped[int] = mapped_column(BigInteger, default=0)
    skipped_count: Mapped[int] = mapped_column(Integer, default=0)
    #: Overdue runs that have not started, and since when the first is due.
    waiting_count: Mapped[int] = mapped_column(Integer, default=0)
    waiting_since: Mapped[int] = mapped_column(BigInteger, default=0)
    #: When the run started that runs beyond the usual duration.
    long_since: Mapped[int] = mapped_column(BigInteger, default=0)
    strip: Mapped[str] = mapped_column(String(2_000), default="")
    #: The median of the last successes a week ago; 0 = there are too few.
    week_ms: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")


class JobError(Model):
    """The last time that due times of a job failed with one error, one after the other.

    `error_key` is the same for the same error of other jobs.
    """

    __tablename__ = "warren_error"
    __table_args__ = (Index("i_error_last", "last_at"), TABLE_OPTIONS)

    job_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    error_key: Mapped[str] = mapped_column(String(16), primary_key=True)
    error_text: Mapped[str] = mapped_column("text", String(ERROR_LIMIT))
    #: The first and the last of these due times, how many they are, and the run of the last.
    since_at: Mapped[int] = mapped_column(BigInteger)
    last_at: Mapped[int] = mapped_column(BigInteger)
    due_times: Mapped[int] = mapped_column("count", Integer)
    run_id: Mapped[int] = mapped_column(BigInteger)


class Quarter(Model):
    """Runs of an app that were due in a quarter of an hour, each attempt, and skipped due times."""

    __tablename__ = "warren_quarter"
    __table_args__ = (TABLE_OPTIONS,)

    quarter_at: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    app_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    succeeded: Mapped[int] = mapped_column(Integer, default=0)
    failed: Mapped[int] = mapped_column(Integer, default=0)
    skipped: Mapped[int] = mapped_column(Integer, default=0)


class BoardFill(Model):
    """How far the board has been filled from the rows of before; its lock lets one fold at a time.

    The jobs up to `job_id` have their state, of `jobs_until`; the quarters before `quarter_at` are
    counted, up to `quarters_until`. `jobs_until` and `quarters_until` 0 = not begun.
    """

    __tablename__ = "warren_board"
    __table_args__ = (TABLE_OPTIONS,)

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    job_id: Mapped[int] = mapped_column(Integer, default=0)
    jobs_until: Mapped[int] = mapped_column(Integer, default=0)
    quarter_at: Mapped[int] = mapped_column(BigInteger, default=0)
    quarters_until: Mapped[int] = mapped_column(BigInteger, default=0)


class BoardEvent(Model):
    """Something that was the case for a while: an executor was gone, or a limit was full.

    `subject` names the executor or the limit; of an open one, `until_at` is NULL. An outage is an
    event in each app that it hit, with the same `error_key`.
    """

    __tablename__ = "warren_event"
    __table_args__ = (
        Index("i_event_until", "until_at"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    app_id: Mapped[int] = mapped_column(Integer, default=0)
    subject: Mapped[str] = mapped_column(String(255))
    since_at: Mapped[int] = mapped_column(BigInteger)
    until_at: Mapped[int | None] = mapped_column(BigInteger)
    #: How many runs it cost or held up, as far as known.
    runs: Mapped[int] = mapped_column(Integer, default=0)
    error_key: Mapped[str | None] = mapped_column(String(16))


class Outlook(Model):
    """What is due in an app in the next hour against its slots, as JSON."""

    __tablename__ = "warren_outlook"
    __table_args__ = (TABLE_OPTIONS,)

    app_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    made_at: Mapped[int] = mapped_column(BigInteger)
    content: Mapped[str] = mapped_column(LONG_TEXT)


class Mute(Model):
    """Who looks after the trouble of a job, and until when its alarms are not sent.

    It ends at `until_at`, or at another error than `error_key`.
    """

    __tablename__ = "warren_mute"
    __table_args__ = (TABLE_OPTIONS,)

    job_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    #: 1 = its alarms are not sent; 0 = it is only acknowledged.
    silences: Mapped[int] = mapped_column(SmallInteger)
    error_key: Mapped[str] = mapped_column(String(16))
    made_at: Mapped[int] = mapped_column(BigInteger)
    made_by: Mapped[str] = mapped_column(String(64))
    until_at: Mapped[int] = mapped_column(BigInteger)
    reason: Mapped[str] = mapped_column(String(255))
