"""Starts, stops and replaces a job's schedule, in the caller's transaction.

Each change first records overdue ticks as skipped, so that no due time is lost between the old
schedule and the new one, and never moves the watermark back. What is planned is up to the
watermark, so all of it belongs to the old schedule: what is due stays, and of what is still to come
a new schedule cancels only what it does not have. A stop cancels everything.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from warren.broker.reasons import Why
from warren.resources.spelling import nearest
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.jobs.spec import JobSpec, facts_of
from warren.scheduler.jobs.stop_reasons import has_ended, is_by_person
from warren.scheduler.membership.self_health import cluster_zone
from warren.scheduler.problems import Code, Problem, explanation, found
from warren.scheduler.schedules.options import CALENDAR_PATTERN, ScheduleOptions
from warren.scheduler.schedules.reading import read_schedule
from warren.scheduler.schedules.registry import FixedDelay, FixedRate, NoSchedule
from warren.scheduler.schedules.schedule import ScheduleFacts, Ticks, calendar_of
from warren.sql import metrics
from warren.sql.alarms import watches
from warren.sql.explanation import Explanation
from warren.sql.jobs import calendars, history
from warren.sql.jobs.due_jobs import PARKED_MS
from warren.sql.models import Job, SkippedTicks
from warren.sql.run_status import BY_SCHEDULE, OPEN, Kind
from warren.sql.runs import planned_runs, ticks, transitions

#: Stopping a job cancels the retries of its schedule's runs too.
_TICKS_AND_RETRIES = (*BY_SCHEDULE, Kind.RETRY)


@dataclass(frozen=True, slots=True)
class Stopped:
    """What a stop has done: how many planned runs it has cancelled."""

    cancelled: int


@dataclass(frozen=True, slots=True)
class ToCome:
    """What becomes of planned runs that are not due yet when their jobs' schedules change.

    Attributes:
        cancelled: those whose ticks the new schedules do not have, with the ids of their jobs.
        moved: of the others, those that are due at another instant from now on.

    """

    cancelled: dict[int, int] = field(default_factory=dict)
    moved: dict[int, int] = field(default_factory=dict)

    @property
    def counts(self) -> Counter[int]:
        """How many runs are cancelled, by the ids of their jobs."""
        return Counter(self.cancelled.values())


_NO_REASON = Explanation()


class ScheduleChanges:
    """Changes schedules on behalf of one actor."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._timezone = context.timezone
        self._who = context.actor.who

    def start(self, session: Session, job: Job, now_ms: int) -> bool:
        """Start a locked job's schedule; return False if it is already started.

        A fixed delay fires at once, or when the open runs of its schedule have ended.

        Raises:
            Problem: the job has no schedule, or one that never fires again.

        """
        if job.is_enabled == 1:
            return False
        self._begin(session, job, now_ms)
        self.record(session, job, now_ms)
        _check_soon(session, [job], now_ms)
        return True

    def check_start(
        self, session: Session, spec: JobSpec, after_ms: int, anchor_ms: int = 0
    ) -> tuple[int, int]:
        """Return the watermark and first tick that a spec's schedule starts with.

        With `anchor_ms`, it keeps the rhythm of that tick.

        Raises:
            Problem: there is no schedule, or one that never fires again.

        """
        zone = self.zone(session, spec.timezone)
        return first_tick(
            self.read(session, facts_of(spec, zone)),
            after_ms,
            job=spec.name,
            anchor_ms=anchor_ms,
        )

    def problems_of(
        self, session: Session, spec: JobSpec, now_ms: int, *, is_sound: bool = True
    ) -> list[Problem]:
        """Return what is wrong with a job by the calendars that it uses; they may be unknown.

        What they leave of its schedule is looked at only if the job `is_sound`.
        """
        by_field = {
            "schedule/calendar": spec.schedule_options.calendar,
            "run_date/calendar": spec.run_date_calendar,
        }
        known = self._context.calendars(session, filter(None, by_field.values()))
        problems = [
            _unknown_calendar(session, name, field)
            for field, name in by_field.items()
            if name and name not in known and re.fullmatch(CALENDAR_PATTERN, name)
        ]
        if problems or not is_sound or not spec.schedule_options.calendar:
            return problems
        facts = facts_of(spec, self.zone(session, spec.timezone))
        wrong = found(lambda: read_schedule(facts, known).check_new(now_ms))
        return [problem.at(f"schedule/{problem.field}".rstrip("/")) for problem in wrong]

    def has_tick(self, session: Session, spec: JobSpec, after_ms: int) -> bool:
        """Whether a job's schedule has a due time after an instant."""
        facts = facts_of(spec, self.zone(session, spec.timezone))
        return self.read(session, facts).start(after_ms)[1] is not None

    def read(self, session: Session, facts: ScheduleFacts) -> Ticks:
        """Return the ticks of a schedule.

        Raises:
            Problem: it cannot be read, or there is no such calendar.

        """
        name = ScheduleOptions.from_json(facts.options).calendar
        return read_schedule(facts, self._context.calendars(session, filter(None, [name])))

    def hold(self, session: Session, names: Iterable[str]) -> None:
        """Let new versions of calendars wait until this transaction has stored who uses them."""
        if held := set(filter(None, names)):
            with session.no_autoflush:
                calendars.lock_newest(session, held)

    def zone(self, session: Session, timezone: str | None) -> str:
        """Return the zone of a job with this one, or with none of its own."""
        return timezone or cluster_zone(session, self._timezone)

    def take_over(
        self, session: Session, job: Job, next_ms: int, now_ms: int, *, decided_ms: int = 0
    ) -> None:
        """Start a locked job that another scheduler has run; its next tick there was `next_ms`.

        Ticks from then to now are late, and the job's misfire policy decides about them. `next_ms`
        0 = unknown: the job starts now. Ticks up to `decided_ms` were decided here before.

        Raises:
            Problem: the job has no schedule, or one that never fires again.

        """
        if not next_ms:
            self.start(session, job, now_ms)
            return
        schedule = self._schedule(session, job)
        watermark = max(min(next_ms - 1, now_ms), decided_ms)
        if period_ms := schedule.fixed_period_ms():
            # It also has ticks before `next_ms`; the other scheduler has decided those.
            watermark = max(watermark, next_ms - period_ms)
        tick = schedule.next_after(watermark, next_ms) if schedule.fires else None
        if tick is None:
            raise Problem(
                Code.NEVER_FIRES, "schedule", job=job.name, why=schedule.end_reason(watermark)
            )
        job.is_enabled, job.stop_reason, job.stop_why = 1, None, None
        job.last_tick_at, job.next_tick_at = watermark, tick
        self.record(session, job, now_ms)
        _check_soon(session, [job], watermark)

    def _begin(self, session: Session, job: Job, now_ms: int, anchor_ms: int = 0) -> None:
        self.hold(session, [calendar_of(job)])
        schedule = self._schedule(session, job)
        watermark, tick = first_tick(
            schedule,
            max(job.last_tick_at, now_ms),
            job=job.name,
            anchor_ms=anchor_ms,
        )
        if schedule.waits_for_completion and _is_at_work(session, job.id):
            tick = PARKED_MS
        job.is_enabled, job.stop_reason, job.stop_why = 1, None, None
        job.last_tick_at, job.next_tick_at = watermark, tick

    def stop(self, session: Session, job: Job, now_ms: int) -> Stopped | None:
        """Stop a locked job's schedule and cancel its planned runs.

        Returns None if there was nothing to stop or cancel.
        """
        cancelled = self.stop_all(session, [job], now_ms).get(job.id)
        return None if cancelled is None else Stopped(cancelled)

    def stop_all(self, session: Session, jobs: Sequence[Job], now_ms: int) -> dict[int, int]:
        """Stop the schedules of locked jobs and cancel their planned runs.

        Returns how many it cancelled of each job that had something to stop or cancel, by id; a
        schedule that ended by itself may still have runs that would be retried.
        """
        reason = explanation(Why.STOPPED_BY(who=self._who))
        enabled = [job for job in jobs if job.is_enabled == 1]
        self._decide_overdue(session, dict.fromkeys(enabled, now_ms), now_ms, reason)
        with session.no_autoflush:  # otherwise jobs would be written twice
            cancelled = transitions.cancel(
                session,
                [job.id for job in jobs],
                reason=reason,
                now_ms=now_ms,
                kinds=_TICKS_AND_RETRIES,
                schedule_only=True,
            )
            metrics.add_cancelled(session, _by_app(jobs, cancelled))
        ended = [job for job in jobs if has_ended(job)]
        for job in enabled:
            job.is_enabled, job.next_tick_at = 0, 0
            job.stop_reason = job.stop_why = None
            self.record(session, job, now_ms)
        for job in ended:
            job.stop_reason, job.stop_why = reason.text, reason.why
        _check_soon(session, jobs, now_ms)
        return dict.fromkeys((job.id for job in (*enabled, *ended)), 0) | dict(cancelled)

    def clear_stop(self, job: Job) -> None:
        """Clear the reason why a locked job stopped by itself, so that it can be started.

        Until then its runs are still retried, unless a person has stopped it since.
        """
        if job.is_enabled == 1 or is_by_person(job):
            job.stop_reason = job.stop_why = None
        else:
            reason = explanation(Why.SCHEDULE_CHANGED_BY(who=self._who))
            job.stop_reason, job.stop_why = reason.text, reason.why

    def to_stop(self, session: Session, jobs: Sequence[Job]) -> dict[int, int]:
        """Return what `stop_all` would return, without locks."""
        ids = [job.id for job in jobs]
        planned = planned_runs.of_jobs(session, ids, _TICKS_AND_RETRIES, schedule_only=True)
        stopping = (job.id for job in jobs if job.is_enabled == 1 or has_ended(job))
        return dict.fromkeys(stopping, 0) | dict(Counter(planned.values()))

    def to_come(self, session: Session, wanted: Mapping[Job, JobSpec], now_ms: int) -> ToCome:
        """Return what becomes of what jobs have planned when they get the schedules of specs."""
        with session.no_autoflush:  # otherwise jobs would be written twice
            waiting = planned_runs.to_come(session, [job.id for job in wanted], after_ms=now_ms)
        by_id = {job.id: (job, spec) for job, spec in wanted.items()}
        result = ToCome()
        for run_id, job_id, tick, planned_ms in waiting:
            job, spec = by_id[job_id]
            ticks = self.read(session, facts_of(spec, self.zone(session, spec.timezone)))
            due_ms = max(now_ms, ticks.due_at(job_id, tick))
            has_it = ticks.next_after(tick - 1, tick) == tick
            if not has_it or restarts_schedule(job, spec):
                result.cancelled[run_id] = job_id
            elif due_ms != planned_ms:
                result.moved[run_id] = due_ms
        return result

    def settle_old(
        self, session: Session, jobs: Mapping[Job, int], to_come: ToCome, now_ms: int
    ) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """Skip overdue ticks and cancel planned ones before locked jobs' schedules change.

        `jobs` says for each when the new schedule begins; ticks up to then are skipped. Returns how
        many runs were cancelled, and how many ticks skipped, by job.
        """
        reason = explanation(Why.SCHEDULE_CHANGED_BY(who=self._who))
        skipped = self._decide_overdue(session, jobs, now_ms, reason)
        with session.no_autoflush:
            cancelled = transitions.cancel_these(
                session, to_come.cancelled, reason=reason, now_ms=now_ms
            )
            metrics.add_cancelled(session, _by_app(jobs, cancelled))
            planned_runs.postpone(session, to_come.moved)
        return cancelled, skipped

    def start_new(self, session: Session, job: Job, now_ms: int, anchor_ms: int = 0) -> None:
        """Start a locked job's new schedule, if the job is enabled.

        With `anchor_ms`, it keeps the rhythm of that tick.
        """
        if job.is_enabled == 1:
            self._begin(session, job, now_ms, anchor_ms)
            self.record(session, job, now_ms)
            _check_soon(session, [job], now_ms)

    def record(self, session: Session, job: Job, now_ms: int) -> None:
        """Record the current schedule of a stored job in its history."""
        self._record(session, job, self.zone(session, job.timezone), now_ms)

    def record_texts(self, session: Session, jobs: Sequence[Job], now_ms: int) -> None:
        """Record stored jobs whose schedules have new policies or words, but the same ticks."""
        zones = self.zones(session, jobs)
        for job in jobs:
            self._record(session, job, zones[job.id], now_ms)

    def _record(self, session: Session, job: Job, zone: str, now_ms: int) -> None:
        history.record_change(
            session, job, timezone=zone, by=self._who, now_ms=now_ms, anchor_ms=job.next_tick_at
        )

    def zones(self, session: Session, jobs: Sequence[Job]) -> dict[int, str]:
        """Return the zone in which each job's current ticks are due.

        It is the recorded one, as schedulers may have started with another one since.
        """
        with session.no_autoflush:  # otherwise changed jobs would be written one by one
            recorded = history.zones(session, [job.id for job in jobs if not job.timezone])
        return {job.id: recorded.get(job.id) or self.zone(session, job.timezone) for job in jobs}

    def overdue(
        self,
        session: Session,
        until: Mapping[Job, int],
        now_ms: int,
        reason: Explanation = _NO_REASON,
    ) -> list[SkippedTicks]:
        """Return records of the ticks of jobs that were never planned, each up to an instant."""
        enabled = [job for job in until if job.is_enabled == 1]
        zones = self.zones(session, enabled)
        skips = [
            self._overdue(session, job, zones[job.id], until[job], now_ms=now_ms, reason=reason)
            for job in enabled
        ]
        return [skip for skip in skips if skip is not None]

    def _decide_overdue(
        self, session: Session, until: Mapping[Job, int], now_ms: int, reason: Explanation
    ) -> dict[int, int]:
        """Record overdue ticks as skipped; return how many there are, by job."""
        skipped = self.overdue(session, until, now_ms, reason)
        history.record_skips(session, skipped)
        numbers = {skip.job_id: skip.count for skip in skipped}
        metrics.add_skips(session, _by_app(until, numbers))
        for job, until_ms in until.items():
            if job.is_enabled == 1:
                job.last_tick_at = max(job.last_tick_at, until_ms)
        return numbers

    def _overdue(
        self,
        session: Session,
        job: Job,
        zone: str,
        until_ms: int,
        *,
        now_ms: int,
        reason: Explanation,
    ) -> SkippedTicks | None:
        """Return the record of a job's ticks that were never planned; None if there are none.

        A schedule that cannot be read counts as having no ticks, so that its job can be stopped.
        """
        schedule: Ticks
        try:
            schedule = self.read(session, ScheduleFacts.of(job, zone))
            anchor = job.next_tick_at
        except Problem:
            schedule, anchor = NoSchedule(), 0
        first = schedule.next_after(job.last_tick_at, anchor)
        last = schedule.last_until(job.last_tick_at, until_ms, anchor)
        if first is None or last is None:
            return None
        return history.skipped(
            job.id,
            first,
            last,
            count=schedule.count(job.last_tick_at, until_ms, anchor),
            why=reason,
            now_ms=now_ms,
        )

    def _schedule(self, session: Session, job: Job) -> Ticks:
        zone = self.zone(session, job.timezone)
        return self.read(session, ScheduleFacts.of(job, zone))


