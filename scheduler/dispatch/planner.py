"""Turns ticks into PLANNED rows, five seconds ahead; never sends anything.

One transaction claims due jobs, inserts a row for every tick in the window, and moves each job's
watermark. A crash before the commit leaves the work to another scheduler; after it, nothing is left
to do: the rows are the timer.

When schedulers start with another zone, a job that names none changes its zone at its watermark:
its ticks up to then are decided in the zone of its history; from then on it continues in the
new one. The change is recorded there, as the audit computes each tick in the zone of its time.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import structlog
from sqlalchemy.orm import Session

from warren.broker.reasons import Reason, Why
from warren.scheduler.alarms import skipped
from warren.scheduler.alarms.events import NO_TARGETS, AlarmTargets
from warren.scheduler.backfills import kept_schedule
from warren.scheduler.backfills.kept_schedule import Span
from warren.scheduler.completion.completion import Completion
from warren.scheduler.jobs.new_run import app_names_for, calendars_for_runs, run_of
from warren.scheduler.metrics import Ended
from warren.scheduler.node_context import NodeContext
from warren.scheduler.problems import explanation, fault_of
from warren.scheduler.rounds import OLD_RUNS, bisect
from warren.scheduler.schedules.misfire import (
    OVERDUE_LIMIT,
    WINDOW_MS,
    CatchUp,
    MisfirePolicy,
    Plan,
    decide,
)
from warren.scheduler.schedules.reading import calendars_for, read_schedule
from warren.scheduler.schedules.registry import ZONED_KINDS
from warren.scheduler.schedules.schedule import ScheduleFacts, Ticks
from warren.scheduler.schedules.working_days import Calendars
from warren.sql.batch import chunks
from warren.sql.engine import Database
from warren.sql.errors import DatabaseUnavailable
from warren.sql.jobs import due_jobs, history
from warren.sql.jobs.due_jobs import PARKED_MS, JobToPlan
from warren.sql.models import SkippedTicks
from warren.sql.run_status import LATE_MS
from warren.sql.runs import due_runs, planned_runs

log = structlog.get_logger()


class ZoneChange:
    """Moves jobs from the zones of their histories into this scheduler's.

    Schedulers with different zones would take jobs from each other at each tick; even then every
    tick is decided in the zone that is recorded.
    """

    def __init__(self, database: Database, timezone: str) -> None:
        self._database = database
        self._timezone = timezone
        self._is_checked = False

    def check(self, *, at_ms: int) -> None:
        """Have jobs of another zone claimed at this time, once; later each is claimed in its turn.

        Their next tick is stored in the old zone, and the new one may have an earlier one.
        """
        if self._is_checked:
            return
        affected = self._database.read(
            lambda session: history.in_other_zones(session, self._timezone, kinds=ZONED_KINDS)
        )
        for job_ids in chunks(affected):
            self._make_due(job_ids, at_ms)
        if affected:
            log.warning("timezone_changed", timezone=self._timezone, jobs=len(affected))
        self._is_checked = True

    def of(self, session: Session, jobs: Sequence[JobToPlan]) -> dict[int, str]:
        """Return the zone in which each of the claimed jobs' next ticks are due, by id."""
        own = {job.id: job.timezone or self._timezone for job in jobs}
        return own | history.zones(session, [job.id for job in jobs if _names_none(job)])

    def has_left(self, job: JobToPlan, zone: str) -> bool:
        """Whether a job leaves the zone in which its next ticks are due."""
        return _names_none(job) and zone != self._timezone

    def goes_on(self, job: JobToPlan, plan: Plan, now_ms: int, calendars: Calendars) -> Plan:
        """Return the plan of a job that is not behind, with its next tick moved to this zone."""
        watermark_ms = max(plan.watermark_ms, now_ms)
        schedule = read_schedule(ScheduleFacts.of(job, self._timezone), calendars)
        next_ms = schedule.next_after(watermark_ms, job.next_tick_at)
        return replace(plan, watermark_ms=watermark_ms, next_ms=next_ms)

    def record(
        self, session: Session, moved: Iterable[tuple[JobToPlan, Plan]], now_ms: int
    ) -> None:
        """Record the schedules of jobs that continue here; ended ones are recorded as stopped."""
        rows = [
            (
                job.id,
                job._asdict() | {"last_tick_at": plan.watermark_ms, "next_tick_at": plan.next_ms},
                self._timezone,
            )
            for job, plan in moved
            if plan.next_ms is not None
        ]
        history.record_starts(session, rows, by="scheduler", now_ms=now_ms)

    def _make_due(self, job_ids: Iterable[int], at_ms: int) -> None:
        self._database.write(
            lambda session: due_jobs.make_due(session, job_ids, kinds=ZONED_KINDS, at_ms=at_ms)
        )


