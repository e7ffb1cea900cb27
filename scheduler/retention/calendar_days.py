"""Calendar days of a time zone as spans of naive UTC; a day may have 23 or 25 hours."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
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
