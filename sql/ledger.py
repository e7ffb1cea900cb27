"""What the audit compares: ticks that have rows, ticks that were skipped, runs cleared."""

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from sql.models import App, Job, Purge, Run, SkippedTicks
from sql.rows import Rows
from sql.run_status import OPEN, RunStatus


def jobs(session: Session) -> Rows:
    """Return every job's `id, name, trigger_last_time`."""
    return session.execute(
        select(
            Job.id,
            (App.app_name + "/" + Job.job_desc).label("name"),
            Job.trigger_last_time,
        ).join(App, App.id == Job.job_group)
    ).all()


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


def doubled(session: Session, *, after_ms: int, until_ms: int) -> Rows:
    """Return `job_id, scheduled_at, rows` of attempts that have more than one row.

    The unique key forbids it; this is for a database that has lost its key.
    """
    key = (Run.job_id, Run.scheduled_at, Run.origin_id, Run.shard_index, Run.attempt)
    return session.execute(
        select(Run.job_id, Run.scheduled_at, func.count().label("rows"))
        .where(Run.scheduled_at > after_ms, Run.scheduled_at <= until_ms)
        .group_by(*key)
        .having(func.count() > 1)
    ).all()


def open_runs(session: Session, *, planned: bool) -> int:
    """Return how many runs are not final; `planned` counts those that were not sent yet."""
    wanted = {RunStatus.PLANNED} if planned else OPEN - {RunStatus.PLANNED}
    return session.execute(
        select(func.count()).select_from(Run).where(Run.status.in_(wanted))
    ).scalar_one()
