"""Decides, job by job, about scheduled runs that no scheduler was able or allowed to send in time.

Only the last tick up to now can still run. The others are CANCELLED, and their ticks recorded as
skipped. The last one

    within its job's late limit   is released, and runs as itself
    later, FIRE_ONCE_NOW          is sent now as MISFIRE
    later, DO_NOTHING             is CANCELLED too, and the job's alarm targets are notified
    later, CATCH_UP               is CANCELLED too, and a backfill runs the newest of them

A scheduled run of a paused app that was due over 5 s before the pause ended is late, as after a
downtime in which no scheduler could send. A pause of the whole cluster counts as a downtime
(`scheduler/membership/uptime.py`). No one is notified of runs that a pause held back: the pause was
intended.

Any number of schedulers may work on it: whoever holds the job's row decides about all its runs in
one transaction, and the MISFIRE run is the last tick's own row, so there is never a second one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import structlog
from sqlalchemy.orm import Session

from warren.broker.reasons import Reason, Why
from warren.scheduler.alarms import skipped
from warren.scheduler.alarms.events import NO_TARGETS, AlarmTargets
from warren.scheduler.backfills import kept_schedule
from warren.scheduler.backfills.kept_schedule import Span
from warren.scheduler.completion.completion import Completion
from warren.scheduler.completion.end import cancelled
from warren.scheduler.membership.self_health import cluster_zone
from warren.scheduler.membership.uptime import SendingUptime, due_times
from warren.scheduler.metrics import Ended
from warren.scheduler.node_context import NodeContext
from warren.scheduler.problems import explanation
from warren.scheduler.rounds import OLD_RUNS
from warren.scheduler.schedules.misfire import MisfirePolicy
from warren.scheduler.schedules.registry import WAITING_KINDS
from warren.sql.batch import chunks
from warren.sql.jobs import due_jobs, history
from warren.sql.jobs.due_jobs import JobSchedule
from warren.sql.models import Job, SkippedTicks
from warren.sql.registry import pauses, uptimes
from warren.sql.registry.pauses import EVERY_APP, PauseRow
from warren.sql.registry.uptimes import Downtime
from warren.sql.run_status import LATE_MS
from warren.sql.runs import due_runs, planned_runs, transitions
from warren.sql.runs.due_runs import DueSpan
from warren.sql.runs.run_rows import PlannedRun


class MissedBy(Enum):
    """Why a scheduled run could not be sent in time."""

    SCHEDULERS = "SCHEDULERS"
    PAUSE = "PAUSE"
    APP_PAUSE = "APP_PAUSE"


class Pauses:
    """The known pauses at one instant."""

    def __init__(self, known: Iterable[PauseRow] = (), now_ms: int = 0) -> None:
        self._known = tuple(known)
        held = {downtime.app_id for downtime in self._known if downtime.is_in_force(now_ms)}
        self.is_everything_held = EVERY_APP in held
        self.held_apps = frozenset(held - {EVERY_APP})
        self._over = tuple(downtime for downtime in self._known if not downtime.is_in_force(now_ms))

    @property
    def missed(self) -> list[DueSpan]:
        """Spans of due times in which an app's scheduled runs were held back."""
        return due_times(pauses.held_by_apps(self._over))

    def missed_of(self, app_id: int) -> list[DueSpan]:
        return [span for span in self.missed if span.app_id == app_id]

    def missed_by(self, app_id: int, due_at: int) -> MissedBy:
        """Return what kept a run from being sent in time, if anything."""
        by = {
            downtime.app_id
            for downtime in self._over
            if downtime.since_at - LATE_MS <= due_at < (downtime.until_at or 0)
        }
        if app_id in by:
            return MissedBy.APP_PAUSE
        return MissedBy.PAUSE if EVERY_APP in by else MissedBy.SCHEDULERS

    @property
    def is_any_over(self) -> bool:
        """Whether a pause has ended."""
        return bool(self._over)

    def over_before(self, end_ms: int) -> list[int]:
        """Return the ids of pauses that ended before this instant."""
        return [
            downtime.id
            for downtime in self._over
            if downtime.until_at is not None and downtime.until_at < end_ms
        ]


#: Jobs handled in one transaction.
BATCH = 200
#: How long after a downtime or pause planned runs may still appear: no transaction takes longer
#: from its first read to its commit.
LINGER_MS = 30_000
#: Waits: while nothing was missed, and while planners or other schedulers hold what is left.
IDLE_SECONDS = 0.5
WAITING_SECONDS = 0.05

#: Why a run is cancelled: its job skips it, a later one runs, or a MISFIRE run replaces it.
_SKIPPED = {
    MissedBy.SCHEDULERS: Why.MISSED(),
    MissedBy.PAUSE: Why.MISSED_BY_PAUSE(),
    MissedBy.APP_PAUSE: Why.MISSED_BY_APP_PAUSE(),
}
_BEFORE_ANOTHER = {
    MissedBy.SCHEDULERS: Why.MISSED_BEFORE_ANOTHER(),
    MissedBy.PAUSE: Why.MISSED_BY_PAUSE_BEFORE_ANOTHER(),
    MissedBy.APP_PAUSE: Why.MISSED_BY_APP_PAUSE_BEFORE_ANOTHER(),
}
_STOOD_FOR = {
    MissedBy.SCHEDULERS: Why.MISSED_IN_ONE(),
    MissedBy.PAUSE: Why.MISSED_BY_PAUSE_IN_ONE(),
    MissedBy.APP_PAUSE: Why.MISSED_BY_APP_PAUSE_IN_ONE(),
}

