"""What the audit compares: ticks that have rows, ticks that were skipped, runs cleared."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import and_, case, func, select
from sqlalchemy.orm import Session

from sql.batch import chunks
from sql.instants import epoch_ms
from sql.jobs import child_links
from sql.models import App, Job, Purge, Run, SkippedTicks
from sql.rows import fetch, query
from sql.run_status import OPEN, Kind, RunStatus
from sql.runs.run_rows import TickRun

#: From when on a tick has misfired (XXL-JOB's limit).
LATE_MS = 5_000
#: A schedule's run that was given out, and then started, so late that its tick had misfired.
_STARTED_LATE = and_(
    Run.kind == Kind.SCHEDULE,
    Run.started_at > Run.due_at + LATE_MS,
    Run.routed_at > Run.due_at + LATE_MS,
)


#: Runs that one statement reads, so that it has its answer in time however many there are.
RUNS_AT_ONCE = 200_000
LAST_JOB_ID = 2**31 - 1


class JobRange(NamedTuple):
    """The jobs with ids from the first to the last."""

    first: int
    last: int


class AuditedJob(NamedTuple):
    """A job as APP/NAME, its app, and up to when its ticks were decided."""

    id: int
    name: str
    app_id: int
    last_tick_at: int


class TickRow(NamedTuple):
    """A tick of a schedule with its first attempt, and when that was due if it started late."""

    scheduled_at: int
    status: str
    routed_at: int
    late_due_at: int | None


class DelayedTick(NamedTuple):
    """A tick as `TickRow` has it, how many of its runs are not over, and the end of the last."""

    scheduled_at: int
    status: str
    routed_at: int
    late_due_at: int | None
    open_runs: int
    finished_at: int | None


class BrokenShards(NamedTuple):
    """A broadcast whose shards are not 0 to n-1."""

    job_id: int
    scheduled_at: int
    total: int
    shards: int


class DoubledAttempt(NamedTuple):
    """An attempt that has more than one row."""

    job_id: int
    scheduled_at: int
    rows: int


def jobs(session: Session, job_id: int | None = None) -> list[AuditedJob]:
    """Return every job, or one."""
    statement = query(AuditedJob, Job, name=App.name + "/" + Job.name)
    statement = statement.join(App, App.id == Job.app_id)
    if job_id is not None:
        statement = statement.where(Job.id == job_id)
    return fetch(session, AuditedJob, statement)


def ticks_with_rows(
    session: Session, job_id: int, *, after_ms: int, until_ms: int
) -> list[TickRow]:
    """Return the ticks of a job's schedule that have a run."""
    return fetch(
        session,
        TickRow,
        query(TickRow, Run, late_due_at=case((_STARTED_LATE, Run.due_at)))
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
) -> list[DelayedTick]:
    """Return the ticks of a job's schedule that have a run."""
    is_first = (Run.shard_index == 0) & (Run.attempt == 0)
    return fetch(
        session,
        DelayedTick,
        query(
            DelayedTick,
            Run,
            status=func.max(case((is_first, Run.status))),
            routed_at=func.max(case((is_first, Run.routed_at))),
            late_due_at=func.max(case((_STARTED_LATE, Run.due_at))),
            open_runs=func.sum(case((Run.status.in_(OPEN), 1), else_=0)),
            finished_at=func.max(Run.finished_at),
        )
        .where(
            Run.job_id == job_id,
            Run.scheduled_at > after_ms,
            Run.scheduled_at <= until_ms,
            Run.origin_id == 0,
        )
        .group_by(Run.scheduled_at)
        .order_by(Run.scheduled_at),
    )


def jobs_at_work(session: Session) -> set[int]:
    """Return the jobs with an open run that their schedule caused."""
    return set(
        session.execute(
            select(Run.job_id).where(Run.status.in_(OPEN), Run.origin_id == 0).distinct()
        ).scalars()
    )


