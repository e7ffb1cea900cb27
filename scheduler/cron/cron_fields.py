"""The fields of a cron expression, as sets of values, and the days that they select.

Quartz has three rules of its own here: a range may wrap around (`22-2`), `7/6` means from 7 to the
field's end, and a step above the field's size is an error. What Quartz accepts and then ignores
(`MON-FRI/2`, `1-15W`, a step of 0) is refused, because it never does what it says.

A rule sees a month only as its length and the weekday of its first day, so each rule has at most
28 answers. Weekdays are Quartz's: 1 is Sunday, 7 is Saturday.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from warren.scheduler.problems import Code, Problem, Word

#: The most characters of a user's text that an error message repeats.
_ECHO_LIMIT = 60

_PLAIN = re.compile(
    r"(?:(?P<all>\*)|(?P<first>[A-Z]{3}|[0-9]{1,4})(?:-(?P<last>[A-Z]{3}|[0-9]{1,4}))?)?"
    r"(?:/(?P<step>[0-9]{1,4}))?"
)


@dataclass(frozen=True, slots=True)
class Field:
    """One of the seven fields: what it is called and which numbers it takes."""

    name: Word
    low: int
    high: int
    names: tuple[str, ...] = ()
    wraps: bool = True

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.high - self.low + 1

    @property
    def max_step(self) -> int:
        """The longest step: 59 seconds, 23 hours, 31 days, 12 months, 7 weekdays."""
        return self.high

    def refusal(self, text: str) -> Problem:
        """Return the error for a text that is not a number of this field."""
        numbers = {"what": self.name, "least": self.low, "most": self.high, "got": echo(text)}
        if not self.names:
            return Problem(Code.CRON_NUMBER, **numbers)
        return Problem(
            Code.CRON_NUMBER_OR_NAME, first=self.names[0], last=self.names[-1], **numbers
        )


@dataclass(frozen=True, slots=True)
class Span:
    """From `first` to `last` in steps; wraps around the field's end if `last` is smaller."""

    first: int
    last: int
    step: int

    def numbers(self, field: Field) -> Iterator[int]:
        """Yield the numbers, beginning with `first`."""
        last = self.last if self.last >= self.first else self.last + field.size
        for number in range(self.first, last + 1, self.step):
            yield (number - field.low) % field.size + field.low


SECOND = Field(Word.SECOND, 0, 59)
MINUTE = Field(Word.MINUTE, 0, 59)
HOUR = Field(Word.HOUR, 0, 23)
DAY_OF_MONTH = Field(Word.DAY_OF_MONTH, 1, 31)
MONTH = Field(
    Word.MONTH,
    1,
    12,
    ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
)
DAY_OF_WEEK = Field(Word.DAY_OF_WEEK, 1, 7, ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))
#: Quartz gives up searching after 2999.
YEAR = Field(Word.YEAR, 1970, 2999, wraps=False)


class _Cut(str):
    """The beginning of a text, marked as cut."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{super().__repr__()}..."


def echo(text: str) -> str:
    """Return the offending text, cut if it is long."""
    return text if len(text) <= _ECHO_LIMIT else _Cut(text[:_ECHO_LIMIT])


def spans(field: Field, text: str) -> tuple[Span, ...]:
    """Read a whole field of plain items: numbers, names, ranges, steps, `*`, joined by commas.

    Raises `Problem` naming the field for anything else. An empty text has no spans.
    """
    if not text:
        return ()
    return tuple(dict.fromkeys(span(field, item) for item in text.split(",")))


def span(field: Field, item: str) -> Span:
    """Read one plain item of a field."""
    match = _PLAIN.fullmatch(item)
    if match is None or not item:
        raise field.refusal(item)
    start, step = match["first"], _step(field, item, match["step"])
    if start is None:
        return Span(field.low, field.high, step)
    if start.isalpha() and match["step"]:
        raise Problem(Code.CRON_STEP_OF_NAME, what=field.name, got=echo(item))
    first = number(field, start)
    if match["last"] is None:
        return Span(first, field.high if match["step"] else first, step)
    last = number(field, match["last"])
    if start.isalpha() != match["last"].isalpha() or (last < first and not field.wraps):
        raise field.refusal(item)
    return Span(first, last, step)


def number(field: Field, text: str) -> int:
    """Read one number or name of a field."""
    if text in field.names:
        return field.names.index(text) + field.low
    if not text.isdecimal() or not field.low <= int(text) <= field.high:
        raise field.refusal(text)
    return int(text)


def _step(field: Field, item: str, text: str | None) -> int:
    step = 1 if text is None else int(text)
    if not 1 <= step <= field.max_step:
        raise Problem(Code.CRON_STEP, what=field.name, most=field.max_step, got=echo(item))
    return step


_SUNDAY, _SATURDAY, _WEEK = 1, 7, 7
#: `L-30` is the first of a month of 31 days.
_MAX_BEFORE_LAST = 30

_FROM_END = re.compile(r"L(?:-(?P<before>[0-9]{1,2}))?(?P<near>W)?")
_NEAR = re.compile(r"(?P<day>[0-9]{1,2})W")
_LAST_WEEKDAY = re.compile(r"(?P<day>[0-9]|[A-Z]{3})L")
_NTH_WEEKDAY = re.compile(r"(?P<day>[0-9]|[A-Z]{3})#(?P<nth>[0-9]{1,4})")


class DayRule(Protocol):
    """Says which days of a month are meant."""

    def days(self, first_weekday: int, length: int) -> Iterable[int]:
        """Return the days of a month that starts on this weekday and has this many days."""


@dataclass(frozen=True, slots=True)
class MonthDays:
    """Days by number, those counted from the month's end, and the weekdays nearest to either."""

    numbers: frozenset[int] = frozenset()
    before_last: frozenset[int] = frozenset()
    near: frozenset[int] = frozenset()
    near_before_last: frozenset[int] = frozenset()

    def days(self, first_weekday: int, length: int) -> Iterable[int]:
        """Return the days; a day that a short month lacks is left out, not moved."""
        exact = {*self.numbers, *(length - before for before in self.before_last)}
        moved = {*self.near, *(length - before for before in self.near_before_last)}
        near = {_nearest_weekday(day, first_weekday, length) for day in moved if 1 <= day <= length}
        return {day for day in exact if 1 <= day <= length} | near


