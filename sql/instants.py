"""Converts epoch milliseconds to DATETIME columns and ISO 8601, and back."""

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
#: The start of the last day of year 9999: the latest instant that is in that year in every zone.
LATEST_MS = 253_402_214_400_000
#: A stored instant that is further ahead than this is from before the database's clock was set
#: back; schedulers' clocks differ by less.
AHEAD_MS = 5_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
_END_MS = LATEST_MS + DAY_MS - 1


def is_within(instant_ms: int, now_ms: int, span_ms: int) -> bool:
    """Return whether a stored instant is at most `span_ms` ago; not if the clock was set back."""
    return -AHEAD_MS <= now_ms - instant_ms <= span_ms


def moment(instant_ms: int, zone: tzinfo = UTC) -> datetime:
    """Return epoch milliseconds as a datetime; values out of range become the nearest one."""
    utc = _EPOCH + timedelta(milliseconds=min(max(instant_ms, 0), _END_MS))
    try:
        return utc.astimezone(zone)
    except OverflowError:  # the zone is east of UTC, and already in the year 10000
        return _END.replace(tzinfo=zone)


def iso(instant_ms: int | None) -> str | None:
    """Return an instant as ISO 8601 in UTC with offset; None for None and 0."""
    if not instant_ms:
        return None
    return moment(instant_ms).isoformat(timespec="milliseconds")


def at(instant_ms: int) -> datetime:
    """Return epoch milliseconds as a naive UTC datetime, cut to seconds like DATETIME."""
    return _second(instant_ms // 1000)


@lru_cache(maxsize=1_024)
def _second(seconds: int) -> datetime:
    return moment(seconds * 1000).replace(tzinfo=None)


def epoch_ms(moment: datetime) -> int:
    """Return a naive UTC datetime as epoch milliseconds, cut to seconds; the inverse of `at`."""
    return int(moment.replace(tzinfo=UTC).timestamp()) * 1000


def midnight(day: date) -> datetime:
    """Return the start of a day as columns of days have it."""
    return datetime.combine(day, time())