def job_ranges(session: Session, *, at_once: int = RUNS_AT_ONCE) -> Iterator[JobRange]:
    """Give ranges that hold all jobs; those of one range have about so many runs, or are one."""
    first = 0
    while True:
        ids = select(Run.job_id).where(Run.job_id >= first).order_by(Run.job_id)
        last = session.execute(ids.offset(at_once).limit(1)).scalar_one_or_none()
        if last is None:
            yield JobRange(first, LAST_JOB_ID)
            return
        yield JobRange(first, last)
        first = last + 1


def broken_shards(
    session: Session, jobs: JobRange, *, after_ms: int, until_ms: int
) -> list[BrokenShards]:
    """Return broadcasts whose shards are not 0 to n-1."""
    total, shards = func.max(Run.shard_total), func.count(Run.shard_index.distinct())
    statement = (
        query(BrokenShards, Run, total=total, shards=shards)
        .where(
            Run.job_id.between(*jobs),
            Run.shard_total > 1,
            Run.scheduled_at > after_ms,
            Run.scheduled_at <= until_ms,
        )
        .group_by(Run.job_id, Run.scheduled_at, Run.origin_id)
        .having((shards != total) | (func.max(Run.shard_index) >= total))
    )
    return fetch(session, BrokenShards, statement)


class Parent(NamedTuple):
    """A job with children, which it has had since `since_ms` or longer."""

    id: int
    name: str
    children: tuple[int, ...]
    since_ms: int


def parents(session: Session) -> list[Parent]:
    """Return the jobs that have children; one that was never saved by us is left out."""
    children = child_links.children(session, child_links.with_children(session))
    statement = (
        select(Job.id, App.name + "/" + Job.name, Job.update_time)
        .join(App, App.id == Job.app_id)
        .where(Job.update_time.is_not(None))
        .order_by(Job.id)
    )
    return [
        Parent(job_id, name, children[job_id], epoch_ms(saved))
        for chunk in chunks(sorted(children))
        for job_id, name, saved in session.execute(statement.where(Job.id.in_(chunk)))
        if saved
    ]


def child_origins(session: Session, job_id: int, bounds: tuple[int, int]) -> set[int]:
    """Return the first runs of parents' ticks in (after, until] that a job has a run for."""
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
    """Give every run of a job, by tick, shard and attempt; nothing else may be asked meanwhile."""
    statement = (
        query(TickRun, Run)
        .where(Run.job_id == job_id, Run.scheduled_at > after_ms, Run.scheduled_at <= until_ms)
        .order_by(Run.scheduled_at, Run.origin_id, Run.shard_index, Run.attempt)
    )
    return map(TickRun._make, session.execute(statement, execution_options={"yield_per": 5_000}))


def skips(session: Session, job_id: int) -> Sequence[SkippedTicks]:
    """Return what was skipped of a job, in order."""
    return (
        session.execute(
            select(SkippedTicks).where(SkippedTicks.job_id == job_id).order_by(SkippedTicks.from_at)
        )
        .scalars()
        .all()
    )


def purged_until(session: Session, job_id: int) -> int:
    """Return the tick up to which a job's runs were cleared, 0 when none were."""
    found = session.execute(select(func.max(Purge.to_at)).where(Purge.job_id == job_id))
    return found.scalar_one() or 0


def doubled(
    session: Session, jobs: JobRange, *, after_ms: int, until_ms: int
) -> list[DoubledAttempt]:
    """Return attempts that have more than one row.

    The unique key forbids it; this is for a database that has lost its key.
    """
    key = (Run.job_id, Run.scheduled_at, Run.origin_id, Run.shard_index, Run.attempt)
    statement = (
        query(DoubledAttempt, Run, rows=func.count())
        .where(Run.job_id.between(*jobs), Run.scheduled_at > after_ms, Run.scheduled_at <= until_ms)
        .group_by(*key)
        .having(func.count() > 1)
    )
    return fetch(session, DoubledAttempt, statement)


def open_runs(session: Session, *, planned: bool) -> int:
    """Return how many runs are not final; `planned` counts those that were not sent yet."""
    wanted = {RunStatus.PLANNED} if planned else OPEN - {RunStatus.PLANNED}
    return session.execute(
        select(func.count()).select_from(Run).where(Run.status.in_(wanted))
    ).scalar_one()
