"""What the audit compares: ticks that have rows, ticks that were skipped, runs cleared."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from sql import families
from sql.instants import epoch_ms
from sql.models import App, Job, Purge, Run, SkippedTicks
from sql.rows import AnyRow, Rows
from sql.run_columns import TICK_COLUMNS
from sql.run_status import OPEN, Kind, RunStatus


def jobs(session: Session, job_id: int | None = None) -> Rows:
    """Return `id, name, trigger_last_time` of every job, or of one."""
    statement = select(
        Job.id,
        (App.app_name + "/" + Job.job_desc).label("name"),
        Job.trigger_last_time,
    ).join(App, App.id == Job.job_group)
    if job_id is not None:
        statement = statement.where(Job.id == job_id)
    return session.execute(statement).all()


def ticks_with_rows(
    session: Session, job_id: int, *, after_ms: int, until_ms: int
) -> Sequence[tuple[int, str]]:
    """Return the ticks of a job's schedule that have a run, with the first attempt's status."""
    rows = session.execute(
        select(Run.scheduled_at, Run.status)
        .where(
            Run.job_id == job_id,
            Run.scheduled_at > after_ms,
            Run.scheduled_at <= until_ms,
            Run.origin_id == 0,
            Run.shard_index == 0,
            Run.attempt == 0,
        )
        .order_by(Run.scheduled_at)
    )
    return [(row.scheduled_at, row.status) for row in rows]


def delayed_ticks(session: Session, job_id: int, *, after_ms: int, until_ms: int) -> Rows:
    """Return the ticks of a job's schedule that have a run.

    `scheduled_at`, the first attempt's `status`, `is_open` as the number of runs that are not over,
    and the last `finished_at`.
    """
    is_open = case((Run.status.in_(OPEN), 1), else_=0)
    is_first = (Run.shard_index == 0) & (Run.attempt == 0)
    return session.execute(
        select(
            Run.scheduled_at,
            func.max(case((is_first, Run.status))).label("status"),
            func.sum(is_open).label("is_open"),
            func.max(Run.finished_at).label("finished_at"),
        )
        .where(
            Run.job_id == job_id,
            Run.scheduled_at > after_ms,
            Run.scheduled_at <= until_ms,
            Run.origin_id == 0,
        )
        .group_by(Run.scheduled_at)
        .order_by(Run.scheduled_at)
    ).all()


def jobs_at_work(session: Session) -> set[int]:
    """Return the jobs with an open run that their schedule caused."""
    return set(
        session.execute(
            select(Run.job_id).where(Run.status.in_(OPEN), Run.origin_id == 0).distinct()
        ).scalars()
    )


def broken_shards(
    session: Session, *, after_ms: int, until_ms: int, job_id: int | None = None
) -> Rows:
    """Return `job_id, scheduled_at, total, shards` of broadcasts whose shards are not 0 to n-1."""
    total, shards = func.max(Run.shard_total), func.count(Run.shard_index.distinct())
    statement = (
        select(Run.job_id, Run.scheduled_at, total.label("total"), shards.label("shards"))
        .where(Run.shard_total > 1, Run.scheduled_at > after_ms, Run.scheduled_at <= until_ms)
        .group_by(Run.job_id, Run.scheduled_at, Run.origin_id)
        .having((shards != total) | (func.max(Run.shard_index) >= total))
    )
    if job_id is not None:
        statement = statement.where(Run.job_id == job_id)
    return session.execute(statement).all()


class Parent(NamedTuple):
    """A job with children, which it has had since `since_ms` or longer."""

    id: int
    name: str
    children: tuple[int, ...]
    since_ms: int


def parents(session: Session) -> list[Parent]:
    """Return the jobs that have children; one that was never saved by us is left out."""
    rows = session.execute(
        select(
            Job.id,
            (App.app_name + "/" + Job.job_desc).label("name"),
            Job.child_jobid,
            Job.update_time,
        )
        .join(App, App.id == Job.job_group)
        .where(Job.child_jobid != "", Job.update_time.is_not(None))
    )
    return [
        Parent(row.id, row.name, families.ids(row.child_jobid), epoch_ms(row.update_time))
        for row in rows
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


def attempts(session: Session, job_id: int, *, after_ms: int, until_ms: int) -> Iterable[AnyRow]:
    """Give every run of a job, by tick, shard and attempt; nothing else may be asked meanwhile."""
    statement = (
        select(*TICK_COLUMNS)
        .where(Run.job_id == job_id, Run.scheduled_at > after_ms, Run.scheduled_at <= until_ms)
        .order_by(Run.scheduled_at, Run.origin_id, Run.shard_index, Run.attempt)
    )
    return session.execute(statement, execution_options={"yield_per": 5_000})


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


def doubled(session: Session, *, after_ms: int, until_ms: int, job_id: int | None = None) -> Rows:
    """Return `job_id, scheduled_at, rows` of attempts that have more than one row.

    The unique key forbids it; this is for a database that has lost its key.
    """
    key = (Run.job_id, Run.scheduled_at, Run.origin_id, Run.shard_index, Run.attempt)
    statement = (
        select(Run.job_id, Run.scheduled_at, func.count().label("rows"))
        .where(Run.scheduled_at > after_ms, Run.scheduled_at <= until_ms)
        .group_by(*key)
        .having(func.count() > 1)
    )
    if job_id is not None:
        statement = statement.where(Run.job_id == job_id)
    return session.execute(statement).all()


def open_runs(session: Session, *, planned: bool) -> int:
    """Return how many runs are not final; `planned` counts those that were not sent yet."""
    wanted = {RunStatus.PLANNED} if planned else OPEN - {RunStatus.PLANNED}
    return session.execute(
        select(func.count()).select_from(Run).where(Run.status.in_(wanted))
    ).scalar_one()
