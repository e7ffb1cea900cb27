"""Watches that raise alarms: absent apps, unhealthy executors, ending calendars, new epochs."""

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta

import structlog
from sqlalchemy.orm import Session

from warren.broker.messages import HealthIssue
from warren.scheduler.alarms.events import (
    Absence,
    AlarmTargets,
    CalendarEnding,
    NewEpoch,
    News,
    Return,
    SchedulerUnwell,
    Unhealthy,
)
from warren.scheduler.alarms.targets import alarms_to, app_targets
from warren.scheduler.membership.roster import Roster
from warren.scheduler.membership.self_health import SelfIssue
from warren.sql import epochs
from warren.sql.alarms import alarms, incidents
from warren.sql.alarms.alarms import AppAlarm, NewAlarm, WaitingApp
from warren.sql.engine import Database
from warren.sql.epochs import EpochRow
from warren.sql.instants import DAY_MS, HOUR_MS, is_within, moment
from warren.sql.jobs import calendars
from warren.sql.jobs.calendars import VersionRow
from warren.sql.registry import presence

#: The shortest time between two checks for absence, depending on `absence_seconds`, and the usual.
SHORT_ROUND_SECONDS = 0.25
ROUND_SECONDS = 5.0
_SUBJECTS = (alarms.ABSENCE, alarms.RETURN)


class AbsenceWatch:
    """Watches the apps with enabled jobs.

    Args:
        database: where alarms are stored.
        roster: the executors that this scheduler has heard; if it is not healthy, it decides
            nothing.
        absence_seconds: how long an app may be without an executor.
        defaults: targets for apps without their own.

    """

    def __init__(
        self,
        *,
        database: Database,
        roster: Roster,
        absence_seconds: float,
        defaults: AlarmTargets,
    ) -> None:
        self._database = database
        self._roster = roster
        self._absence_seconds = absence_seconds
        self._round_seconds = min(ROUND_SECONDS, max(absence_seconds / 4, SHORT_ROUND_SECONDS))
        self._defaults = defaults

    def run_round(self, now_ms: int) -> float:
        """Check all apps; return the seconds until the next check."""
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
        if last is not None and last.subject_key.startswith(alarms.ABSENCE):
            return bool(self._roster.routable(app.name))
        return self._roster.absent_seconds(app.name) >= self._absence_seconds

    def _add_alarms(self, session: Session, apps: list[WaitingApp], now_ms: int) -> None:
        if not alarms.hold_lock_row(session):
            return  # another scheduler is doing this; the next check sees its alarms
        newest = alarms.newest_of_apps(session, _SUBJECTS)
        heard = presence.last_heard(session)
        absence_ms = int(self._absence_seconds * 1000)
        for app in apps:
            last = newest.get(app.id)
            if not self._has_changed(app, last):
                continue
            if last is not None and last.subject_key.startswith(alarms.ABSENCE):
                back = Return(app=app.name, since=last.created_at)
                self._add(session, app, alarms.RETURN, back, now_ms)
            elif not is_within(heard.get(app.name, 0), now_ms, absence_ms):
                # An executor that another scheduler has seen recently is not absent.
                seconds = round(self._roster.absent_seconds(app.name))
                jobs = alarms.count_enabled(session, app.id)
                news = Absence(app=app.name, seconds=seconds, jobs=jobs)
                self._add(session, app, alarms.ABSENCE, news, now_ms)

    def _add(
        self, session: Session, app: WaitingApp, subject: str, news: News, now_ms: int
    ) -> None:
        targets, subject_key = app_targets(app, self._defaults), f"{subject}{app.id}:{now_ms}"
        alarms.add(session, alarms_to(targets, news, subject_key, now_ms=now_ms, app_id=app.id))


#: How long a health issue must last before it raises an alarm.
UNHEALTHY_SECONDS = 10.0
#: App, boot, health issues.
_Case = tuple[str, str, tuple[str, ...]]


