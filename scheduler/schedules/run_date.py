"""The date that a run is about: that of its due time in its job's zone, moved by the job's rule.

A nightly job that works on the day before says `days: -1`. Every later run for the same due time
has the same date: retries, re-runs, shards and children.
"""

import calendar
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from warren.scheduler.problems import Code, Problem

#: The furthest that a rule moves a date.
MAX_DAYS, MAX_MONTHS = 3_660, 120
#: All days that Python knows.
_ORDINALS = range(1, date.max.toordinal() + 1)


@dataclass(frozen=True, slots=True)
class RunDateRule:
    """How far a run's date is from the day of its due time; 0 = that day."""

    days: int = 0
    months: int = 0

    def apply(self, day: date) -> date:
        """Return a day moved by the rule; a month that has no such day ends earlier.

        The first and last days that Python knows are as far as it goes.
        """
        try:
            return months_later(day, self.months) + timedelta(days=self.days)
        except (OverflowError, ValueError):
            return date.min if self.days < 0 or self.months < 0 else date.max

    def days_before(self, first: date, last: date) -> tuple[date, date] | None:
        """Return the first day that the rule moves into [first, last], and the one after the last.

        None if it moves no day there. A rule never changes the order of two days, so those that it
        moves there follow each other.
        """
        begin = bisect_left(_ORDINALS, first, key=self._apply_to_ordinal)
        end = bisect_right(_ORDINALS, last, key=self._apply_to_ordinal)
        if begin >= end or end >= len(_ORDINALS):
            return None
        return date.fromordinal(_ORDINALS[begin]), date.fromordinal(_ORDINALS[end])

    def _apply_to_ordinal(self, ordinal: int) -> date:
        return self.apply(date.fromordinal(ordinal))


def months_later(day: date, months: int) -> date:
    """Return the same day of another month, or that month's last: 31 March less 1 is 28 February.

    Raises:
        ValueError: it is before the year 1 or after 9999.

    """
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return date(year, month + 1, min(day.day, last))


def run_date_of(scheduled_ms: int, zone: str, rule: RunDateRule) -> date:
    """Return the date of a run that is due then, in epoch milliseconds; unknown zones are UTC."""
    return rule.apply(datetime.fromtimestamp(scheduled_ms / 1_000, zone_or_utc(zone)).date())


def parse_date(text: str, field: str = "run_date") -> date:
    """Return a date, written as YYYY-MM-DD.

    Raises:
        Problem: the text is no such date.

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
