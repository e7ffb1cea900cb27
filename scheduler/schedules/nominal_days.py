"""The days that a schedule means, and the days to which a calendar moves their times."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

from warren.scheduler.cron.expression import Days
from warren.scheduler.schedules.working_days import (
    MAX_MOVE_DAYS,
    CalendarVersion,
    date_of,
    day_of,
)

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
