"""Which runs a clearing deletes, and the presets that XXL-JOB's console offers for it.

Calendar days of a time zone are spans of naive UTC; a day may have 23 or 25 hours.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import IntEnum
from zoneinfo import ZoneInfo

_DAY = timedelta(days=1)


class CalendarDays:
    """The days of one zone. All datetimes are naive UTC."""

    def __init__(self, timezone: str) -> None:
        self._zone = ZoneInfo(timezone)

    def of(self, moment: datetime) -> date:
        """Return the day of an instant."""
        return moment.replace(tzinfo=UTC).astimezone(self._zone).date()

    def start(self, day: date) -> datetime:
        """Return when a day begins.

        If clocks skip midnight, the day begins at the moment of the skip; if midnight occurs
        twice, at the first.
        """
        midnight = datetime.combine(day, time(), self._zone)
        return midnight.astimezone(UTC).replace(tzinfo=None)

    def end(self, day: date) -> datetime:
        """Return when the next day begins."""
        return self.start(day + _DAY)


def days_between(first: date, last: date) -> Iterator[date]:
    """Yield the days from `first` to `last`, both included."""
    for number in range((last - first).days + 1):
        yield first + number * _DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearingCriteria:
    """Runs of one job, of one app, or of all: those due before `before_ms`, or all.

    `keep` spares this many of the newest runs instead.
    """

    job_id: int | None = None
    app_id: int | None = None
    before_ms: int | None = None
    keep: int | None = None


class ClearingPreset(IntEnum):
    """The nine presets of XXL-JOB, with its numbers."""

    OLDER_THAN_1_MONTH = 1
    OLDER_THAN_3_MONTHS = 2
    OLDER_THAN_6_MONTHS = 3
    OLDER_THAN_1_YEAR = 4
    ALL_BUT_1_000 = 5
    ALL_BUT_10_000 = 6
    ALL_BUT_30_000 = 7
    ALL_BUT_100_000 = 8
    ALL = 9


_MONTHS = {1: 1, 2: 3, 3: 6, 4: 12}
_KEPT = {5: 1_000, 6: 10_000, 7: 30_000, 8: 100_000}


def criteria_of(
    preset: ClearingPreset, *, now_ms: int, job_id: int | None = None, app_id: int | None = None
) -> ClearingCriteria:
    """Return the criteria of a preset at this time."""
    months = _MONTHS.get(preset)
    before_ms = months_before(now_ms, months) if months else None
    return ClearingCriteria(
        job_id=job_id, app_id=app_id, before_ms=before_ms, keep=_KEPT.get(preset)
    )


def months_before(now_ms: int, months: int) -> int:
    """Return the UTC instant so many months ago; a missing 31st becomes the last of the month."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    year, month = divmod(now.year * 12 + now.month - 1 - months, 12)
    for day in range(now.day, 27, -1):
        try:
            return int(now.replace(year=year, month=month + 1, day=day).timestamp() * 1000)
        except ValueError:
            continue
    return int(now.replace(year=year, month=month + 1).timestamp() * 1000)
