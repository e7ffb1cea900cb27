"""The tables of alarms and run webhooks, and of the watch over jobs' expectations."""

from sqlalchemy import BigInteger, Index, Integer, SmallInteger, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from warren.sql.dialects.supported import AUTO_ID, LONG_TEXT, TABLE_OPTIONS
from warren.sql.models.base import Model

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
