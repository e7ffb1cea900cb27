"""Queries of the audit: ticks with runs, skipped ticks, deleted runs, children's runs."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

from sqlalchemy import and_, case, func, or_, select
from sqlalchemy.orm import Session

from warren.sql.batch import chunks, fetch_by_ids
from warren.sql.dialects.supported import of, use_index
from warren.sql.models import App, Job, Purge, Run, SkippedTicks
from warren.sql.models.run_tables import BY_TICK
from warren.sql.rows import fetch, query
from warren.sql.run_status import LATE_MS, OPEN, Kind, RunStatus
from warren.sql.runs.run_rows import RunFacts, TickRun

#: When a run was routed for the first time. A trigger that the broker has not confirmed is sent
#: again under the same id, however late, because the first one may have arrived.
_ROUTED_AT = func.coalesce(Run.first_routed_at, Run.routed_at)
#: When it was finally decided that a run still runs, although it was late.
_DECIDED_AT = func.coalesce(Run.released_at, _ROUTED_AT)
#: A schedule's run that was routed and started over 5 s after its tick.
_STARTED_LATE = and_(
    Run.kind == Kind.SCHEDULE,
    Run.started_at > Run.due_at + LATE_MS,
    Run.due_at + LATE_MS < _ROUTED_AT,
)


#: The most runs that one statement reads, so that it ends within its time limit.
DEFAULT_RUNS = 200_000
LAST_JOB_ID = 2**31 - 1


#: The first and the last id of some jobs, both included.
JobRange: TypeAlias = tuple[int, int]


class AuditedJob(NamedTuple):
    """A job with its name as APP/NAME, its app, its watermark, and its last change."""

    id: int
    name: str
    app_id: int
    last_tick_at: int
    update_time: datetime | None


class TickRow(NamedTuple):
    """A tick of a schedule and its first run; `late_due_at` is its due time if it started late.

    `decided_at` is when it was decided that it still runs, else when it was routed.
    """

    scheduled_at: int
    status: str
    routed_at: int
    decided_at: int
    late_due_at: int | None


_JOBS = query(AuditedJob, Job, name=App.name + "/" + Job.name).join(App, App.id == Job.app_id)


def jobs(session: Session) -> dict[int, AuditedJob]:
    """Return all jobs, by id."""
    return {job.id: job for job in fetch(session, AuditedJob, _JOBS)}


def jobs_by_ids(session: Session, job_ids: Iterable[int]) -> list[AuditedJob]:
    """Return the jobs that exist among these, in the order of their ids."""
    return fetch_by_ids(session, AuditedJob, _JOBS.order_by(Job.id), Job.id, job_ids)


def ticks_with_rows(
    session: Session, job_id: int, *, after_ms: int, until_ms: int
) -> list[TickRow]:
    """Return the ticks in (after, until] of a job's schedule that have a run."""
    return fetch(
        session,
        TickRow,
        query(
            TickRow,
            Run,
            routed_at=_ROUTED_AT,
            decided_at=_DECIDED_AT,
            late_due_at=case((_STARTED_LATE, Run.due_at)),
        )
        .where(
            Run.job_id == job_id,
            Run.scheduled_at > after_ms,
            Run.scheduled_at <= until_ms,
            Run.origin_id == 0,
            Run.shard_index == 0,
            Run.attempt == 0,
        )
        .order_by(Run.scheduled_at),
    )


def delayed_ticks(
    session: Session, job_id: int, *, after_ms: int, until_ms: int
) -> list[tuple[TickRow, int | None]]:
    """Return the ticks in (after, until] of a fixed delay that have a run.

    Each comes with the last end of one of its runs, 0 if none is known, None while one is open.
    """
    is_first = (Run.shard_index == 0) & (Run.attempt == 0)
    statement = (
        query(
            TickRow,
            Run,
            status=func.max(case((is_first, Run.status))),
            routed_at=func.max(case((is_first, _ROUTED_AT))),
            decided_at=func.max(case((is_first, _DECIDED_AT))),
            late_due_at=func.max(case((_STARTED_LATE, Run.due_at))),
        )
        .add_columns(
            of(session).sum_of(case((Run.status.in_(OPEN), 1), else_=0)), func.max(Run.finished_at)
        )
        .where(
            Run.job_id == job_id,
            Run.scheduled_at > after_ms,
            Run.scheduled_at <= until_ms,
            Run.origin_id == 0,
        )
        .group_by(Run.scheduled_at)
        .order_by(Run.scheduled_at)
    )
    return [
        (TickRow._make(row), None if open_runs else finished_at or 0)
        for *row, open_runs, finished_at in session.execute(statement)
    ]


def busy_jobs(session: Session) -> set[int]:
    """Return the jobs with an open run of their schedule."""
    return set(
        session.execute(
            select(Run.job_id).where(Run.status.in_(OPEN), Run.origin_id == 0).distinct()
        ).scalars()
    )


def job_ranges(session: Session, *, at_once: int = DEFAULT_RUNS) -> Iterator[JobRange]:
    """Yield ranges that cover all jobs; each has about `at_once` runs, or a single job."""
    first = 0
    while True:
        ids = select(Run.job_id).where(Run.job_id >= first).order_by(Run.job_id)
        last = session.execute(ids.offset(at_once).limit(1)).scalar_one_or_none()
        if last is None:
            yield first, LAST_JOB_ID
            return
        yield first, last
        first = last + 1


