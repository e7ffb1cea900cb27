"""The date that a run is about: that of its due time in its job's zone, moved by the job's rule.

A nightly job that works on the day before says `days: -1`. Every later run for the same due time
has the same date: retries, re-runs, shards and children.
"""

import calendar
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.working_days import (
    EPOCH_ORDINAL,
    Calendar,
    UnknownDay,
    workdays_later,
)
from warren.sql.instants import DAY_MS

#: The furthest that a rule moves a date.
MAX_DAYS, MAX_MONTHS, MAX_WORKDAYS = 3_660, 120, 366
#: Beyond every instant, in ms.
_FOREVER_MS = 2**62
#: All days that Python knows.
_ORDINALS = range(1, date.max.toordinal() + 1)


@dataclass(frozen=True, slots=True)
class RunDateRule:
    """How far a run's date is from the day of its due time; 0 = that day.

    `workdays` are those of `calendar`.
    """

    days: int = 0
    months: int = 0
    workdays: int = 0
    calendar: Calendar | None = None

    def apply(self, day: date, at_ms: int = 0) -> date:
        """Return a day moved by the rule; a month that has no such day ends earlier.

        It stops at the first and last days that Python knows. `at_ms` is the instant that decides
        the version of the calendar.

        Raises:
            UnknownDay: the calendar does not know that many working days.

        """
        try:
            moved = months_later(day, self.months) + timedelta(days=self.days)
        except (OverflowError, ValueError):
            moved = date.min if self.days < 0 or self.months < 0 else date.max
        if not self.workdays:
            return moved
        if self.calendar is None:
            raise UnknownDay
        return workdays_later(self.calendar.at(at_ms), moved, self.workdays)

    def terms(self) -> Iterator[tuple["RunDateRule", int, int]]:
        """Yield the rule by each version of its calendar, from its first to before its last ms."""
        if self.calendar is None or not self.workdays:
            yield self, -_FOREVER_MS, _FOREVER_MS
            return
        versions = self.calendar.versions
        begins = [-_FOREVER_MS, *(version.effective_ms for version in versions[1:])]
        for version, begin_ms, end_ms in zip(
            versions, begins, [*begins[1:], _FOREVER_MS], strict=True
        ):
            calendar = replace(self.calendar, versions=(version,))
            yield replace(self, calendar=calendar), begin_ms, end_ms

    def days_before(self, first: date, last: date) -> tuple[date, date] | None:
        """Return the first day that the rule moves into [first, last], and the one after the last.

        None if it moves no day there. Its calendar has one version (`terms`): then a rule never
        changes the order of two days, so those that it moves there follow each other. Days beyond
        its calendar count as moved to the end of time.
        """
        begin = bisect_left(_ORDINALS, first, key=self._apply_to_ordinal)
        end = bisect_right(_ORDINALS, last, key=self._apply_to_ordinal)
        if begin >= end or end >= len(_ORDINALS):
            return None
        return date.fromordinal(_ORDINALS[begin]), date.fromordinal(_ORDINALS[end])

    def last_known(self, day: date) -> date:
        """Return the last date to which it moves a day up to this one; its calendar ends before.

        Its calendar has one version, as for `days_before`.
        """
        unknown = bisect_left(_ORDINALS, date.max, hi=day.toordinal(), key=self._apply_to_ordinal)
        return self._apply_to_ordinal(_ORDINALS[unknown - 1])

    def _apply_to_ordinal(self, ordinal: int) -> date:
        try:
            return self.apply(date.fromordinal(ordinal), (ordinal - EPOCH_ORDINAL) * DAY_MS)
        except UnknownDay:
            return date.max


def months_later(day: date, months: int) -> date:
    """Return the same day of another month, or that month's last: 31 March less 1 is 28 February.

    Raises:
        ValueError: it is before the year 1 or after 9999.

    """
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return date(year, month + 1, min(day.day, last))


def run_date_of(scheduled_ms: int, zone: str, rule: RunDateRule) -> date:
    """Return the date of a run that is due then, in epoch milliseconds; unknown zones are UTC.

    Raises:
        UnknownDay: the calendar of the rule does not know it.

    """
    day = datetime.fromtimestamp(scheduled_ms / 1_000, zone_or_utc(zone)).date()
    return rule.apply(day, scheduled_ms)


def parse_date(text: str, field: str = "run_date") -> date:
    """Return a date, written as YYYY-MM-DD.

    Raises:
        Problem: the text is not such a date.

    """
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    # Python also reads 20261201 and 2026-W49-2.
    if day is None or day.isoformat() != text:
        raise Problem(Code.RUN_DATE, field, got=text[:100])
    return day


@lru_cache(maxsize=1_024)
def zone_or_utc(name: str) -> ZoneInfo:
    """Return a time zone by its name; UTC if there is none of that name, as in a broken row."""
    try:
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError):
        return ZoneInfo("UTC")
