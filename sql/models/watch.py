"""The tables of the watch over expectations: when to look next, and what is broken."""

from sqlalchemy import BigInteger, Index, Integer, SmallInteger, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from warren.sql.dialects.supported import AUTO_ID, TABLE_OPTIONS
from warren.sql.models.base import Model


class Watch(Model):
    """When to look next at a job of which something is expected, and what the last look knew.

    `started_until` and `finished_until` are the last due times that were judged.
    """

    __tablename__ = "warren_watch"
    __table_args__ = (Index("i_watch_next", "next_look_at"), TABLE_OPTIONS)

    job_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    #: 0 = at once.
    next_look_at: Mapped[int] = mapped_column(BigInteger, default=0)
    #: From when on the job is watched: since it was enabled, or its expectations changed.
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
