"""Working days by a calendar, and the days to which a calendar moves what a schedule means.

A calendar is a series of versions that never change. A version counts from its instant on. Days are
numbered from 1970-01-01.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import lru_cache
from typing import Protocol

from warren.scheduler.cron.expression import Days

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


_DECEMBER = 12


class OnHoliday(StrEnum):
    """What becomes of a due time on a day off."""

    SKIP = "skip"
    NEXT = "next"
    PREVIOUS = "previous"


class NominalDays(Protocol):
    """Days that a calendar moves: how it is asked by `CalendarPlan`.

    `reach_back` and `reach_ahead` are how many days an actual day is at most after and before its
    nominal day; `moves_back` is whether it may come before it, or has no instant of its own.
    """

    reach_back: int
    reach_ahead: int
    moves_back: bool
    decided_by_nominal: bool

    def first_from(self, day: int) -> int | None:
        """Return the first nominal day from this one on."""

    def last_before(self, day: int) -> int | None:
        """Return the last nominal day before this one."""

    def nominal(self, version: CalendarVersion, day: int) -> Iterable[int]:
        """Return the nominal days whose times a version of the calendar moves to this day."""

    def actual(self, version: CalendarVersion, nominal: int) -> int | None:
        """Return the day to which a version moves a nominal day's times."""

    def latest(self, version: CalendarVersion, day: int) -> set[int]:
        """Return the days up to this one to which a version moves later times."""


class MovedDays:
    """The days of an expression, moved off the days off."""

    def __init__(self, days: Days, on_holiday: OnHoliday) -> None:
        self._days = days
        self._on_holiday = on_holiday
        self.first_from = days.first_from
        self.last_before = days.last_before
        self.reach_back = MAX_MOVE_DAYS if on_holiday is OnHoliday.NEXT else 0
        self.reach_ahead = MAX_MOVE_DAYS if on_holiday is OnHoliday.PREVIOUS else 0
        self.moves_back = on_holiday is OnHoliday.PREVIOUS
        self.decided_by_nominal = on_holiday is OnHoliday.NEXT

    def nominal(self, version: CalendarVersion, day: int) -> Iterable[int]:
        """Return the day itself if it is meant, and days off next to it that move there."""
        if day > version.until_day or not version.is_working(day):
            return []
        moved: Iterable[int] = ()
        if self._on_holiday is OnHoliday.NEXT:
            moved = version.off_days_before(day)
        elif self._on_holiday is OnHoliday.PREVIOUS:
            moved = version.off_days_after(day)
        return [each for each in (day, *moved) if self.first_from(each) == each]

    def actual(self, version: CalendarVersion, nominal: int) -> int | None:
        """Return the nearest working day in the direction of the move."""
        if self._on_holiday is OnHoliday.PREVIOUS:
            return version.working_until(nominal)
        if self._on_holiday is OnHoliday.NEXT:
            return version.working_from(nominal)
        known = nominal <= version.until_day and version.is_working(nominal)
        return nominal if known else None

    def latest(self, version: CalendarVersion, day: int) -> set[int]:
        """Return the last working day, if times move back to it."""
        last = version.working_until(day) if self.moves_back else None
        return set() if last is None else {last}


class MonthWorkdays:
    """The nth working day of each month, or from its end; a month's first day stands for it."""

    reach_back = MAX_MOVE_DAYS
    reach_ahead = 0
    moves_back = True
    decided_by_nominal = False

    def __init__(self, nth: int) -> None:
        self._nth = nth
        self._known: dict[tuple[int, int], int | None] = {}

    def first_from(self, day: int) -> int | None:
        """Return the first of a month."""
        on = date_of(day)
        if on.day == 1:
            return day
        year, month = divmod(on.year * _DECEMBER + on.month, _DECEMBER)
        return day_of(on.replace(year=year, month=month + 1, day=1))

    def last_before(self, day: int) -> int:
        """Return the first of the month before, or of this one."""
        return day_of(date_of(day - 1).replace(day=1))

    def nominal(self, version: CalendarVersion, day: int) -> Iterable[int]:
        """Return the month of a day that is its nth working day."""
        month = day_of(date_of(day).replace(day=1))
        return [month] if self.actual(version, month) == day else []

    def actual(self, version: CalendarVersion, nominal: int) -> int | None:
        """Return the nth working day of a month; None if it has fewer, or is not known whole."""
        key = (id(version), nominal)
        if key not in self._known:
            self._known[key] = self._of_month(version, nominal)
        return self._known[key]

    def latest(self, version: CalendarVersion, day: int) -> set[int]:
        """Return the day of this month and of the month before, if it has come."""
        this_month = self.last_before(day + 1)
        months = (this_month, self.last_before(this_month))
        days = (self.actual(version, month) for month in months)
        return {each for each in days if each is not None and each <= day}

    def _of_month(self, version: CalendarVersion, first: int) -> int | None:
        end = self.first_from(first + 1) or first
        if end - 1 > version.until_day and self._nth < 0:
            return None
        known = range(first, min(end, version.until_day + 1))
        working = [day for day in known if version.is_working(day)]
        at = self._nth - 1 if self._nth > 0 else self._nth
        return working[at] if -len(working) <= at < len(working) else None
