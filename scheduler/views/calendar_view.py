"""Calendars as shown to users, and a year of one."""

from collections.abc import Collection
from datetime import date
from typing import NamedTuple

from msgspec.structs import asdict
from sqlalchemy.orm import Session

from warren.resources.calendars import WEEKDAYS, Calendar, CalendarDay, CalendarYear
from warren.resources.instant import Instant
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.reading import WORK, CalendarDays, NotTaken
from warren.scheduler.schedules.working_days import CalendarVersion, date_of, day_of
from warren.sql.jobs import calendars
from warren.sql.jobs.calendars import VersionRow
from warren.sql.registry import apps


class DayView(NamedTuple):
    """A day; `name` is that of a holiday."""

    date: str
    weekday: str
    is_working: bool
    is_special: bool
    name: str


class YearView(NamedTuple):
    """A year of a calendar: all its days that are known, and those that are special.

    `versions` is how many there are, `effective` when each began to count, by its number.
    """

    calendar: Calendar
    versions: int
    effective: dict[int, int]
    year: int
    working_days: int
    days: tuple[DayView, ...]
    not_taken: NotTaken | None

    @property
    def special(self) -> list[DayView]:
        """The days that are not as their weekday says."""
        return [day for day in self.days if day.is_special]


def calendar_views(session: Session, app_ids: Collection[int] | None) -> list[Calendar]:
    """Return the newest version of each calendar."""
    newest = {row.name: row for row in calendars.versions(session)}
    return [_view(session, row, app_ids) for row in newest.values()]


def read_year(
    session: Session,
    name: str,
    year: int,
    *,
    version: int | None,
    app_ids: Collection[int] | None,
) -> YearView:
    """Return a year of a calendar, by its newest version or another one.

    Raises:
        Problem: there is no such calendar or version, or it does not know the year.

    """
    rows = calendars.versions(session, [name])
    if not rows:
        raise Problem(Code.NO_CALENDAR, name=name[:100])
    row = next((row for row in rows if row.number == version), None) if version else rows[-1]
    if row is None:
        raise Problem(Code.NO_CALENDAR_VERSION, name=name, number=version)
    if row.until < date(year, 1, 1):
        facts = {"calendar": name, "until": str(row.until), "got": year}
        raise Problem(Code.CALENDAR_NOT_KNOWN, "year", **facts)
    said = CalendarDays.of(row, calendars.days(session, [row.id])[row.id])
    days = _days_of(said, said.version(row.number, row.effective_at), year)
    return YearView(
        calendar=_view(session, row, app_ids),
        versions=len(rows),
        effective={each.number: each.effective_at for each in rows},
        year=year,
        working_days=sum(day.is_working for day in days),
        days=days,
        not_taken=NotTaken.of(row),
    )


def year_of(shown: YearView) -> CalendarYear:
    """Return a year of a calendar as programs see it."""
    return CalendarYear(
        **asdict(shown.calendar),
        year=shown.year,
        working_days=shown.working_days,
        days=[
            CalendarDay(date=day.date, working=day.is_working, name=day.name)
            for day in shown.special
        ],
        versions=shown.versions,
    )


def _days_of(said: CalendarDays, version: CalendarVersion, year: int) -> tuple[DayView, ...]:
    last = min(day_of(date(year, 12, 31)), version.until_day)
    return tuple(
        DayView(
            date=at.isoformat(),
            weekday=WEEKDAYS[at.weekday()],
            is_working=version.is_working(day),
            is_special=at in said.days and not _is_usual(said, at),
            name=version.names.get(day, ""),
        )
        for day in range(day_of(date(year, 1, 1)), last + 1)
        for at in [date_of(day)]
    )


def _is_usual(said: CalendarDays, at: date) -> bool:
    """Whether a day is as its weekday says anyway."""
    is_weekend = WEEKDAYS[at.weekday()] in said.weekend
    return (said.days[at].partition(" ")[0] == WORK) is not is_weekend


def _view(session: Session, row: VersionRow, app_ids: Collection[int] | None) -> Calendar:
    users = calendars.users(session, row.name, app_ids)
    named = apps.names(session, {job.app_id for job in users}) if users else {}
    return Calendar(
        name=row.name,
        version=row.number,
        weekend=row.weekend.split(",") if row.weekend else [],
        until=row.until.isoformat(),
        source=row.source,
        effective_at=Instant.of(row.effective_at),
        made_by=row.made_by,
        jobs=[f"{named[job.app_id]}/{job.name}" for job in users],
        not_taken=str(NotTaken.of(row) or ""),
    )
