"""The tables of schedule history and skipped ticks."""

from sqlalchemy import BigInteger, Index, Integer, SmallInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from warren.sql.dialects.supported import AUTO_ID, LONG_TEXT, TABLE_OPTIONS
from warren.sql.models.base import Model
from warren.sql.models.jobs import LATE_LIMIT_SECONDS


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
