"""Days off and working days from an iCalendar file (`.ics`)."""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any

from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.calendar_rows import OFF, WORK, CalendarDays

#: The longest event, in days.
LONGEST = 366
#: How far events that repeat are followed, in years from now.
YEARS_AHEAD = 5
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
    length = min((last - first).days, LONGEST)
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
