"""What expressions may call, as `days(run_date, -1)` or as the filter `run_date | days(-1)`.

Each takes the value first. None of them takes longer than its arguments are long.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any, TypeAlias

from warren.scheduler.problems import counted
from warren.scheduler.schedules.run_date import MAX_DAYS, MAX_MONTHS, MAX_WORKDAYS, months_later
from warren.scheduler.schedules.working_days import CalendarVersion, UnknownDay, workdays_later

#: What expressions compute with: what JSON holds, dates and times.
Value: TypeAlias = Any

#: The directives of `format`; C libraries would also take widths, as in `%1000000d`.
DIRECTIVES = "YmdHMSjyuwVGU%"
_SURROGATE = re.compile("[\ud800-\udfff]")
_DIRECTIVE = re.compile("%(.?)", re.DOTALL)


#: The longest text of a Fault, which may quote what an expression reads.
FAULT_LENGTH = 1_000


class Fault(ValueError):
    """An expression cannot be read, or has no value; the text says what was expected.

    It can be stored, whatever it quotes: lone surrogates are escaped.
    """

    def __init__(self, words: str) -> None:
        super().__init__(words.encode(errors="backslashreplace").decode()[:FAULT_LENGTH])


def days(value: Value, number: Value) -> date:
    """Return the date that many days later; `-1` is the day before."""
    day, count = _day(value, "days"), _number(number, "days", MAX_DAYS)
    try:
        return day + timedelta(days=count)
    except OverflowError:
        raise Fault(f"there is no date {counted(number, 'day')} from {day}") from None


def months(value: Value, number: Value) -> date:
    """Return the same day that many months later, or the last of a month that has no such day."""
    day, count = _day(value, "months"), _number(number, "months", MAX_MONTHS)
    try:
        return months_later(day, count)
    except ValueError:
        raise Fault(f"there is no date {counted(number, 'month')} from {day}") from None


def workdays(value: Value, number: Value, calendar: CalendarVersion | None) -> date:
    """Return the nth working day after a date, or before it; 0 = it, or the next working day."""
    day, count = _day(value, "workdays"), _number(number, "workdays", MAX_WORKDAYS)
    if calendar is None:
        raise Fault("workdays needs a calendar: that of the job's run_date, or of its schedule")
    try:
        return workdays_later(calendar, day, count)
    except UnknownDay as error:
        raise Fault(str(error)) from None


def format_(value: Value, pattern: Value) -> str:
    """Return a date or time as `strftime` writes it, with the directives in DIRECTIVES."""
    if not isinstance(value, date):
        raise Fault(f"expected format of a date, got: {shown(value)}")
    if not isinstance(pattern, str):
        raise Fault(f"expected format with a text such as '%Y%m', got: {shown(pattern)}")
    for match in _DIRECTIVE.finditer(pattern):
        if not match[1] or match[1] not in DIRECTIVES:
            known = " ".join(f"%{letter}" for letter in DIRECTIVES)
            raise Fault(f"expected one of {known} in format, got: {match[0]!r}")
    return value.strftime(text(pattern))


def tojson(value: Value) -> str:
    """Return a value as JSON; dates and times are texts."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=text)
    except (ValueError, TypeError, RecursionError) as error:
        raise Fault(f"it cannot be written as JSON: {error}") from None


#: All functions by name.
FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "days": days,
    "months": months,
    "workdays": workdays,
    "format": format_,
    "tojson": tojson,
}
#: How many values each takes besides the first.
ARGUMENTS = {"days": 1, "months": 1, "workdays": 1, "format": 1, "tojson": 0}
#: The functions that get the calendar after their values, and where it is among the values that a
#: template may name; no name in a template is spelled like this.
OF_CALENDAR = frozenset({"workdays"})
CALENDAR = "<calendar>"


def text(value: Value) -> str:
    """Return a value as a template writes it: texts as they are, lists and objects as JSON.

    Raises:
        Fault: it cannot be written, or not be stored: it holds a lone surrogate.

    """
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, date):
        return value.isoformat()
    written = value if isinstance(value, str) else tojson(value)
    if not written.isascii() and (half := _SURROGATE.search(written)):
        raise Fault(f"the text holds half a character: {half[0]}")
    return written


def shown(value: Value) -> str:
    """Return a value as a message quotes it."""
    return (value if isinstance(value, str) else text(value))[:60] or "an empty text"


def _day(value: Value, function: str) -> date:
    if isinstance(value, datetime):
        return value.date()
    if not isinstance(value, date):
        raise Fault(f"expected {function} of a date, got: {shown(value)}")
    return value


def _number(value: Value, function: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > most:
        raise Fault(f"expected {function} with a number up to {most}, got: {shown(value)}")
    return value