@dataclass(frozen=True, slots=True)
class Weekdays:
    """Every day that is one of these weekdays."""

    weekdays: frozenset[int]

    def days(self, first_weekday: int, length: int) -> Iterable[int]:
        """Return the days of a month that starts on this weekday and has this many days."""
        return (d for d in range(1, length + 1) if _weekday(d, first_weekday) in self.weekdays)


@dataclass(frozen=True, slots=True)
class NthWeekday:
    """The nth occurrence of a weekday (`6#3`); none in a month that has fewer."""

    weekday: int
    nth: int

    def days(self, first_weekday: int, length: int) -> Iterable[int]:
        day = (self.weekday - first_weekday) % _WEEK + 1 + (self.nth - 1) * _WEEK
        return [day] if day <= length else []


@dataclass(frozen=True, slots=True)
class LastWeekday:
    """The last occurrence of a weekday (`6L`)."""

    weekday: int

    def days(self, first_weekday: int, length: int) -> Iterable[int]:
        """Return the day, which every month has."""
        return [length - (_weekday(length, first_weekday) - self.weekday) % _WEEK]


def month_rule(text: str) -> tuple[MonthDays, str]:
    """Read day of month; return the rule of its L and W items, and the plain items left over.

    Raises `Problem` naming the field. The plain items are not checked.
    """
    sets: dict[str, set[int]] = {"before_last": set(), "near": set(), "near_before_last": set()}
    plain = []
    for item in text.split(","):
        if match := _FROM_END.fullmatch(item):
            kind = "near_before_last" if match["near"] else "before_last"
            sets[kind].add(_before_last(item, match["before"]))
        elif match := _NEAR.fullmatch(item):
            sets["near"].add(number(DAY_OF_MONTH, match["day"]))
        else:
            plain.append(item)
    return MonthDays(**{kind: frozenset(days) for kind, days in sets.items()}), ",".join(plain)


def week_rule(text: str) -> DayRule:
    """Read day of week. Raises `Problem` naming the field."""
    if text == "L":
        return Weekdays(frozenset({_SATURDAY}))
    if match := _LAST_WEEKDAY.fullmatch(text):
        return LastWeekday(number(DAY_OF_WEEK, match["day"]))
    if match := _NTH_WEEKDAY.fullmatch(text):
        nth = int(match["nth"])
        if not 1 <= nth <= 5:  # noqa: PLR2004 - no weekday comes six times a month
            raise Problem(Code.CRON_NTH_WEEKDAY, got=echo(text))
        return NthWeekday(number(DAY_OF_WEEK, match["day"]), nth)
    if "," in text and any(_is_special(item) for item in text.split(",")):
        raise Problem(Code.CRON_NOT_ALONE, got=echo(text))
    days = (day for span in spans(DAY_OF_WEEK, text) for day in span.numbers(DAY_OF_WEEK))
    return Weekdays(frozenset(days))


def _is_special(item: str) -> bool:
    return item == "L" or bool(_LAST_WEEKDAY.fullmatch(item) or _NTH_WEEKDAY.fullmatch(item))


def _before_last(item: str, text: str | None) -> int:
    before = int(text or 0)
    if before > _MAX_BEFORE_LAST:
        raise Problem(Code.CRON_BEFORE_LAST, got=echo(item))
    return before


def _weekday(day: int, first_weekday: int) -> int:
    return (first_weekday + day - 2) % _WEEK + 1


def _nearest_weekday(day: int, first_weekday: int, length: int) -> int:
    """Return the nearest day from Monday to Friday in the same month."""
    weekday = _weekday(day, first_weekday)
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == _SUNDAY:
        return day + 1 if day < length else day - 2
    return day
