"""Raises alarms about new epochs of run ids: the database has lost what was committed last."""

import time
from collections.abc import Callable

import structlog
from sqlalchemy.orm import Session

from warren.scheduler.alarms.events import AlarmTargets, NewEpoch
from warren.scheduler.alarms.targets import alarms_to, app_targets
from warren.scheduler.membership.roster import Roster
from warren.sql import epochs
from warren.sql.alarms import alarms, incidents
from warren.sql.engine import Database
from warren.sql.epochs import EpochRow
from warren.sql.instants import DAY_MS

ROUND_SECONDS = 5.0

log = structlog.get_logger()


class EpochWatch:
    """The role that tells of new epochs; all schedulers raise the same alarms, which count once.

    Args:
        database: where epochs and alarms are stored.
        roster: is told whether executors of 0.1.0 may be given runs.
        defaults: targets for apps without their own.
        clock: a monotonic clock in seconds.

    """

    def __init__(
        self,
        *,
        database: Database,
        roster: Roster,
        defaults: AlarmTargets,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._roster = roster
        self._defaults = defaults
        self._clock = clock
        self._next_at = 0.0
        self._told: set[int] = set()
        self._outdated: list[str] = []

    def run_round(self, now_ms: int) -> float:
        """Tell of epochs of the last day and old executors; return the seconds until the next."""
        wait_seconds = self._next_at - self._clock()
        if wait_seconds > 0:
            return wait_seconds
        self._next_at = self._clock() + ROUND_SECONDS
        found = self._database.read(epochs.all_epochs)
        self._roster.needs_identities = bool(found)
        if (outdated := self._roster.outdated()) != self._outdated:
            self._outdated = outdated
            log.warning("executors_outdated", executors=outdated)
        new = [
            epoch
            for epoch in found
            if epoch.began_at > now_ms - DAY_MS and epoch.began_at not in self._told
        ]
        for epoch in new:
            facts = epoch._asdict()
            log.error("run_ids_moved", **facts)
        if new:
            self._database.write(lambda session: self._tell(session, new, now_ms))
        self._told |= {epoch.began_at for epoch in new}
        return ROUND_SECONDS

    def _tell(self, session: Session, new: list[EpochRow], now_ms: int) -> None:
        for epoch in new:
            incidents.open_one(
                session,
                job_id=0,
                app_id=0,
                rule=incidents.DATABASE,
                due_at=epoch.began_at,
                expected=f"run ids above {epoch.found_id}",
                now_ms=now_ms,
                remind_ms=now_ms,
            )
        told = [
            alarm
            for app in alarms.waiting_apps(session)
            for epoch in new
            for alarm in alarms_to(
                app_targets(app, self._defaults),
                NewEpoch(
                    app=app.name,
                    at=epoch.began_at,
                    cause=epoch.cause,
                    told_by=epoch.told_by,
                    found_id=epoch.found_id,
                    next_id=epoch.next_id,
                ),
                f"epoch:{app.id}:{epoch.began_at}",
                now_ms=now_ms,
                app_id=app.id,
            )
        ]
        alarms.add(session, told)
