"""Commands on calendars: a new version, and what it changes about the jobs that use it.

A version counts from ten seconds after it is stored, because due times are planned five seconds
ahead. The jobs that use the calendar are locked meanwhile, and get their next due times by it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from warren.broker.reasons import Why
from warren.scheduler.actor import Right
from warren.scheduler.alarms import skipped
from warren.scheduler.alarms.events import NO_TARGETS
from warren.scheduler.calendars.calendar_spec import CalendarSpec
from warren.scheduler.commands.command_context import Action, CommandContext
from warren.scheduler.commands.schedule_changes import ScheduleChanges
from warren.scheduler.jobs.stop_reasons import ended_with_calendar
from warren.scheduler.membership.self_health import cluster_zone
from warren.scheduler.problems import Problem, explanation
from warren.scheduler.schedules.reading import CalendarDays, NotTaken, load_calendars, read_schedule
from warren.scheduler.schedules.run_date import zone_or_utc
from warren.scheduler.schedules.schedule import ScheduleFacts, Ticks
from warren.scheduler.schedules.working_days import Calendar
from warren.sql import metrics
from warren.sql.instants import moment
from warren.sql.jobs import calendars, due_jobs, history, job_rows
from warren.sql.jobs.due_jobs import JobSchedule
from warren.sql.models import CalendarRow
from warren.sql.registry import apps

#: How long after it is stored a version begins to count.
EFFECTIVE_AFTER_MS = 10_000


@dataclass(frozen=True, slots=True)
class MovedJob:
    """A job whose next due time a version changes; None = it has none, and stops."""

    app: str
    job: str
    before_ms: int | None
    after_ms: int | None


@dataclass(frozen=True, slots=True)
class LostTick:
    """A due time that a version moves into the past: nothing runs for it."""

    job_id: int
    app_id: int
    app: str
    job: str
    tick_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarChange:
    """What a new version of a calendar changes; `number` 0 = it is as described already.

    `until` is the last day that it knows, `effective_ms` when it begins to count, `not_taken` what
    is left of its feed.
    """

    name: str
    number: int = 0
    until: str = ""
    effective_ms: int = 0
    not_taken: NotTaken | None = None
    moved: Sequence[MovedJob] = ()
    lost: Sequence[LostTick] = ()


@dataclass(frozen=True, slots=True)
class _Replanned:
    """A job with its ticks by the new version, and the next one; None = it has none."""

    user: JobSchedule
    ticks: Ticks
    next_ms: int | None


class CalendarCommands:
    """Acts on calendars on behalf of one actor."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._schedules = ScheduleChanges(context)

    def resolved(self, spec: CalendarSpec, *, even_over: bool = False) -> CalendarDays:
        """Return the days of a description, as of today; with `even_over`, also passed ones.

        Raises:
            Problem: it makes no sense.

        """
        today = moment(self._context.now_ms(), zone_or_utc(self._context.timezone)).date()
        return spec.resolved(today, even_over=even_over)

    def foresee(self, name: str, days: CalendarDays) -> CalendarChange:
        """Return what a new version would change; nothing is locked or stored."""

        def unit(session: Session) -> CalendarChange:
            newest = calendars.newest(session, name)
            if newest is not None and newest.digest == days.digest:
                return CalendarChange(name=name, not_taken=days.not_taken)
            self._context.actor.demand(Right.ADMINISTER)
            users = calendars.users_to_plan(session, name, lock=False)
            return self._change(session, name, days, users)[0]

        return self._context.database.read(unit)

    def apply(self, name: str, days: CalendarDays) -> CalendarChange:
        """Store a new version, unless the newest says the same; return what it changes."""

        def unit(session: Session) -> CalendarChange:
            newest = calendars.lock_newest(session, [name]).get(name)
            if newest is not None and newest.digest == days.digest:
                return CalendarChange(name=name)
            users = calendars.users_to_plan(session, name, lock=True)
            change, replanned = self._change(session, name, days, users)
            calendars.add(
                session,
                CalendarRow(
                    name=name,
                    number=change.number,
                    weekend=days.stored_weekend,
                    days=days.stored_days,
                    until=days.until,
                    source=days.source,
                    digest=days.digest,
                    effective_at=change.effective_ms,
                    made_by=self._context.actor.who,
                    not_taken=days.stored_not_taken,
                ),
            )
            self._replan(session, replanned, change)
            self._record_lost(session, change)
            after = {"version": change.number, "until": change.until, "digest": days.digest}
            now_ms = self._context.now_ms()
            action = Action.CALENDAR_APPLY
            self._context.note(session, action, name, 0, now_ms, after=after)
            return change

        return self._context.write(Right.ADMINISTER, unit)

    def _change(
        self, session: Session, name: str, days: CalendarDays, users: Sequence[JobSchedule]
    ) -> tuple[CalendarChange, list[_Replanned]]:
        """Return what a version that is stored now changes; the jobs are already locked."""
        effective_ms = self._context.now_ms() + EFFECTIVE_AFTER_MS
        before = load_calendars(session, [name]).get(name)
        if before:
            # The database's clock may have been set back.
            effective_ms = max(effective_ms, before.newest.effective_ms + 1_000)
        number = before.newest.number + 1 if before else 1
        versions = (*(before.versions if before else ()), days.version(number, effective_ms))
        replanned = list(self._replanned(session, users, Calendar(name, versions)))
        named = apps.names(session, {user.app_id for user in users}) if users else {}
        change = CalendarChange(
            name=name,
            number=number,
            until=days.until.isoformat(),
            effective_ms=effective_ms,
            not_taken=days.not_taken,
            moved=[
                MovedJob(named[job.user.app_id], job.user.name, _next_of(job.user), job.next_ms)
                for job in replanned
                if job.next_ms != _next_of(job.user)
            ],
            lost=list(self._lost(session, replanned, named, effective_ms)),
        )
        return change, replanned

    def _replanned(
        self, session: Session, users: Sequence[JobSchedule], calendar: Calendar
    ) -> Iterable[_Replanned]:
        """Yield the enabled jobs, and those that stopped with the data of the calendar."""
        wanted = [user for user in users if user.is_enabled or ended_with_calendar(user)]
        recorded = history.zones(session, [user.id for user in wanted if not user.timezone])
        usual = cluster_zone(session, self._context.timezone)
        known = {calendar.name: calendar}
        for user in wanted:
            zone = user.timezone or recorded.get(user.id) or usual
            try:
                ticks = read_schedule(ScheduleFacts.of(user, zone), known)
            except Problem:
                continue  # a broken row; the scheduler stops its job
            after_ms = user.last_tick_at if user.is_enabled else self._context.now_ms()
            yield _Replanned(user, ticks, ticks.next_after(after_ms, user.next_tick_at))

    def _replan(
        self, session: Session, replanned: Sequence[_Replanned], change: CalendarChange
    ) -> None:
        """Give the jobs their next due times, and start those that have some again."""
        due_jobs.replan(
            session,
            [
                # Without one, the planner stops the job and says why.
                {"id": job.user.id, "next_tick_at": job.next_ms or change.effective_ms}
                for job in replanned
                if job.user.is_enabled and job.next_ms != job.user.next_tick_at
            ],
        )
        again = [job for job in replanned if not job.user.is_enabled and job.next_ms is not None]
        session.flush()
        for stopped in again:
            job = job_rows.lock(session, stopped.user.id)
            self._schedules.start(session, job, self._context.now_ms())

    def _lost(
        self,
        session: Session,
        replanned: Sequence[_Replanned],
        named: Mapping[int, str],
        effective_ms: int,
    ) -> Iterable[LostTick]:
        for job in replanned:
            if not job.user.is_enabled or not (lost := job.ticks.lost_to(effective_ms)):
                continue
            user, begun = job.user, history.last_change(session, job.user.id)
            for tick in lost:
                if begun is None or tick > begun.watermark:
                    yield LostTick(user.id, user.app_id, named[user.app_id], user.name, tick)

    def _record_lost(self, session: Session, change: CalendarChange) -> None:
        """Record due times that are lost as skipped, with an alarm for each job."""
        if not change.lost:
            return
        why = explanation(Why.CALENDAR_MOVED_IT(number=change.number, calendar=change.name))
        now_ms = self._context.now_ms()
        skips = [
            history.skipped(
                lost.job_id, lost.tick_ms, lost.tick_ms, count=1, why=why, now_ms=now_ms
            )
            for lost in change.lost
        ]
        history.record_skips(session, skips)
        metrics.add_skips(session, Counter(lost.app_id for lost in change.lost))
        skipped.add_missed_alarms(session, skips, NO_TARGETS, now_ms=now_ms)


def _next_of(user: JobSchedule) -> int | None:
    return user.next_tick_at if user.is_enabled else None
