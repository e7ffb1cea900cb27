"""Where the days of a calendar come from: a country's holidays, or an iCalendar file (`.ics`).

PyPI's `holidays` knows those of countries, working days that are moved included.
"""

import difflib
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any

from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.calendar_rows import OFF, WORK, CalendarDays
from warren.scheduler.schedules.working_days import WEEKDAYS

PREFIX = "holidays:"
#: Years from now that are computed ahead: holidays that follow rules, and events that repeat.
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
    known_days = holidays.country_holidays(country, subdiv=part or None)
    last = date(min(_last_year(known_days, today), known_days.end_year), 12, 31)
    weekend = tuple(name for number, name in enumerate(WEEKDAYS) if number in known_days.weekend)
    days = {}
    at = first
    while at <= last:
        is_weekend = at.weekday() in known_days.weekend
        if at in known_days and not is_weekend:
            days[at] = f"{OFF} {known_days.get(at)}"
        elif is_weekend and known_days.is_working_day(at):
            days[at] = WORK
        at += timedelta(days=1)
    return CalendarDays(weekend=weekend, days=days, until=last, source=source)


def _last_year(known_days: object, today: date) -> int:
    """Return the last year whose days are known for good."""
    named = getattr(known_days, "special_public_holidays", None)
    if getattr(known_days, "has_substituted_holidays", False) and named:
        return int(max(named))
    return today.year + YEARS_AHEAD


#: The longest event, in days.
MAX_EVENT_DAYS = 366
#: Which days are off if the calendar does not say so.
DEFAULT_WEEKEND = ("SAT", "SUN")
#: How Apple's Chinese calendar marks a weekend day on which people work.
_SPECIAL_DAY, _WORKDAY = "X-APPLE-SPECIAL-DAY", "ALTERNATE-WORKDAY"
#: How others mark it: at the end of an event's summary.
_WORK_SUMMARIES = ("班", "(work)")


def read_ical(text: str, source: str, today: date) -> CalendarDays:
    """Return the days of the events of a file: days off, or working days if it marks them so.

    They end with the year of the last event.

    Raises:
        Problem: it is no iCalendar file, has no events, or the library is not installed.

    """
    try:
        import icalendar  # noqa: PLC0415 - only `warren[server]` has it
    except ImportError as error:
        raise Problem(Code.ICALENDAR_MISSING, "from") from error
    days: dict[date, str] = {}
    try:
        for event in icalendar.Calendar.from_ical(text).walk("VEVENT"):
            said = _said(event)
            for day in _days(event, today):
                if days.get(day) != WORK:
                    days[day] = said
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        why = " ".join(str(error).split())[:100]
        raise Problem(Code.ICALENDAR, "from", got=source[:100], why=why) from error
    if not days:
        raise Problem(Code.ICALENDAR, "from", got=source[:100], why="no all-day event is in it")
    until = date(max(days).year, 12, 31)
    return CalendarDays(weekend=DEFAULT_WEEKEND, days=days, until=until, source=source)


def _said(event: Any) -> str:
    summary = " ".join(str(event.get("SUMMARY", "")).split())
    is_marked = str(event.get(_SPECIAL_DAY, "")).upper() == _WORKDAY
    if is_marked or summary.endswith(_WORK_SUMMARIES):
        return WORK
    return f"{OFF} {summary[:100]}".rstrip()


def _days(event: Any, today: date) -> Iterator[date]:
    """Yield the days of an event and of its repetitions."""
    first = event["DTSTART"].dt
    if isinstance(first, datetime):
        return  # an hour of a day is no day off
    ends = event.get("DTEND")
    last = ends.dt - timedelta(days=1) if ends is not None else first
    length = min((last - first).days, MAX_EVENT_DAYS)
    for start in _starts(event, first, today):
        for number in range(length + 1):
            yield start + timedelta(days=number)


def _starts(event: Any, first: date, today: date) -> Iterator[date]:
    rule = event.get("RRULE")
    if rule is None:
        yield first
        return
    from dateutil.rrule import rrulestr  # noqa: PLC0415 - icalendar brings it

    midnight = datetime(first.year, first.month, first.day)  # noqa: DTZ001 - dates only
    horizon = datetime(today.year + YEARS_AHEAD, 12, 31)  # noqa: DTZ001 - dates only
    repeated = rrulestr(rule.to_ical().decode(), dtstart=midnight, ignoretz=True)
    for at in repeated.between(midnight, horizon, inc=True):
        yield at.date()
