"""Which days are working days, by a calendar: a series of versions that never change.

A version counts from its instant on. Days are numbered from 1970-01-01.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache

#: The ordinal (`date.toordinal`) of day 0.
EPOCH_ORDINAL = 719_163
#: How many days a due time may move at most.
MAX_MOVE_DAYS = 31
_WEEK = 7
#: Day 0 was a Thursday.
_FIRST_WEEKDAY = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CalendarVersion:
    """One version of a calendar.

    Attributes:
        number: 1, 2, 3 …
        weekend: the weekdays that are off, 0 = Monday.
        days: days that are not as their weekday says: True = a working day.
        names: what some of these days are called.
        until_day: the last day that it knows.
        effective_ms: when it begins to count; the first one counts for all time before too.

    """

    number: int
    weekend: frozenset[int]
    days: Mapping[int, bool]
    until_day: int
    effective_ms: int = 0
    names: Mapping[int, str] = field(default_factory=dict)

    def is_working(self, day: int) -> bool:
        known = self.days.get(day)
        return (day + _FIRST_WEEKDAY) % _WEEK not in self.weekend if known is None else known

    def working_from(self, day: int) -> int | None:
        """Return the first working day from this one on; None if none is near or known."""
        last = min(day + MAX_MOVE_DAYS, self.until_day)
        return next((each for each in range(day, last + 1) if self.is_working(each)), None)

    def working_until(self, day: int) -> int | None:
        """Return the last working day up to this one; None if none is near, or it is unknown."""
        if day > self.until_day:
            return None
        nearby = range(day, day - MAX_MOVE_DAYS - 1, -1)
        return next((each for each in nearby if self.is_working(each)), None)

    def off_days_before(self, day: int) -> Iterator[int]:
        """Yield the days off directly before a day, the nearest first."""
        for each in range(day - 1, day - MAX_MOVE_DAYS - 1, -1):
            if self.is_working(each):
                return
            yield each

    def off_days_after(self, day: int) -> Iterator[int]:
        """Yield the days off directly after a day, as far as they are known."""
        for each in range(day + 1, min(day + MAX_MOVE_DAYS, self.until_day) + 1):
            if self.is_working(each):
                return
            yield each

    def has_working_day(self, since_day: int) -> bool:
        """Whether any day from this one on is a working day."""
        return any(self.is_working(day) for day in range(since_day, self.until_day + 1))


@dataclass(frozen=True, slots=True, eq=False)
class Calendar:
    """All versions of a calendar, the oldest first; there is at least one."""

    name: str
    versions: Sequence[CalendarVersion]

    @property
    def newest(self) -> CalendarVersion:
        """The version that counts in the end."""
        return self.versions[-1]

    def at(self, instant_ms: int) -> CalendarVersion:
        """Return the version in force at an instant."""
        started = (each for each in reversed(self.versions) if each.effective_ms <= instant_ms)
        return next(started, self.versions[0])


#: Calendars by name.
Calendars = Mapping[str, Calendar]
#: For schedules and jobs that use none.
NO_CALENDARS: Calendars = {}


def day_of(of: date) -> int:
    """Return the number of a date."""
    return of.toordinal() - EPOCH_ORDINAL


def date_of(day: int) -> date:
    """Return the date of a day."""
    return date.fromordinal(day + EPOCH_ORDINAL)


#: A day after every schedule's end.
ALWAYS = 400_000


@lru_cache(maxsize=1)
def every_day_until(day: int) -> Calendar:
    """Return a calendar whose days are all working days, for checks that know no other."""
    version = CalendarVersion(number=1, weekend=frozenset(), days={}, until_day=day)
    return Calendar("", (version,))


class UnknownDay(ValueError):
    """A calendar does not know a day that is asked for."""

    def __init__(self) -> None:
        super().__init__("the calendar does not know so many working days")


def workdays_later(version: CalendarVersion, day: date, count: int) -> date:
    """Return the nth working day after a day, or before it if the count is negative.

    0 is the day itself, or the next working day.

    Raises:
        UnknownDay: the calendar does not know it.

    """
    at: int | None = day_of(day)
    if count == 0:
        at = version.working_from(day_of(day))
    for _ in range(abs(count)):
        if at is not None:
            at = version.working_from(at + 1) if count > 0 else version.working_until(at - 1)
    if at is None:
        raise UnknownDay
    return date_of(at)
