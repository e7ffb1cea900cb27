"""Raises alarms for executors that have reported trouble for a while."""

import time
from collections.abc import Callable, Iterator

from sqlalchemy.orm import Session

from scheduler.alarms.events import Ailing, to_text
from scheduler.alarms.policy import AlarmTargets
from scheduler.alarms.targets import channels, targets_of
from scheduler.membership.roster import Roster
from sql.alarms import alarms, recipients
from sql.alarms.alarms import NewAlarm
from sql.alarms.recipients import WaitingApp
from sql.engine import Database

ROUND_SECONDS = 5.0
#: How long trouble must last before it is an alarm, so that what passes by itself wakes nobody.
AILING_SECONDS = 10.0
#: While it lasts, there is an alarm in each hour of the clock.
HOUR_MS = 3_600_000

#: App, boot, trouble.
_Case = tuple[str, str, tuple[str, ...]]


class AilmentWatch:
    """The role that watches the reports of executors of apps with enabled jobs.

    Args:
        roster: the executors this scheduler itself has heard.
        defaults: targets for apps without their own.
        clock: monotonic seconds.

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
        self._since: dict[_Case, float] = {}
        self._told: set[str] = set()

    def tick(self, now_ms: int) -> float:
        """Check all apps; return the seconds until the next check."""
        now = self._clock()
        if now < self._next_at:
            return self._next_at - now
        self._next_at = now + ROUND_SECONDS
        found = [
            (app, address, case)
            for app in self._database.read(recipients.waiting_apps)
            for address, case in self._cases(app.name)
        ]
        self._since = {case: self._since.get(case, now) for _, _, case in found}
        news = [
            alarm
            for app, address, case in found
            if now - self._since[case] >= AILING_SECONDS
            for alarm in self._alarms(app, address, case, now_ms)
        ]
        # All schedulers do this with the same subject, so only the first alarm is stored.
        fresh = [alarm for alarm in news if alarm.subject_key not in self._told]
        if fresh:
            self._database.write(lambda session: _keep(session, fresh))
        self._told = {alarm.subject_key for alarm in news}
        return ROUND_SECONDS

    def _cases(self, app: str) -> Iterator[tuple[str, _Case]]:
        boots = self._roster.routable(app)
        for address, ailments in self._roster.ailing(app).items():
            if address in boots:
                names = tuple(str(ailment).lower() for ailment in ailments)
                yield address, (app, boots[address], names)

    def _alarms(
        self, app: WaitingApp, address: str, case: _Case, now_ms: int
    ) -> Iterator[NewAlarm]:
        _, boot_id, ailments = case
        seconds = round(self._clock() - self._since[case])
        news = Ailing(app=app.name, address=address, ailments=ailments, seconds=seconds)
        own = targets_of(app.alarm_email, app.alarm_webhook, app.alarm_style)
        for channel, target in channels(own or self._defaults):
            yield NewAlarm(
                subject_key=f"ails:{app.id}:{boot_id}:{','.join(ailments)}:{now_ms // HOUR_MS}",
                channel=channel,
                target=target,
                content=to_text(news),
                created_at=now_ms,
                app_id=app.id,
            )


def _keep(session: Session, fresh: list[NewAlarm]) -> None:
    alarms.add(session, fresh)
