"""Raises alarms before the data of a calendar end, because its jobs stop then.

One for each app with enabled jobs that use it, 30 days, a week and a day ahead.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta

from sqlalchemy.orm import Session

from warren.scheduler.alarms.events import AlarmTargets, CalendarEnding
from warren.scheduler.alarms.targets import alarms_to, app_targets
from warren.sql.alarms import alarms
from warren.sql.alarms.alarms import NewAlarm
from warren.sql.engine import Database
from warren.sql.instants import moment
from warren.sql.jobs import calendars
from warren.sql.jobs.calendars import VersionRow

ROUND_SECONDS = 600.0
#: How many days before the end an alarm is raised; the first is also when pages say so.
STAGES = (30, 7, 1)
#: Jobs that an alarm names.
NAMED = 5


class CalendarWatch:
    """The role that watches calendars; all schedulers raise the same alarms, which count once.

    Args:
        database: where calendars and alarms are stored.
        defaults: targets for apps without their own.
        clock: a monotonic clock in seconds.

    """

    def __init__(
        self,
        *,
        database: Database,
        defaults: AlarmTargets,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._defaults = defaults
        self._clock = clock
        self._next_at = 0.0
        self._stored: set[str] = set()

    def run_round(self, now_ms: int) -> float:
        """Check all calendars; return the seconds until the next check."""
        now = self._clock()
        if now < self._next_at:
            return self._next_at - now
        self._next_at = now + ROUND_SECONDS
        found = self._database.read(lambda session: list(self._alarms(session, now_ms)))
        new = [alarm for alarm in found if alarm.subject_key not in self._stored]
        if new:
            self._database.write(lambda session: alarms.add(session, new))
        self._stored = {alarm.subject_key for alarm in found}
        return ROUND_SECONDS

    def _alarms(self, session: Session, now_ms: int) -> Iterator[NewAlarm]:
        for row in _ending(calendars.versions(session), now_ms):
            users = [job for job in calendars.users(session, row.name, None) if job.is_enabled]
            waiting = {app.id: app for app in alarms.waiting_apps(session)} if users else {}
            days = days_left(row, now_ms)
            stage = min(each for each in STAGES if days <= each)
            for app_id, app in waiting.items():
                names = [job.name for job in users if job.app_id == app_id]
                if not names:
                    continue
                news = CalendarEnding(
                    app=app.name,
                    calendar=row.name,
                    until=row.until.isoformat(),
                    jobs=len(names),
                    names=tuple(names[:NAMED]),
                )
                subject_key = f"calendar:{app_id}:{row.name}:{row.until}:{stage}"
                targets = app_targets(app, self._defaults)
                yield from alarms_to(targets, news, subject_key, now_ms=now_ms, app_id=app_id)


def days_left(row: VersionRow, now_ms: int) -> int:
    """Return the days from today, in UTC, to the last one that a calendar knows."""
    return (row.until - moment(now_ms).date()) // timedelta(days=1)


def _ending(rows: Iterable[VersionRow], now_ms: int) -> list[VersionRow]:
    newest = {row.name: row for row in rows}
    return [row for row in newest.values() if 0 <= days_left(row, now_ms) <= STAGES[0]]
