"""Raises an alarm when an app with enabled jobs has no executor, and when it has one again.

The stored alarms show which of the two was reported last, so every scheduler knows it.
"""

import time
from collections.abc import Callable

from sqlalchemy.orm import Session

from scheduler.alarms.events import Absence, News, Return, to_text
from scheduler.alarms.policy import AlarmTargets
from scheduler.alarms.targets import channels, targets_of
from scheduler.membership.roster import Roster
from sql.alarms import alarms, rate_limit, recipients
from sql.alarms.alarms import NewAlarm
from sql.alarms.recipients import AppAlarm, WaitingApp
from sql.engine import Database
from sql.registry import presence

ROUND_SECONDS = 5.0
_ABSENCE = "absent:"
_RETURN = "back:"
_SUBJECTS = (_ABSENCE, _RETURN)


class AbsenceWatch:
    """The role that watches apps.

    Args:
        roster: the executors this scheduler itself has heard; only a healthy scheduler judges.
        absence_seconds: how long an app may be without an executor.
        defaults: targets for apps without their own.
        clock: monotonic seconds.

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
        self._defaults = defaults
        self._clock = clock
        self._next_at = 0.0

    def tick(self, now_ms: int) -> float:
        """Check all apps; return the seconds until the next check."""
        pause = self._next_at - self._clock()
        if pause > 0:
            return pause
        self._next_at = self._clock() + ROUND_SECONDS
        if not self._roster.is_healthy:
            return ROUND_SECONDS
        apps, newest = self._database.read(
            lambda session: (
                recipients.waiting_apps(session),
                recipients.newest_of_apps(session, _SUBJECTS),
            )
        )
        changed = [
            app for app in apps if self._targets(app) and self._is_news(app, newest.get(app.id))
        ]
        if changed:
            self._database.write(lambda session: self._tell(session, changed, now_ms))
        return ROUND_SECONDS

    def _is_news(self, app: WaitingApp, told: AppAlarm | None) -> bool:
        """Return whether the last report about an app is out of date."""
        if told is not None and told.subject_key.startswith(_ABSENCE):
            return bool(self._roster.routable(app.name))
        return self._roster.absent_seconds(app.name) >= self._absence_seconds

    def _tell(self, session: Session, apps: list[WaitingApp], now_ms: int) -> None:
        if not rate_limit.hold_lock_row(session):
            return  # another scheduler is doing it; the next check finds what that one reported
        newest = recipients.newest_of_apps(session, _SUBJECTS)
        heard = presence.last_heard(session)
        for app in apps:
            told = newest.get(app.id)
            if not self._is_news(app, told):
                continue
            if told is not None and told.subject_key.startswith(_ABSENCE):
                news: News = Return(app=app.name, since=told.created_at)
                self._keep(session, app, _RETURN, news, now_ms)
            elif now_ms - heard.get(app.name, 0) >= self._absence_seconds * 1000:
                # If another scheduler has heard an executor, that counts.
                seconds = round(self._roster.absent_seconds(app.name))
                jobs = recipients.count_enabled(session, app.id)
                news = Absence(app=app.name, seconds=seconds, jobs=jobs)
                self._keep(session, app, _ABSENCE, news, now_ms)

    def _keep(self, session: Session, app: WaitingApp, kind: str, news: News, now_ms: int) -> None:
        content = to_text(news)
        alarms.add(
            session,
            [
                NewAlarm(
                    subject_key=f"{kind}{app.id}:{now_ms}",
                    channel=channel,
                    target=target,
                    content=content,
                    created_at=now_ms,
                    app_id=app.id,
                )
                for channel, target in channels(self._targets(app))
            ],
        )

    def _targets(self, app: WaitingApp) -> AlarmTargets:
        own = targets_of(app.alarm_email, app.alarm_webhook, app.alarm_style)
        return own or self._defaults