def broken_shards(
    session: Session, jobs: JobRange, *, after_ms: int, until_ms: int
) -> list[tuple[int, int, int, int]]:
    """Return broadcasts whose shards are not 0 to total - 1: job, tick, shards, total."""
    total, shards = func.max(Run.shard_total), func.count(Run.shard_index.distinct())
    statement = (
        select(Run.job_id, Run.scheduled_at, shards, total)
        .where(
            Run.job_id.between(*jobs),
            Run.shard_total > 1,
            # A re-run has rows only for the shards that were to run again.
            Run.rerun_of.is_(None),
            Run.scheduled_at > after_ms,
            Run.scheduled_at <= until_ms,
        )
        .group_by(Run.job_id, Run.scheduled_at, Run.origin_id)
        .having((shards != total) | (func.max(Run.shard_index) >= total))
    )
    rows = session.execute(use_index(statement, Run, BY_TICK))
    return [(job_id, tick, shards, total) for job_id, tick, shards, total in rows]


def child_origins(session: Session, job_id: int, bounds: tuple[int, int]) -> set[int]:
    """Return the ids of the parents' first runs that caused a job's runs in (after, until]."""
    return set(
        session.execute(
            select(Run.origin_id).where(
                Run.job_id == job_id,
                Run.scheduled_at > bounds[0],
                Run.scheduled_at <= bounds[1],
                Run.kind == Kind.PARENT,
            )
        ).scalars()
    )


def attempts(session: Session, job_id: int, *, after_ms: int, until_ms: int) -> Iterable[TickRun]:
    """Yield all runs of a job by tick, shard and attempt, except those that succeeded elsewhere.

    Rows are streamed, so the session must execute nothing else until they are read.
    """
    # An imported run was never routed here, and its success started children where it ran.
    succeeded_here = or_(Run.status != RunStatus.SUCCEEDED, Run.routed_at.is_not(None))
    statement = (
        query(TickRun, Run)
        .where(
            Run.job_id == job_id,
            Run.scheduled_at > after_ms,
            Run.scheduled_at <= until_ms,
            succeeded_here,
        )
        .order_by(Run.scheduled_at, Run.origin_id, Run.shard_index, Run.attempt)
    )
    return map(TickRun._make, session.execute(statement, execution_options={"yield_per": 5_000}))


def skips(session: Session, job_id: int) -> Sequence[SkippedTicks]:
    """Return a job's skipped ticks, in order."""
    return (
        session.execute(
            select(SkippedTicks).where(SkippedTicks.job_id == job_id).order_by(SkippedTicks.from_at)
        )
        .scalars()
        .all()
    )


def purged_until(session: Session, job_id: int) -> int:
    """Return the last tick of a job whose runs were deleted; 0 if there is none."""
    last = session.execute(select(func.max(Purge.to_at)).where(Purge.job_id == job_id))
    return last.scalar_one() or 0


def purged_until_by_job(session: Session, job_ids: Iterable[int]) -> dict[int, int]:
    """Return the last tick whose runs were deleted, for those of the jobs that have one."""
    last = select(Purge.job_id, func.max(Purge.to_at)).group_by(Purge.job_id)
    return {
        job_id: tick
        for chunk in chunks(sorted(job_ids))
        for job_id, tick in session.execute(last.where(Purge.job_id.in_(chunk)))
    }


def doubled(
    session: Session, jobs: JobRange, *, after_ms: int, until_ms: int
) -> list[tuple[int, int]]:
    """Return the job and tick of each attempt that has more than one row.

    The unique key prevents them, unless it was dropped.
    """
    key = (Run.job_id, Run.scheduled_at, Run.origin_id, Run.shard_index, Run.attempt)
    statement = (
        select(Run.job_id, Run.scheduled_at)
        .where(Run.job_id.between(*jobs), Run.scheduled_at > after_ms, Run.scheduled_at <= until_ms)
        .group_by(*key)
        .having(func.count() > 1)
    )
    return [(job_id, tick) for job_id, tick in session.execute(statement)]


#: How long before it was due a run may seem to have started: clocks differ, and may be set back.
EARLY_MS = 5_000


def odd_runs(
    session: Session, jobs: JobRange, *, after_ms: int, until_ms: int, limit: int
) -> list[RunFacts]:
    """Return runs that started before they were due, and successes that never started."""
    is_early = Run.started_at < Run.due_at - EARLY_MS
    is_unstarted = and_(Run.status == RunStatus.SUCCEEDED, Run.started_at.is_(None))
    statement = query(RunFacts, Run).where(
        Run.job_id.between(*jobs),
        Run.scheduled_at > after_ms,
        Run.scheduled_at <= until_ms,
        or_(is_early, is_unstarted),
    )
    return fetch(session, RunFacts, statement.order_by(Run.id).limit(limit))


def open_runs(session: Session, *, planned: bool) -> int:
    """Return the number of open runs: PLANNED ones, or the others."""
    wanted = {RunStatus.PLANNED} if planned else OPEN - {RunStatus.PLANNED}
    return session.execute(
        select(func.count()).select_from(Run).where(Run.status.in_(wanted))
    ).scalar_one()
