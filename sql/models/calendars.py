"""The calendars of working days: versions that never change."""

from datetime import date

from sqlalchemy import BigInteger, Date, Integer, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from warren.sql.dialects.supported import AUTO_ID, LONG_TEXT, TABLE_OPTIONS
from warren.sql.models.base import Model


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
