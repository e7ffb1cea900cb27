"""Notices that an app with enabled jobs has no executor, and that it has one again.

Which of the two was told last stands in the alarms themselves, so every scheduler knows it.
"""

import time
from collections.abc import Callable

from sqlalchemy.orm import Session

from scheduler.alarms.marks import channels, targets_of
from scheduler.alarms.news import Absence, News, Return, to_text
from scheduler.alarms.policy import AlarmTargets
from scheduler.roster import Roster
from sql import alarm_gate, alarm_targets, alarms, presence
from sql.alarms import NewAlarm
from sql.engine import Database
from sql.rows import AnyRow

ROUND_SECONDS = 5.0
_ABSENCE = "absent:"
_RETURN = "back:"


class AbsenceWatch:
    """The role that watches apps.

    Args:
        roster: what this scheduler itself has heard; only a healthy one judges.
        absence_seconds: how long an app may be without an executor.
        defaults: who is told of apps that name nobody.
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
        """Look at all apps, every few seconds; return the seconds until the next look."""
        pause = self._next_at - self._clock()
        if pause > 0:
            return pause
        self._next_at = self._clock() + ROUND_SECONDS
        if not self._roster.is_healthy:
            return ROUND_SECONDS
        apps, newest = self._database.read(
            lambda session: (
                alarm_targets.waiting_apps(session),
                alarm_targets.newest_of_apps(session),
            )
        )
        changed = [
            app for app in apps if self._targets(app) and self._is_news(app, newest.get(app.id))
        ]
        if changed:
            self._database.write(lambda session: self._tell(session, changed, now_ms))
        return ROUND_SECONDS

    def _is_news(self, app: AnyRow, told: AnyRow | None) -> bool:
        """Return whether what is told last of an app is no longer so."""
        if told is not None and told.subject_key.startswith(_ABSENCE):
            return bool(self._roster.routable(app.name))
        return self._roster.absent_seconds(app.name) >= self._absence_seconds

    def _tell(self, session: Session, apps: list[AnyRow], now_ms: int) -> None:
        if not alarm_gate.hold_gate(session):
            return  # another scheduler is at it; the next look finds what it told
        newest = alarm_targets.newest_of_apps(session)
        heard = presence.last_heard(session)
        for app in apps:
            told = newest.get(app.id)
            if not self._is_news(app, told):
                continue
            if told is not None and told.subject_key.startswith(_ABSENCE):
                news: News = Return(app=app.name, since=told.created_at)
                self._keep(session, app, _RETURN, news, now_ms)
            elif now_ms - heard.get(app.name, 0) >= self._absence_seconds * 1000:
                # Had another scheduler heard of one, it would be the one to believe.
                seconds = round(self._roster.absent_seconds(app.name))
                news = Absence(app=app.name, seconds=seconds, jobs=app.jobs)
                self._keep(session, app, _ABSENCE, news, now_ms)

    def _keep(self, session: Session, app: AnyRow, kind: str, news: News, now_ms: int) -> None:
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

    def _targets(self, app: AnyRow) -> AlarmTargets:
        own = targets_of(app.alarm_email, app.alarm_webhook, app.alarm_style)
        return own or self._defaults