log = structlog.get_logger()


def _caught_up(backfill_id: int) -> Mapping[MissedBy, Reason]:
    """Return why a run is cancelled when a backfill runs its due time."""
    return {
        MissedBy.SCHEDULERS: Why.MISSED_CAUGHT_UP(id=backfill_id),
        MissedBy.PAUSE: Why.MISSED_BY_PAUSE_CAUGHT_UP(id=backfill_id),
        MissedBy.APP_PAUSE: Why.MISSED_BY_APP_PAUSE_CAUGHT_UP(id=backfill_id),
    }


@dataclass(slots=True)
class _Verdicts:
    """What one transaction writes: runs to cancel, with the reason, to send now, and to release.

    `caught_up` are further runs to cancel, by job: a backfill runs their due times.
    `ended` is what metrics count of the cancelled ones.
    """

    held: Pauses
    cancelled: list[tuple[PlannedRun, Reason]] = field(default_factory=list)
    fired: list[int] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    caught_up: dict[int, list[PlannedRun]] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)

    def cancel(self, rows: Iterable[PlannedRun], why: Mapping[MissedBy, Reason]) -> None:
        """Cancel runs, each with the reason for its delay."""
        self.cancelled += [(row, why[self.held.missed_by(row.app_id, row.due_at)]) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedRuns:
    """The role that applies misfire policies to missed runs.

    Attributes:
        uptime: of this scheduler, which it shares with the others.
        has_pauses: whether there may be pauses.
        alarm_defaults: targets of alarms about skipped ticks, for jobs without their own.

    """

    context: NodeContext
    completion: Completion
    uptime: SendingUptime
    has_pauses: Callable[[], bool]
    alarm_defaults: AlarmTargets = NO_TARGETS

    def run_round(self, now_ms: int) -> float:
        """Decide about all missed runs; return the seconds until the next round.

        While the database's clock jumps, nothing is decided.
        """
        if not self.context.clock.is_steady:
            return IDLE_SECONDS
        downtimes = self._downtimes()
        held = self._pauses(now_ms)
        spans = [*due_times(downtimes), *held.missed]
        if not spans and not held.is_any_over:
            return IDLE_SECONDS
        missed_ids = self.context.database.read(
            lambda session: due_runs.missed_jobs(session, spans)
        )
        for job_ids in chunks(missed_ids, BATCH):
            self._decide(job_ids, spans, held)
        if not missed_ids:
            self._settle(
                [downtime for downtime in downtimes if now_ms - downtime.to_ms > LINGER_MS]
            )
            self._settle_pauses(held.over_before(now_ms - LINGER_MS))
        return WAITING_SECONDS if missed_ids else IDLE_SECONDS

    def _downtimes(self) -> Sequence[Downtime]:
        """Return the unsettled downtimes; a scheduler that can send has already read them."""
        if not self.uptime.is_able:
            return self.context.database.read(uptimes.unsettled)
        self.uptime.keep(self.context.now_ms)
        return self.uptime.downtimes

    def _pauses(self, now_ms: int) -> Pauses:
        if not self.has_pauses():
            return Pauses()
        return Pauses(self.context.database.read(pauses.known), now_ms)

    def _decide(self, job_ids: Sequence[int], spans: Sequence[DueSpan], held: Pauses) -> None:
        def unit(session: Session) -> _Verdicts:
            known = due_jobs.claim_by_ids(session, job_ids)
            locked = _lock(session, [job.id for job in known], spans)
            now_ms, verdicts = self.context.now_ms(), _Verdicts(held)
            _judge(session, known, locked, verdicts, now_ms)
            self._write(session, verdicts, now_ms)
            return verdicts

        verdicts = self.context.write_runs(unit, has_planned=lambda verdicts_: verdicts_.fired)
        self.context.metrics.add(verdicts.ended)
        self.context.metrics.skip(Counter(row.app_id for row, _ in verdicts.cancelled))
        if verdicts.released:
            self.context.wakes.wake("dispatcher", OLD_RUNS)
        if verdicts.cancelled or verdicts.fired:
            log.warning(
                "runs_misfired", cancelled=len(verdicts.cancelled), fired=len(verdicts.fired)
            )

    def _catch_up(self, session: Session, verdicts: _Verdicts, now_ms: int) -> None:
        """Create the backfills that catch up, and cancel the runs they replace."""
        if not verdicts.caught_up:
            return
        zone = cluster_zone(session, "UTC")
        zones = history.zones(session, verdicts.caught_up)
        for job_id, rows in verdicts.caught_up.items():
            job = session.get_one(Job, job_id)
            [backfill_id] = self.context.ids.take(session, 1)
            kept_schedule.add_backfill(
                session,
                backfill_id,
                job,
                [Span(row.scheduled_at - 1, row.scheduled_at) for row in rows],
                zone=job.timezone or zones.get(job_id) or zone,
                anchor_ms=rows[0].scheduled_at,
                now_ms=now_ms,
            )
            log.info("ticks_backfilled", job_id=job_id, backfill_id=backfill_id)
            verdicts.cancel(rows, _caught_up(backfill_id))

    def _write(self, session: Session, verdicts: _Verdicts, now_ms: int) -> None:
        self._catch_up(session, verdicts, now_ms)
        ends = [cancelled(row.id, reason, now_ms) for row, reason in verdicts.cancelled]
        verdicts.ended = self.completion.end(session, ends).ended
        skips = [_skip(row, reason, now_ms) for row, reason in verdicts.cancelled]
        history.record_skips(session, skips)
        recorded = [
            skip
            for skip, (_, reason) in zip(skips, verdicts.cancelled, strict=True)
            if reason == _SKIPPED[MissedBy.SCHEDULERS]
        ]
        skipped.add_missed_alarms(session, recorded, self.alarm_defaults, now_ms=now_ms)
        planned_runs.misfire(session, verdicts.fired, now_ms=now_ms)
        planned_runs.release(session, verdicts.released, now_ms=now_ms)

    def _settle(self, downtimes: list[Downtime]) -> None:
        if downtimes:
            self.context.database.write(lambda session: uptimes.settle(session, downtimes))

    def _settle_pauses(self, pause_ids: list[int]) -> None:
        if pause_ids:
            self.context.database.write(lambda session: pauses.settle(session, pause_ids))


def _judge(
    session: Session,
    known: Iterable[JobSchedule],
    locked: Mapping[int, list[PlannedRun]],
    verdicts: _Verdicts,
    now_ms: int,
) -> None:
    if not locked:
        return
    first_ms = min(row.scheduled_at for rows in locked.values() for row in rows)
    last = due_runs.last_ticks(session, locked, since_ms=first_ms, now_ms=now_ms)
    for job in known:
        if rows := locked.get(job.id):
            _judge_job(job, rows, last.get(job.id, 0), verdicts, now_ms)


def _lock(
    session: Session, job_ids: Iterable[int], spans: Sequence[DueSpan]
) -> dict[int, list[PlannedRun]]:
    """Lock missed runs, all of a job or none; return them by job, in tick order."""
    seen = due_runs.missed(session, job_ids, spans)
    claimed = [row for run_ids in chunks(seen) for row in transitions.claim(session, run_ids)]
    contended = {seen[run_id] for run_id in seen.keys() - {row.id for row in claimed}}
    locked: dict[int, list[PlannedRun]] = {}
    for row in sorted(claimed, key=lambda row: int(row.scheduled_at)):
        if row.job_id not in contended:
            locked.setdefault(row.job_id, []).append(row)
    return locked


def _judge_job(
    job: JobSchedule, rows: list[PlannedRun], last_ms: int, verdicts: _Verdicts, now_ms: int
) -> None:
    """Decide on a job's late runs, in tick order; `last_ms` is its last tick with a run."""
    if job.is_enabled and job.next_tick_at <= now_ms:
        return  # a planner is about to decide about later ticks, which may be the last
    *earlier, last = rows
    if last_ms > last.scheduled_at:
        _skip_or_catch_up(job, rows, _BEFORE_ANOTHER, verdicts, now_ms)
    elif now_ms - last.due_at <= job.late_limit * 1_000:
        verdicts.released.append(last.id)
        _skip_or_catch_up(job, earlier, _BEFORE_ANOTHER, verdicts, now_ms)
    elif job.misfire == MisfirePolicy.FIRE_ONCE_NOW:
        verdicts.fired.append(last.id)
        verdicts.cancel(earlier, _STOOD_FOR)
    else:
        _skip_or_catch_up(job, rows, _SKIPPED, verdicts, now_ms)


def _skip_or_catch_up(
    job: JobSchedule,
    rows: Sequence[PlannedRun],
    why: Mapping[MissedBy, Reason],
    verdicts: _Verdicts,
    now_ms: int,
) -> None:
    """Cancel late runs, and have a backfill run the due times that the job wants caught up."""
    caught_up: set[int] = set()
    if job.misfire == MisfirePolicy.CATCH_UP and job.schedule_kind not in WAITING_KINDS:
        caught_up = kept_schedule.newest(
            [row.scheduled_at for row in rows],
            now_ms=now_ms,
            within_ms=job.catch_up_within * 1_000,
            most=job.catch_up_most,
        )
    verdicts.cancel([row for row in rows if row.scheduled_at not in caught_up], why)
    if caught_up:
        verdicts.caught_up[job.id] = [row for row in rows if row.scheduled_at in caught_up]


def _skip(row: PlannedRun, reason: Reason, now_ms: int) -> SkippedTicks:
    tick, why = row.scheduled_at, explanation(reason)
    return history.skipped(row.job_id, tick, tick, count=1, why=why, now_ms=now_ms)
