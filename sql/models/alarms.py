"""The table of alarms and run webhooks."""

from sqlalchemy import BigInteger, Index, Integer, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from warren.sql.dialects.supported import AUTO_ID, LONG_TEXT, TABLE_OPTIONS
from warren.sql.models.base import Model

#: The index of alarms by which statements are made to read.
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
