"""The days of a country, as PyPI's `holidays` knows them: working days that are moved included."""

import difflib
from datetime import date, timedelta
from typing import Any

from warren.scheduler.calendars.feeds import YEARS_AHEAD
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.calendar_rows import OFF, WORK, CalendarDays
from warren.scheduler.schedules.working_days import WEEKDAYS

PREFIX = "holidays:"


def read_country(source: str, today: date, until: date | None = None) -> CalendarDays:
    """Return the days of a source such as `holidays:CN` or `holidays:DE-BY`, from last year on.

    They end with the last year that has any; where the government moves working days each year,
    with the last one for which it is known. With `until`, with that day: by what the rules say for
    the years that are computed ahead.

    Raises:
        Problem: there is no such country or part of it, its days are over and there is no `until`,
            or the library is not installed.

    """
    try:
        import holidays  # noqa: PLC0415 - half a second, and only `warren[server]` has it
    except ImportError as error:
        raise Problem(Code.HOLIDAYS_MISSING, "from") from error
    code = source.removeprefix(PREFIX)
    country, _, part = code.partition("-")
    supported = holidays.list_supported_countries(include_aliases=True)
    if country not in supported or (part and part not in supported[country]):
        known = [*supported, *(f"{country}-{each}" for each in supported.get(country, ()))]
        near = difflib.get_close_matches(code, known, 1)
        hint = f"{PREFIX}{near[0]}" if near else f"{PREFIX}CN"
        raise Problem(Code.HOLIDAYS_UNKNOWN, "from", got=source[:100], near=hint)
    first = date(today.year - 1, 1, 1)
    known_days = holidays.country_holidays(country, subdiv=part or None)
    last = until or date(_last_year(known_days, today), 12, 31)
    if last < today and until is None:
        facts = {"got": source[:100], "year": today.year, "until": f"{today.year}-12-31"}
        raise Problem(Code.HOLIDAYS_OVER, "from", **facts)
    weekend = tuple(name for number, name in enumerate(WEEKDAYS) if number in known_days.weekend)
    days = {}
    at, ahead = first, date(today.year + YEARS_AHEAD, 12, 31)
    while at <= min(last, ahead):
        is_weekend = at.weekday() in known_days.weekend
        if at in known_days and not is_weekend:
            days[at] = f"{OFF} {known_days.get(at)}"
        elif is_weekend and known_days.is_working_day(at):
            days[at] = WORK
        at += timedelta(days=1)
    return CalendarDays(weekend=weekend, days=days, until=last, source=source)


def _last_year(known_days: Any, today: date) -> int:
    """Return the last year whose days are known for good; one before this year = they are over."""
    last = min(today.year + YEARS_AHEAD, int(known_days.end_year))
    named = getattr(known_days, "special_public_holidays", None)
    if getattr(known_days, "has_substituted_holidays", False) and named:
        last = min(last, int(max(named)))
    years = range(today.year, last + 1)
    for year in years:
        known_days.get(date(year, 1, 1))  # it computes a year when it is asked for a day of it
    return max({day.year for day in known_days}.intersection(years), default=today.year - 1)