def _names_none(job: JobToPlan) -> bool:
    return not job.timezone and (
        job.schedule_kind in ZONED_KINDS or job.schedule_options is not None
    )


#: How close a tick must be for planning to begin. Less than the window: most ticks are at full
#: seconds, so with the whole window they would be planned just when others are sent.
BEGIN_MS = 4_700
#: Jobs claimed in one transaction.
BATCH = 200
#: Waits: while no tick is near, and after a round that left nothing.
IDLE_SECONDS = 0.5
DONE_SECONDS = 0.05
#: A round that has waited this long, for locks for example, decides by the current time.
LONG_WAIT_SECONDS = 1.0
#: How long the count of overdue rows is trusted: the longer of this, and this many times the
#: duration of the count. During a long pause there may be a million rows.
OVERDUE_AGE_MS = 1_000
OVERDUE_TIMES = 20


@dataclass(frozen=True, slots=True)
class _Round:
    """When a round began, by the database's clock and by the host's."""

    began_ms: int
    began_at: float
    monotonic: Callable[[], float]

    def present_ms(self) -> int:
        """Return when it began, or the time now if it has waited long.

        A tick that was on time then may be late by now, so that the misfire policy applies.
        """
        waited_seconds = self.monotonic() - self.began_at
        if waited_seconds <= LONG_WAIT_SECONDS:
            return self.began_ms
        return self.began_ms + int(waited_seconds * 1000)


class _Counts(NamedTuple):
    """How many jobs a transaction has claimed, and how many runs, late ones too, it has planned.

    `skipped` is how many due times it has skipped, by app id; `ended` are runs that have failed, as
    they have no param.
    """

    jobs: int
    runs: int
    late: int
    skipped: Mapping[int, int]
    ended: Sequence[Ended]


@dataclass(slots=True)
class _Batch:
    """What one transaction writes.

    Attributes:
        reported: the skips that nothing replaces.
        overdue: skips of jobs with too many overdue rows, and how many of these there are.
        watermarks: up to when those jobs' due times were decided before, by id; not of fixed
            delays, of which the audit needs a record for each.

    """

    planned: list[planned_runs.NewRun] = field(default_factory=list)
    advanced: list[dict[str, int]] = field(default_factory=list)
    skips: list[SkippedTicks] = field(default_factory=list)
    reported: list[SkippedTicks] = field(default_factory=list)
    overdue: list[tuple[SkippedTicks, int]] = field(default_factory=list)
    watermarks: dict[int, int] = field(default_factory=dict)
    stops: list[due_jobs.JobStop] = field(default_factory=list)
    rezoned: list[tuple[JobToPlan, Plan]] = field(default_factory=list)


