"""When jobs last succeeded, for the jobs that have metrics of their own.

The time is kept apart from the runs: it outlives them, and no reader has to search for it.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import ColumnElement, Subquery, delete, func, select, union_all
from sqlalchemy.orm import Session

from warren.sql.batch import chunks, modify
from warren.sql.dialects.supported import of, use_index
from warren.sql.models import App, Job, JobSuccess, Run
from warren.sql.models.run_tables import BY_TICK
from warren.sql.rows import fetch, query
from warren.sql.run_status import RunStatus

#: How many of a job's newest runs are searched for its last success.
MAX_RUNS = 20
#: Jobs of one statement that searches.
_CHUNK = 50


class LastSuccess(NamedTuple):
    """When a run of a job last succeeded, in epoch milliseconds."""

    app: str
    job: str
    succeeded_at: int


def chosen_jobs(session: Session, limit: int) -> list[int]:
    """Return the ids of the enabled jobs that have metrics of their own.

    Those with expectations come first, then the oldest.
    """
    chosen = select(Job.id).where(_IS_ELIGIBLE).order_by(*_ORDER).limit(limit)
    return list(session.execute(chosen).scalars())


def of_jobs(session: Session, job_ids: Iterable[int]) -> list[LastSuccess]:
    """Return the last success of each job that has one."""
    successes = query(LastSuccess, JobSuccess, app=App.name, job=Job.name)
    named = successes.join(Job, Job.id == JobSuccess.job_id).join(App, App.id == Job.app_id)
    return [
        row
        for chunk in chunks(job_ids)
        for row in fetch(session, LastSuccess, named.where(JobSuccess.job_id.in_(chunk)))
    ]


def found_in_runs(
    session: Session, job_ids: Iterable[int], *, now_ms: int, most: int = MAX_RUNS
) -> dict[int, int]:
    """Return the last success of jobs by id, if it is among their newest runs."""
    by_job: dict[int, int] = {}
    for chunk in chunks(job_ids, _CHUNK):
        newest = union_all(*(select(_newest(job_id, now_ms, most)) for job_id in chunk)).subquery()
        last = (
            select(newest.c.job_id, func.max(newest.c.finished_at))
            .where(newest.c.status == RunStatus.SUCCEEDED)
            .group_by(newest.c.job_id)
        )
        by_job |= {job_id: at_ms for job_id, at_ms in session.execute(last) if at_ms is not None}
    return by_job


def keep(session: Session, successes: Mapping[int, int]) -> None:
    """Store successes that are later than the stored ones, by job id."""
    stored: dict[int, int] = {}
    for chunk in chunks(successes):
        columns = select(JobSuccess.job_id, JobSuccess.succeeded_at)
        result = session.execute(columns.where(JobSuccess.job_id.in_(chunk)))
        stored |= dict(result.all())
    rows = [
        {"job_id": job_id, "succeeded_at": at_ms}
        for job_id, at_ms in sorted(successes.items())
        if at_ms > stored.get(job_id, -1)
    ]
    replace = of(session).insert_or_replace(JobSuccess, JobSuccess.job_id, JobSuccess.succeeded_at)
    if rows:
        session.execute(replace, rows)


def forget(session: Session, job_id: int) -> None:
    """Delete the last success of a job that is deleted."""
    modify(session, delete(JobSuccess).where(JobSuccess.job_id == job_id))


def _newest(job_id: int, now_ms: int, most: int) -> Subquery:
    runs = select(Run.job_id, Run.status, Run.finished_at).where(
        Run.job_id == job_id, Run.scheduled_at <= now_ms
    )
    newest = runs.order_by(Run.scheduled_at.desc()).limit(most)
    return use_index(newest, Run, BY_TICK).subquery()


_IS_ELIGIBLE: ColumnElement[bool] = Job.is_enabled == 1
_ORDER = (Job.expect.is_(None), Job.id)
