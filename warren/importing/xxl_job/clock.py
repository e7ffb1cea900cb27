"""Finds the time zone of XXL-JOB's DATETIME columns, which may differ from its admin's.

JDBC converts times from the admin's zone to the one of its `serverTimezone`. A job's
`trigger_last_time` is epoch milliseconds, and the run that it began has the same time as a
DATETIME: the difference is the offset of their zone.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

from warren.importing.xxl_job.source_tables import INFO, LOG, Row, Source
from warren.sql.imports.foreign import Values
from warren.sql.instants import moment

#: Zones to try if the given one does not fit.
OTHER_ZONES = (
    *("UTC", "Asia/Shanghai", "Asia/Tokyo", "Asia/Singapore", "Asia/Kolkata", "Asia/Dubai"),
    *("Europe/London", "Europe/Berlin", "Europe/Moscow", "Europe/Istanbul"),
    *("America/New_York", "America/Chicago", "America/Los_Angeles", "America/Sao_Paulo"),
    *(f"Etc/GMT{hours:+d}" for hours in range(-14, 13)),
)
#: How many of the latest runs are compared, and how long after its due time one may have begun.
_COMPARED = 5_000
_LATE_SECONDS = 30
#: Offsets of zones are multiples of this.
_STEP_SECONDS = 900


class RunSource(Source, Protocol):
    """Where XXL-JOB's tables, with its latest runs, are read from."""

    def latest_runs(self, columns: list[str], count: int) -> Iterator[Values]:
        """Yield the latest runs, up to `count` of them."""


def datetime_zone(source: RunSource, zone: ZoneInfo) -> ZoneInfo:
    """Return the zone of the DATETIMEs: the given one, unless runs show a different one."""
    wanted = ["id", "trigger_last_time"]
    jobs = [Row.of(INFO, values) for values in source.rows({INFO: wanted})[INFO]]
    begun = {row.id: row.number("trigger_last_time") for row in jobs}
    votes: Counter[int] = Counter()
    at_ms: dict[int, int] = {}
    for values in source.latest_runs(["id", "job_id", "trigger_time"], _COMPARED):
        row = Row.of(LOG, values)
        last_ms = begun.get(row.number("job_id"), 0)
        wall = row.wall_time("trigger_time")
        if last_ms and wall is not None:
            seconds = (wall.replace(tzinfo=UTC) - moment(last_ms)).total_seconds()
            steps = round(seconds / _STEP_SECONDS)
            if -1 <= seconds - steps * _STEP_SECONDS <= _LATE_SECONDS:
                votes[steps * _STEP_SECONDS] += 1
                at_ms[steps * _STEP_SECONDS] = last_ms
    # A job that runs every quarter of an hour suggests many offsets, but most often the right one.
    possible = {offset for offset in votes if abs(offset) <= timedelta(hours=14).total_seconds()}
    given = {offset for offset in possible if _offset(zone, at_ms[offset]) == offset}
    best = max(possible, key=votes.__getitem__, default=None)
    if best is None or any(votes[offset] >= votes[best] for offset in given):
        return zone
    return likely_zone(best, at_ms[best])


def likely_zone(offset_seconds: float, at_ms: int) -> ZoneInfo:
    """Return a common zone with this offset at a time."""
    zones = (ZoneInfo(name) for name in OTHER_ZONES)
    return next((zone for zone in zones if _offset(zone, at_ms) == offset_seconds), ZoneInfo("UTC"))


def _offset(zone: ZoneInfo, at_ms: int) -> float:
    offset = moment(at_ms, zone).utcoffset()
    return offset.total_seconds() if offset else 0.0


def zone_for_past(wall: datetime, now_ms: int) -> ZoneInfo:
    """Return the common zone in which this wall time passed most recently."""
    seconds = (wall.replace(tzinfo=UTC) - moment(now_ms)).total_seconds()
    zones = (ZoneInfo(name) for name in OTHER_ZONES)
    over = [zone for zone in zones if _offset(zone, now_ms) >= seconds]
    return min(over, key=lambda zone: _offset(zone, now_ms), default=ZoneInfo("UTC"))