class Planner:
    """Plans ticks that come due; any number of planners share the work by SKIP LOCKED.

    Args:
        timezone: for jobs that name none.
        completion: ends runs whose params cannot be made.
        alarm_defaults: targets of alarms about skipped ticks, for jobs without their own.

    """

    def __init__(
        self,
        context: NodeContext,
        completion: Completion,
        *,
        timezone: str,
        alarm_defaults: AlarmTargets = NO_TARGETS,
    ) -> None:
        self._context = context
        self._completion = completion
        self._zones = ZoneChange(context.database, timezone)
        self._alarm_defaults = alarm_defaults
        self._overdue: dict[int, int] = {}
        self._overdue_at = 0
        self._overdue_age_ms = OVERDUE_AGE_MS

    def run_round(self, now_ms: int) -> float:
        """Plan one batch; return the seconds until the next round, 0 when there may be more.

        While the database's clock jumps, nothing is planned.
        """
        if not self._context.clock.is_steady:
            return IDLE_SECONDS
        self._zones.check(at_ms=now_ms + BEGIN_MS)
        next_ms = self._context.database.read(due_jobs.next_tick)
        if next_ms is None or next_ms > now_ms + BEGIN_MS:
            return IDLE_SECONDS if next_ms is None else (next_ms - BEGIN_MS - now_ms) / 1000
        this_round = _Round(now_ms, self._context.monotonic(), self._context.monotonic)
        self._count_overdue(now_ms)
        try:
            claimed = self._plan_batch(this_round)
        except DatabaseUnavailable:
            raise
        except Exception:
            log.exception("batch_not_planned")
            claimed = self._plan_apart(this_round)
        return 0 if claimed == BATCH else DONE_SECONDS

    def _plan_batch(self, this_round: _Round, only: Collection[int] | None = None) -> int:
        counts = self._context.write_runs(
            lambda session: self._plan(session, this_round, only),
            has_planned=lambda counts: counts.runs,
        )
        self._context.metrics.skip(counts.skipped)
        self._context.metrics.add(counts.ended)
        if counts.late:
            self._context.wakes.wake("dispatcher", OLD_RUNS)
        return counts.jobs

    def _plan_apart(self, this_round: _Round) -> int:
        """Plan a failed batch by bisection; stop the jobs at fault."""

        def plan(part: Sequence[JobToPlan]) -> None:
            self._plan_batch(this_round, {job.id for job in part})

        def stop(job: JobToPlan, error: Exception) -> None:
            reason = Why.NOT_PLANNABLE(fault=fault_of(error))
            self._context.database.write(
                lambda session: self._write_stops(
                    session, [_stop(job, reason, error=str(error))], this_round.began_ms
                )
            )

        claimed = self._context.database.write(lambda session: _claim(session, this_round))
        bisect(claimed, plan, stop)
        return len(claimed)

    def _plan(self, session: Session, this_round: _Round, only: Collection[int] | None) -> _Counts:
        claimed = [job for job in _claim(session, this_round) if only is None or job.id in only]
        now_ms = this_round.present_ms()
        batch = _Batch()
        zones = self._zones.of(session, claimed)
        apps = app_names_for(session, claimed)
        # After the claim: a new calendar version waits for the lock on these jobs.
        calendars = {**calendars_for(session, claimed), **calendars_for_runs(session, claimed)}
        for job in claimed:
            zone = zones[job.id]
            try:
                schedule = read_schedule(ScheduleFacts.of(job, zone), calendars)
                plan = self._decide(job, schedule, now_ms)
                if self._zones.has_left(job, zone) and not plan.is_behind(now_ms):
                    plan = self._zones.goes_on(job, plan, now_ms, calendars)
                    batch.rezoned.append((job, plan))
            except Exception as error:  # noqa: BLE001 - one job's schedule must not stop the others
                batch.stops.append(_stop(job, _not_computable(job, zone), error=str(error)))
                continue
            plan = self._catch_up(session, job, plan, zone, now_ms)
            app = apps.get(job.app_id, "")
            batch.planned += _new_runs(job, plan, now_ms, zone=zone, app=app, calendars=calendars)
            self._collect(job, plan, schedule, batch, now_ms)
        run_ids = planned_runs.plan(session, batch.planned, self._context.ids)
        _record_skips(session, batch)
        self._zones.record(session, batch.rezoned, now_ms)
        skipped.add_overdue_alarms(session, batch.overdue, self._alarm_defaults, now_ms=now_ms)
        skipped.add_missed_alarms(session, batch.reported, self._alarm_defaults, now_ms=now_ms)
        if batch.advanced:
            due_jobs.advance(session, batch.advanced)
        # After a fixed delay is parked, as the end of its run sets the next tick.
        ended = self._completion.end_faulty(session, batch.planned, run_ids)
        self._write_stops(session, batch.stops, now_ms)
        late = sum(run.released_at is not None for run in batch.planned)
        return _Counts(
            jobs=len(claimed),
            runs=len(batch.planned),
            late=late,
            skipped=_skipped(claimed, batch),
            ended=ended,
        )

    def _decide(self, job: JobToPlan, schedule: Ticks, now_ms: int) -> Plan:
        return decide(
            schedule,
            job_id=job.id,
            anchor_ms=job.next_tick_at,
            watermark_ms=job.last_tick_at,
            now_ms=now_ms,
            policy=MisfirePolicy(job.misfire),
            late_limit_ms=job.late_limit * 1_000,
            overdue_rows=self._overdue.get(job.id, 0),
            catch_up=CatchUp(job.catch_up_within * 1_000, job.catch_up_most),
        )

    def _catch_up(
        self, session: Session, job: JobToPlan, plan: Plan, zone: str, now_ms: int
    ) -> Plan:
        """Create the backfill for skips to catch up; return the plan with skips that name it."""
        if not any(skip.is_caught_up for skip in plan.skips):
            return plan
        [backfill_id] = self._context.ids.take(session, 1)
        spans = [Span(skip.from_ms - 1, skip.to_ms) for skip in plan.skips if skip.is_caught_up]
        kept_schedule.add_backfill(
            session,
            backfill_id,
            job,
            spans,
            zone=zone,
            anchor_ms=job.next_tick_at,
            now_ms=now_ms,
        )
        log.info("ticks_backfilled", job_id=job.id, backfill_id=backfill_id)
        skips = tuple(skip.named(backfill_id) for skip in plan.skips)
        return replace(plan, skips=skips)

    def _collect(
        self, job: JobToPlan, plan: Plan, schedule: Ticks, batch: _Batch, now_ms: int
    ) -> None:
        skips = _skips(job, plan, now_ms)
        overdue_rows = self._overdue.get(job.id, 0)
        if overdue_rows > OVERDUE_LIMIT:
            batch.overdue += [(skip, overdue_rows) for skip in skips]
            if not plan.waits:
                batch.watermarks[job.id] = job.last_tick_at
        else:
            batch.skips += skips
            pairs = zip(skips, plan.skips, strict=True)
            batch.reported += [skip for skip, decided in pairs if decided.is_reported]
        _advance(job, plan, schedule, batch)

    def _write_stops(
        self, session: Session, stops: Sequence[due_jobs.JobStop], now_ms: int
    ) -> None:
        due_jobs.stop(session, stops)
        history.record_stops(session, stops, by="scheduler", now_ms=now_ms)

    def _count_overdue(self, now_ms: int) -> None:
        if 0 <= now_ms - self._overdue_at < self._overdue_age_ms:
            return
        began_at = time.monotonic()
        self._overdue = self._context.database.read(
            lambda session: due_runs.overdue_counts(session, before_ms=now_ms - LATE_MS)
        )
        self._overdue_at = now_ms
        took_ms = round((time.monotonic() - began_at) * 1000)
        self._overdue_age_ms = max(OVERDUE_AGE_MS, OVERDUE_TIMES * took_ms)


