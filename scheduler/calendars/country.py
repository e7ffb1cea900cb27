"""The holidays of a country, as PyPI's `holidays` knows them, moved working days included."""

import difflib
from datetime import date, timedelta

from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.calendar_rows import OFF, WORK, CalendarDays
from warren.scheduler.schedules.working_days import WEEKDAYS

PREFIX = "holidays:"
#: Years that are computed ahead, of countries whose holidays follow rules.
YEARS_AHEAD = 5


def read_country(source: str, today: date) -> CalendarDays:
    """Return the days of a source such as `holidays:CN` or `holidays:DE-BY`, from last year on.

    Where the government names working days each year, they end with the last year that is known.

    Raises:
        Problem: there is no such country or part of it, or the library is not installed.

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
    found = holidays.country_holidays(country, subdiv=part or None)
    last = date(min(_last_year(found, today), found.end_year), 12, 31)
    weekend = tuple(name for number, name in enumerate(WEEKDAYS) if number in found.weekend)
    days = {}
    at = first
    while at <= last:
        is_weekend = at.weekday() in found.weekend
        if at in found and not is_weekend:
            days[at] = f"{OFF} {found.get(at)}"
        elif is_weekend and found.is_working_day(at):
            days[at] = WORK
        at += timedelta(days=1)
    return CalendarDays(weekend=weekend, days=days, until=last, source=source)


def _last_year(found: object, today: date) -> int:
    """Return the last year whose days are known for good."""
    named = getattr(found, "special_public_holidays", None)
    if getattr(found, "has_substituted_holidays", False) and named:
        return int(max(named))
    return today.year + YEARS_AHEAD