def _unknown_calendar(session: Session, name: str, field: str) -> Problem:
    known = calendars.names(session)
    if near := nearest(name, known):
        return Problem(Code.CALENDAR_UNKNOWN_NEAR, field, got=name, near=near)
    return Problem(Code.CALENDAR_UNKNOWN, field, got=name)


def _by_app(jobs: Iterable[Job], numbers: Mapping[int, int]) -> Counter[int]:
    """Return the sums of jobs' numbers by app id."""
    sums: Counter[int] = Counter()
    for job in jobs:
        sums[job.app_id] += numbers.get(job.id, 0)
    return sums


def restarts_schedule(job: Job, spec: JobSpec) -> bool:
    """Whether a spec's schedule counts from its start instead of from the stored one's ticks.

    A fixed rate continues if its period and beginning are the same, whatever else narrows or moves
    its ticks, or in the rhythm of its beginning; the open tick of a fixed delay stays with any
    delay.
    """
    if spec.schedule_kind == FixedDelay.kind:
        return job.schedule_kind != FixedDelay.kind
    if spec.schedule_kind != FixedRate.kind:
        return False
    wanted, begin = spec.schedule_options, ScheduleOptions.from_json(job.schedule_options).begin
    if wanted.begin and wanted.rule > 1:
        return False
    stored = (job.schedule_kind, job.schedule_value, begin)
    return stored != (FixedRate.kind, spec.schedule_value, wanted.begin)