def _claim(session: Session, this_round: _Round) -> list[JobToPlan]:
    return due_jobs.claim_due(session, until_ms=this_round.began_ms + WINDOW_MS, limit=BATCH)


def _new_runs(
    job: JobToPlan, plan: Plan, now_ms: int, *, zone: str, app: str, calendars: Calendars
) -> list[planned_runs.NewRun]:
    return [
        replace(
            run_of(
                job,
                kind=fire.kind,
                scheduled_at=fire.scheduled_at_ms,
                due_at=fire.due_at_ms,
                zone=zone,
                app=app,
                calendars=calendars,
            ),
            released_at=now_ms if fire.is_late else None,
        )
        for fire in plan.fires
    ]


def _skips(job: JobToPlan, plan: Plan, now_ms: int) -> list[SkippedTicks]:
    return [
        history.skipped(
            job.id,
            skip.from_ms,
            skip.to_ms,
            count=skip.count,
            why=explanation(skip.reason),
            now_ms=now_ms,
        )
        for skip in plan.skips
    ]


def _record_skips(session: Session, batch: _Batch) -> None:
    """Record skipped ticks; log only those that begin a new record."""
    overdue_skips = [skip for skip, _ in batch.overdue]
    new = [*batch.skips, *history.extend_skips(session, overdue_skips, batch.watermarks)]
    history.record_skips(session, new)
    for skip in new:
        log.warning("ticks_skipped", job_id=skip.job_id, count=skip.count, reason=skip.reason)


def _skipped(claimed: Sequence[JobToPlan], batch: _Batch) -> Mapping[int, int]:
    """Return how many due times are skipped, by app id."""
    apps = {job.id: job.app_id for job in claimed}
    skipped: Counter[int] = Counter()
    for skip in (*batch.skips, *(skip for skip, _ in batch.overdue)):
        skipped[apps[skip.job_id]] += skip.count
    return skipped


def _advance(job: JobToPlan, plan: Plan, schedule: Ticks, batch: _Batch) -> None:
    """Move a job's watermark, or stop the job when its schedule has ended."""
    if plan.next_ms is None and not plan.waits:
        reason = schedule.end_reason(plan.watermark_ms)
        batch.stops.append(_stop(job, reason, plan.watermark_ms))
        return
    batch.advanced.append(
        {
            "id": job.id,
            "last_tick_at": plan.watermark_ms,
            "next_tick_at": PARKED_MS if plan.next_ms is None else plan.next_ms,
        }
    )


def _not_computable(job: JobToPlan, zone: str) -> Reason:
    """Return the schedule in the job's row as a reason, for people to see what is wrong."""
    return Why.NOT_COMPUTABLE(
        kind=job.schedule_kind, value=job.schedule_value or "", zone=zone, policy=job.misfire
    )


def _stop(
    job: JobToPlan, reason: Reason, watermark_ms: int | None = None, error: str | None = None
) -> due_jobs.JobStop:
    """Return the stop of a job, and log it: as a fault, unless its schedule has simply ended."""
    if reason.code in (Why.NO_FURTHER_TIME, Why.SCHEDULE_OVER):
        log.info("job_ended", job_id=job.id, job=job.name)
    else:
        log.warning("job_stopped", job_id=job.id, job=job.name, reason=str(reason), error=error)
    watermark = job.last_tick_at if watermark_ms is None else watermark_ms
    return due_jobs.JobStop(job_id=job.id, watermark_ms=watermark, reason=explanation(reason))
