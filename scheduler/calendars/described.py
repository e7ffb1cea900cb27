"""Describes stored calendars so that a job file has them."""

from collections.abc import Collection
from datetime import date

from sqlalchemy.orm import Session

from warren.scheduler.calendars.calendar_spec import CalendarSpec
from warren.scheduler.calendars.day_sources import PREFIX
from warren.scheduler.problems import Problem
from warren.scheduler.schedules.calendar_rows import CalendarDays
from warren.sql.jobs import calendars


def described(session: Session, names: Collection[str], today: date) -> list[CalendarSpec]:
    """Return what the newest versions of calendars say; a job file with it changes nothing.

    Where a country's holidays are all that one has, it names them; else it has all its days.
    """
    newest = {row.name: row for row in calendars.versions(session, names)} if names else {}
    days = calendars.days(session, [row.id for row in newest.values()])
    return [
        _spec(name, CalendarDays.of(row, days[row.id]), today)
        for name, row in sorted(newest.items())
    ]


def _spec(name: str, days: CalendarDays, today: date) -> CalendarSpec:
    if days.source.startswith(PREFIX):
        country = CalendarSpec(name=name, source=days.source)
        try:
            if country.resolved(today) == days:
                return country
        except Problem:  # the country is known no more
            pass
    return CalendarSpec(name=name, weekend=days.weekend, days=days.days, until=days.until)
