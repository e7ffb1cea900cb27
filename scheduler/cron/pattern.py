"""The wall-clock seconds at which an expression fires, as arithmetic instead of as a list.

A *wall second* counts seconds since 1970-01-01 00:00 on the wall clock of a place, with every day
86,400 long. Nothing here knows of time zones. The seconds of a day are the product of hours,
minutes and seconds, so counting and picking need no walk; days are walked month by month.
"""

from bisect import bisect_left
from calendar import isleap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

from warren.scheduler.cron.days import DayRule

DAY_SECONDS = 86_400
#: The ordinal (`date.toordinal`) of 1970-01-01.
_EPOCH_ORDINAL = 719_163
_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEBRUARY = 2


@dataclass(frozen=True, slots=True)
class DayTimes:
    """The seconds of a day at which an expression fires: each is an hour, a minute, a second."""

    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.hours) * len(self.minutes) * len(self.seconds)

    def rank(self, second: int) -> int:
        """Count how many fire before this second of the day."""
        hour, rest = divmod(second, 3_600)
        minute, second = divmod(rest, 60)
        in_hours, hour_hit = _find(self.hours, hour)
        if not hour_hit:
            return in_hours * len(self.minutes) * len(self.seconds)
        in_minutes, minute_hit = _find(self.minutes, minute)
        in_seconds = bisect_left(self.seconds, second) if minute_hit else 0
        return (in_hours * len(self.minutes) + in_minutes) * len(self.seconds) + in_seconds

    def pick(self, rank: int) -> int:
        """Return the second of the day with so many before it; the inverse of `rank`."""
        rest, second = divmod(rank, len(self.seconds))
        hour, minute = divmod(rest, len(self.minutes))
        return self.hours[hour] * 3_600 + self.minutes[minute] * 60 + self.seconds[second]


@dataclass(frozen=True, slots=True)
class Days:
    """The days on which an expression fires, as days since 1970-01-01."""

    years: Sequence[int]
    months: tuple[int, ...]
    rule: DayRule
    _known: dict[tuple[int, int], tuple[int, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def first_from(self, day: int) -> int | None:
        """Return the first day that is not before this one; None when there is none any more."""
        start = date.fromordinal(day + _EPOCH_ORDINAL)
        for year, month in self._months_from(start.year, start.month):
            zeroth, days = self._month(year, month)
            index = bisect_left(days, day - zeroth)
            if index < len(days):
                return zeroth + days[index]
        return None

    def last_before(self, day: int) -> int | None:
        """Return the last day before this one; None when there is none."""
        start = date.fromordinal(day + _EPOCH_ORDINAL)
        for year, month in self._months_back_from(start.year, start.month):
            zeroth, days = self._month(year, month)
            index = bisect_left(days, day - zeroth)
            if index:
                return zeroth + days[index - 1]
        return None

    def count(self, start: int, end: int) -> int:
        """Count how many days from `start` to before `end`."""
        first, last = (date.fromordinal(day + _EPOCH_ORDINAL) for day in (start, end))
        total = 0
        for year, month in self._months_from(first.year, first.month):
            if (year, month) > (last.year, last.month):
                break
            zeroth, days = self._month(year, month)
            total += bisect_left(days, end - zeroth) - bisect_left(days, start - zeroth)
        return total

    def _months_from(self, year: int, month: int) -> Iterator[tuple[int, int]]:
        for year_at in range(bisect_left(self.years, year), len(self.years)):
            for month_of in self.months:
                if self.years[year_at] > year or month_of >= month:
                    yield self.years[year_at], month_of

    def _months_back_from(self, year: int, month: int) -> Iterator[tuple[int, int]]:
        for year_at in range(bisect_left(self.years, year + 1) - 1, -1, -1):
            for month_of in reversed(self.months):
                if self.years[year_at] < year or month_of <= month:
                    yield self.years[year_at], month_of

    def _month(self, year: int, month: int) -> tuple[int, tuple[int, ...]]:
        """Return the day before the month's first, and the days of the month that are meant."""
        ordinal = date(year, month, 1).toordinal()
        length = 29 if month == _FEBRUARY and isleap(year) else _LENGTHS[month]
        shape = (ordinal % 7 + 1, length)
        days = self._known.get(shape)
        if days is None:
            days = self._known[shape] = tuple(sorted(self.rule.days(*shape)))
        return ordinal - _EPOCH_ORDINAL - 1, days


@dataclass(frozen=True, slots=True)
class Pattern:
    """All wall seconds at which an expression fires."""

    days: Days
    times: DayTimes

    def first_from(self, wall: int) -> int | None:
        """Return the first that is not before this wall second; None if there is none any more."""
        day, second = divmod(wall, DAY_SECONDS)
        rank = self.times.rank(second)
        found = self.days.first_from(day if rank < len(self.times) else day + 1)
        if found is None:
            return None
        return found * DAY_SECONDS + self.times.pick(rank if found == day else 0)

    def last_before(self, wall: int) -> int | None:
        """Return the last before this wall second; None when there is none."""
        day, second = divmod(wall, DAY_SECONDS)
        rank = self.times.rank(second)
        found = self.days.last_before(day + 1 if rank else day)
        if found is None:
            return None
        return found * DAY_SECONDS + self.times.pick(
            (rank if found == day else len(self.times)) - 1
        )

    def count(self, start: int, end: int) -> int:
        """Count how many from `start` to before `end`, which is not smaller."""
        return self._count_before(end, start // DAY_SECONDS) - self._count_before(
            start, start // DAY_SECONDS
        )

    def _count_before(self, wall: int, since_day: int) -> int:
        day, second = divmod(wall, DAY_SECONDS)
        today = self.times.rank(second) if self.days.first_from(day) == day else 0
        return self.days.count(since_day, day) * len(self.times) + today


def _find(numbers: tuple[int, ...], number: int) -> tuple[int, bool]:
    index = bisect_left(numbers, number)
    return index, index < len(numbers) and numbers[index] == number
