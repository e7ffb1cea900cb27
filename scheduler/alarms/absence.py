"""Raises an alarm when an app with enabled jobs has no executor, and when it has one again.

Which of the two was raised last is known from the stored alarms, so all schedulers agree on it.
"""

import time
from collections.abc import Callable

from sqlalchemy.orm import Session

from warren.scheduler.alarms.events import Absence, AlarmTargets, News, Return
from warren.scheduler.alarms.targets import alarms_to, app_targets
from warren.scheduler.membership.roster import Roster
from warren.sql.alarms import alarms, rate_limit
from warren.sql.alarms.alarms import AppAlarm, WaitingApp
from warren.sql.engine import Database
from warren.sql.instants import is_within
from warren.sql.registry import presence

#: The longest and the shortest time between two checks, depending on `absence_seconds`.
ROUND_SECONDS, SHORT_ROUND_SECONDS = 5.0, 0.25
_SUBJECTS = (rate_limit.ABSENCE, rate_limit.RETURN)


class AbsenceWatch:
    """Watches the apps with enabled jobs.

    Args:
        database: where alarms are stored.
        roster: the executors that this scheduler has heard; if it is not healthy, it decides
            nothing.
        absence_seconds: how long an app may be without an executor.
        defaults: targets for apps without their own.
        clock: a monotonic clock in seconds.

    """

    def __init__(
        self,
        *,
        database: Database,
        roster: Roster,
        absence_seconds: float,
        defaults: AlarmTargets,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._roster = roster
        self._absence_seconds = absence_seconds
        self._round_seconds = min(ROUND_SECONDS, max(absence_seconds / 4, SHORT_ROUND_SECONDS))
        self._defaults = defaults
        self._clock = clock
        self._next_at = 0.0

    def run_round(self, now_ms: int) -> float:
        """Check all apps; return the seconds until the next check."""
        wait_seconds = self._next_at - self._clock()
        if wait_seconds > 0:
            return wait_seconds
        self._next_at = self._clock() + self._round_seconds
        if not self._roster.is_healthy:
            return self._round_seconds
        apps, newest = self._database.read(
            lambda session: (
                alarms.waiting_apps(session),
                alarms.newest_of_apps(session, _SUBJECTS),
            )
        )
        changed = [
            app
            for app in apps
            if app_targets(app, self._defaults) and self._has_changed(app, newest.get(app.id))
        ]
        if changed:
            self._database.write(lambda session: self._add_alarms(session, changed, now_ms))
        return self._round_seconds

    def _has_changed(self, app: WaitingApp, last: AppAlarm | None) -> bool:
        """Return whether the last alarm about an app is out of date."""
        if last is not None and last.subject_key.startswith(rate_limit.ABSENCE):
            return bool(self._roster.routable(app.name))
        return self._roster.absent_seconds(app.name) >= self._absence_seconds

    def _add_alarms(self, session: Session, apps: list[WaitingApp], now_ms: int) -> None:
        if not rate_limit.hold_lock_row(session):
            return  # another scheduler is doing this; the next check sees its alarms
        newest = alarms.newest_of_apps(session, _SUBJECTS)
        heard = presence.last_heard(session)
        absence_ms = int(self._absence_seconds * 1000)
        for app in apps:
            last = newest.get(app.id)
            if not self._has_changed(app, last):
                continue
            if last is not None and last.subject_key.startswith(rate_limit.ABSENCE):
                back = Return(app=app.name, since=last.created_at)
                self._add(session, app, rate_limit.RETURN, back, now_ms)
            elif not is_within(heard.get(app.name, 0), now_ms, absence_ms):
                # An executor that another scheduler has heard recently is not absent.
                seconds = round(self._roster.absent_seconds(app.name))
                jobs = alarms.count_enabled(session, app.id)
                news = Absence(app=app.name, seconds=seconds, jobs=jobs)
                self._add(session, app, rate_limit.ABSENCE, news, now_ms)

    def _add(
        self, session: Session, app: WaitingApp, subject: str, news: News, now_ms: int
    ) -> None:
        targets, subject_key = app_targets(app, self._defaults), f"{subject}{app.id}:{now_ms}"
        alarms.add(session, alarms_to(targets, news, subject_key, now_ms=now_ms, app_id=app.id))