class HealthIssueWatch:
    """Watches the executors of apps with enabled jobs, and the scheduler that it belongs to.

    Args:
        database: where alarms are stored.
        roster: the executors that this scheduler has heard.
        defaults: targets for apps without their own.
        node: the name of this scheduler.
        issues: returns what is wrong with this scheduler.
        clock: a monotonic clock in seconds.

    """

    def __init__(
        self,
        *,
        database: Database,
        roster: Roster,
        defaults: AlarmTargets,
        node: str,
        issues: Callable[[], Iterable[SelfIssue]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._roster = roster
        self._defaults = defaults
        self._node = node
        self._issues = issues
        self._clock = clock
        self._since: dict[_Case, float] = {}
        self._stored: set[str] = set()

    def run_round(self, now_ms: int) -> float:
        """Check all apps; return the seconds until the next check."""
        now = self._clock()
        own = [("", "", (issue.value,)) for issue in self._issues() if issue.raises_alarm]
        cases = [
            (app, address, case)
            for app in self._database.read(alarms.waiting_apps)
            for address, case in (*self._cases(app.name), *((self._node, case) for case in own))
        ]
        self._since = {case: self._since.get(case, now) for _, _, case in cases}
        lasting = [
            alarm
            for app, address, case in cases
            if now - self._since[case] >= UNHEALTHY_SECONDS
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
        for address, issues in self._roster.unhealthy(app).items():
            if address in boots:
                names = tuple(str(issue).lower() for issue in issues)
                yield address, (app, boots[address], names)
        for (_, address), boot_id in self._roster.unreachable(app).items():
            yield address, (app, boot_id or address, (HealthIssue.QUEUE.lower(),))

    def _alarms(self, app: WaitingApp, address: str, case: _Case, now_ms: int) -> list[NewAlarm]:
        _, boot_id, issues = case
        seconds = round(self._clock() - self._since[case])
        news: News = Unhealthy(app=app.name, address=address, health_issues=issues, seconds=seconds)
        if not boot_id:
            # Schedulers share a broker and a database, so the first one speaks for all.
            boot_id, servers = "scheduler", self._database.replaced_servers
            news = SchedulerUnwell(
                app=app.name,
                node=address,
                problems=issues,
                servers=servers if SelfIssue.SERVER in issues else (),
                seconds=seconds,
            )
        # While it lasts, an executor raises one alarm per clock hour.
        subject_key = f"ails:{app.id}:{boot_id}:{','.join(issues)}:{now_ms // HOUR_MS}"
        targets = app_targets(app, self._defaults)
        return alarms_to(targets, news, subject_key, now_ms=now_ms, app_id=app.id)


CALENDAR_ROUND_SECONDS = 600.0
#: How many days before the end an alarm is raised; pages show it from the first on.
STAGES = (30, 7, 1)
#: Jobs that an alarm names.
NAMED = 5


class CalendarWatch:
    """The role that watches calendars; all schedulers raise the same alarms, which count once.

    Args:
        database: where calendars and alarms are stored.
        defaults: targets for apps without their own.

    """

    def __init__(
        self,
        *,
        database: Database,
        defaults: AlarmTargets,
    ) -> None:
        self._database = database
        self._defaults = defaults
        self._stored: set[str] = set()

    def run_round(self, now_ms: int) -> float:
        """Check all calendars; return the seconds until the next check."""
        found = self._database.read(lambda session: list(self._alarms(session, now_ms)))
        new = [alarm for alarm in found if alarm.subject_key not in self._stored]
        if new:
            self._database.write(lambda session: alarms.add(session, new))
        self._stored = {alarm.subject_key for alarm in found}
        return CALENDAR_ROUND_SECONDS

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


log = structlog.get_logger()


class EpochWatch:
    """The role that raises alarms about new epochs; those of all schedulers count once.

    Args:
        database: where epochs and alarms are stored.
        roster: learns whether executors of 0.1.0 may get runs.
        defaults: targets for apps without their own.

    """

    def __init__(
        self,
        *,
        database: Database,
        roster: Roster,
        defaults: AlarmTargets,
    ) -> None:
        self._database = database
        self._roster = roster
        self._defaults = defaults
        self._told: set[int] = set()
        self._told_replaced: tuple[str, ...] = ()
        self._outdated: list[str] = []

    def run_round(self, now_ms: int) -> float:
        """Tell of epochs of the last day and old executors; return the seconds until the next."""
        found = self._database.read(epochs.all_epochs)
        self._roster.needs_identities = bool(found)
        self._database.note_epochs(found)
        self._watch_servers(now_ms)
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

    def _watch_servers(self, now_ms: int) -> None:
        """Open an incident if a server can be written that was replaced; one for each epoch."""
        self._database.watch_servers()
        names, epoch = self._database.replaced_servers, self._database.epoch
        if names and names != self._told_replaced:
            self._database.write(
                lambda session: incidents.open_one(
                    session,
                    job_id=0,
                    app_id=0,
                    rule=incidents.SERVER,
                    due_at=epoch,
                    expected=f"{', '.join(names)[:50]}: read-only",
                    now_ms=now_ms,
                    remind_ms=now_ms,
                )
            )
        self._told_replaced = names

    def _tell(self, session: Session, new: list[EpochRow], now_ms: int) -> None:
        for epoch in new:
            incidents.open_one(
                session,
                job_id=0,
                app_id=0,
                rule=incidents.DATABASE,
                due_at=epoch.began_at,
                expected=_expected(epoch),
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


def _expected(epoch: EpochRow) -> str:
    if epoch.cause == epochs.Cause.PROMOTED:
        return "the server of before"
    return f"run ids above {epoch.found_id}"
