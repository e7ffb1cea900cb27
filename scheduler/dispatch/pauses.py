"""What pauses hold back at one instant: the whole cluster, some apps, and the runs they delayed.

A scheduled run of a paused app that was due over 5 s before the pause ended is late: it is decided
whether it still runs, as after a downtime in which no scheduler could send. A pause of the whole
cluster counts as a downtime (`scheduler/membership/uptime.py`).
"""

from collections.abc import Iterable
from enum import Enum

from warren.scheduler.membership.uptime import due_times
from warren.sql.registry import pauses
from warren.sql.registry.pauses import EVERY_APP, PauseRow
from warren.sql.run_status import LATE_MS
from warren.sql.runs.due_runs import DueSpan


class MissedBy(Enum):
    """Why a scheduled run could not be sent in time."""

    SCHEDULERS = "SCHEDULERS"
    PAUSE = "PAUSE"
    APP_PAUSE = "APP_PAUSE"


class Pauses:
    """The known pauses at one instant."""

    def __init__(self, known: Iterable[PauseRow] = (), now_ms: int = 0) -> None:
        self._known = tuple(known)
        held = {one.app_id for one in self._known if one.is_in_force(now_ms)}
        self.is_everything_held = EVERY_APP in held
        self.held_apps = frozenset(held - {EVERY_APP})
        self._over = tuple(one for one in self._known if not one.is_in_force(now_ms))

    @property
    def missed(self) -> list[DueSpan]:
        """Spans of due times in which an app's scheduled runs were held back."""
        return due_times(pauses.held_by_apps(self._over))

    def missed_of(self, app_id: int) -> list[DueSpan]:
        """Return the spans of one app."""
        return [span for span in self.missed if span.app_id == app_id]

    def missed_by(self, app_id: int, due_at: int) -> MissedBy:
        """Return what kept a run from being sent in time, if anything has."""
        by = {
            one.app_id
            for one in self._over
            if one.since_at - LATE_MS <= due_at < (one.until_at or 0)
        }
        if app_id in by:
            return MissedBy.APP_PAUSE
        return MissedBy.PAUSE if EVERY_APP in by else MissedBy.SCHEDULERS

    @property
    def is_any_over(self) -> bool:
        """Whether a pause has ended."""
        return bool(self._over)

    def over_before(self, end_ms: int) -> list[int]:
        """Return the ids of pauses that ended before this instant."""
        return [one.id for one in self._over if one.until_at is not None and one.until_at < end_ms]
