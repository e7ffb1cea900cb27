"""Keeps the load of executors, from their heartbeats: one row per executor and minute, for a week.

Every scheduler does it, from the registry; the table's key keeps one row of each minute.
"""

from collections.abc import Iterator

from sqlalchemy.orm import Session

from warren.scheduler.membership.registration import stored_load
from warren.sql.engine import Database
from warren.sql.instants import DAY_MS, HOUR_MS, MINUTE_MS
from warren.sql.registry import presence
from warren.sql.registry.presence import LoadPoint, state

KEPT_MS = 7 * DAY_MS
#: The longest wait; a minute is recorded this late at most.
POLL_SECONDS = 5.0
_FIGURES = ("slots", "running", "waiting", "cpu_percent", "memory_percent")
#: What a SMALLINT holds.
_LARGEST = 32_767


class LoadRecorder:
    """The role that records load."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._recorded_at = 0
        self._cleared_at = 0

    def run_round(self, now_ms: int) -> float:
        """Record the minute, once; return the seconds to wait."""
        minute_at = now_ms - now_ms % MINUTE_MS
        if minute_at > self._recorded_at:
            self._database.write(lambda session: _record(session, minute_at, now_ms))
            self._recorded_at = minute_at
        if now_ms - self._cleared_at >= HOUR_MS and not self._clear(now_ms):
            self._cleared_at = now_ms
        return POLL_SECONDS

    def _clear(self, now_ms: int) -> bool:
        """Delete a chunk of expired points; return False if there were none."""
        return self._database.write(
            lambda session: presence.forget_loads(session, before_ms=now_ms - KEPT_MS)
        )


def _record(session: Session, minute_at: int, now_ms: int) -> None:
    presence.keep_loads(session, _points(session, minute_at, now_ms))


def _points(session: Session, minute_at: int, now_ms: int) -> Iterator[LoadPoint]:
    for row in presence.listing(session, presence.EXECUTOR):
        load = {name: _number(value) for name, value in stored_load(row).items()}
        if state(row, now_ms).is_online and load.get("slots"):
            figures = {name: load.get(name, 0) for name in _FIGURES}
            yield LoadPoint(executor_id=row.id, minute_at=minute_at, **figures)


def _number(value: object) -> int:
    """Return a number that fits the column; 0 if the value is not a number."""
    return min(max(round(value), 0), _LARGEST) if isinstance(value, int | float) else 0