def first_tick(schedule: Ticks, after_ms: int, *, job: str, anchor_ms: int = 0) -> tuple[int, int]:
    """Return the watermark and the first tick of a schedule that starts after an instant.

    With `anchor_ms`, it keeps the rhythm of that tick.

    Raises:
        Problem: there is no schedule, or one that never fires again.

    """
    if not schedule.fires:
        raise Problem(Code.NO_SCHEDULE, "schedule", job=job)
    if anchor_ms:
        watermark, tick = after_ms, schedule.next_after(after_ms, anchor_ms)
    else:
        watermark, tick = schedule.start(after_ms)
    if tick is None:
        raise Problem(Code.NEVER_FIRES, "schedule", job=job, why=schedule.end_reason(watermark))
    return watermark, tick


def _check_soon(session: Session, jobs: Iterable[Job], since_ms: int) -> None:
    """Have jobs checked soon if they have expectations."""
    with session.no_autoflush:  # otherwise jobs would be written one by one
        watches.look_soon(session, [job.id for job in jobs if job.expect], since_ms=since_ms)


def _is_at_work(session: Session, job_id: int) -> bool:
    """Whether a run of a locked job's schedule is open.

    Locking the runs waits for transactions that are just ending them. Those may have planned
    another attempt, so the query is repeated.
    """
    while run_ids := ticks.open_ids(session, job_id):
        if any(run.status in OPEN for run in transitions.lock(session, run_ids)):
            return True
    return False
