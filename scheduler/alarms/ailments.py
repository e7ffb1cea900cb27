"""Raises alarms about executors that have reported trouble for a while."""

import time
from collections.abc import Callable, Iterator

from warren.scheduler.alarms.events import Ailing, AlarmTargets
from warren.scheduler.alarms.targets import alarms_to, app_targets
from warren.scheduler.membership.roster import Roster
from warren.sql.alarms import alarms
from warren.sql.alarms.alarms import NewAlarm, WaitingApp
from warren.sql.engine import Database
from warren.sql.instants import HOUR_MS

ROUND_SECONDS = 5.0
#: How long trouble must last before it raises an alarm, so that brief trouble raises none.
AILING_SECONDS = 10.0
#: App, boot, trouble.
_Case = tuple[str, str, tuple[str, ...]]


class AilmentWatch:
    """Watches the executors of apps with enabled jobs.

    Args:
        database: where alarms are stored.
        roster: the executors that this scheduler has heard.
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
        self._since: dict[_Case, float] = {}
        self._stored: set[str] = set()

    def run_round(self, now_ms: int) -> float:
        """Check all apps; return the seconds until the next check."""
        now = self._clock()
        if now < self._next_at:
            return self._next_at - now
        self._next_at = now + ROUND_SECONDS
        cases = [
            (app, address, case)
            for app in self._database.read(alarms.waiting_apps)
            for address, case in self._cases(app.name)
        ]
        self._since = {case: self._since.get(case, now) for _, _, case in cases}
        lasting = [
            alarm
            for app, address, case in cases
            if now - self._since[case] >= AILING_SECONDS
            for alarm in self._alarms(app, address, case, now_ms)
        ]
        # All schedulers use the same subject, so only the first alarm is stored.
        new = [alarm for alarm in lasting if alarm.subject_key not in self._stored]
        if new:
            self._database.write(lambda session: alarms.add(session, new))
        self._stored = {alarm.subject_key for alarm in lasting}
        return ROUND_SECONDS

    def _cases(self, app: str) -> Iterator[tuple[str, _Case]]:
        boots = self._roster.routable(app)
        for address, ailments in self._roster.ailing(app).items():
            if address in boots:
                names = tuple(str(ailment).lower() for ailment in ailments)
                yield address, (app, boots[address], names)

    def _alarms(self, app: WaitingApp, address: str, case: _Case, now_ms: int) -> list[NewAlarm]:
        _, boot_id, ailments = case
        seconds = round(self._clock() - self._since[case])
        news = Ailing(app=app.name, address=address, ailments=ailments, seconds=seconds)
        # While trouble lasts, it raises an alarm in each hour of the clock.
        subject_key = f"ails:{app.id}:{boot_id}:{','.join(ailments)}:{now_ms // HOUR_MS}"
        targets = app_targets(app, self._defaults)
        return alarms_to(targets, news, subject_key, now_ms=now_ms, app_id=app.id)
