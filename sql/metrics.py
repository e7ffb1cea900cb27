"""Metrics: counters by app, and when the jobs that have metrics of their own last succeeded.

Schedulers add to the counters every few seconds; deleting runs does not lower them. The times of
successes are kept apart from the runs, too: they outlive them, and no reader has to look for them.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from sqlalchemy import ColumnElement, Subquery, delete, func, select, union_all
from sqlalchemy.orm import Session

from warren.sql.batch import chunks, fetch_by_ids, insert_or_replace, modify
from warren.sql.dialects.supported import of, use_index
from warren.sql.models import App, Job, JobSuccess, MetricCount, Run
from warren.sql.models.run_tables import BY_TICK
from warren.sql.rows import fetch, query
from warren.sql.run_status import RunStatus


class Counted(StrEnum):
    #: Ended runs; the label is their status.
    RUNS = "runs"
    #: How long runs took, and how late they started. The label is the upper bound of a bucket in
    #: milliseconds, ABOVE, or SUM for the sum of all in milliseconds.
    DURATION = "duration"
    LATENESS = "lateness"
    #: Skipped due times; no label.
    SKIPS = "skips"


#: The upper bounds of buckets in milliseconds, without the last bucket, which has none.
DURATION_BOUNDS_MS = (
    *(100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 1_800_000),
    *(3_600_000, 7_200_000, 14_400_000, 28_800_000),
)
LATENESS_BOUNDS_MS = (
    *(50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000),
    *(300_000, 900_000, 3_600_000),
)
#: Labels of a histogram besides its bounds.
ABOVE, SUM = "above", "sum"


class CountKey(NamedTuple):
    """Identifies a counter: what it counts, of which app, with which label."""

    name: Counted
    app_id: int
    label: str = ""


class AppCount(NamedTuple):
    """The value of one of an app's counters."""

    name: str
    app: str
    label: str
    number: int


def add(session: Session, counts: Mapping[CountKey, int]) -> None:
    """Add to counters; those that do not exist yet begin at 0."""
    rows = [
        {"name": key.name.value, "app_id": key.app_id, "label": key.label, "count": count}
        for key, count in sorted(counts.items())  # in the same order for all, to avoid deadlocks
        if count
    ]
    if rows:
        session.execute(of(session).insert_or_add(MetricCount, MetricCount.count), rows)


def add_cancelled(session: Session, cancelled: Mapping[int, int]) -> None:
    """Count runs that this transaction has cancelled, by app id."""
    status = RunStatus.CANCELLED.value
    add(session, {CountKey(Counted.RUNS, app_id, status): n for app_id, n in cancelled.items()})


def add_skips(session: Session, skipped: Mapping[int, int]) -> None:
    """Count due times that this transaction has skipped, by app id."""
    add(session, {CountKey(Counted.SKIPS, app_id): n for app_id, n in skipped.items()})


def of_apps(session: Session) -> list[AppCount]:
    """Return all counters of apps that exist."""
    counts = query(AppCount, MetricCount, app=App.name, number=MetricCount.count)
    return fetch(session, AppCount, counts.join(App, App.id == MetricCount.app_id))


def app_names(session: Session) -> list[str]:
    return list(session.execute(select(App.name).order_by(App.name)).scalars())


def forget_app(session: Session, app_id: int) -> None:
    """Delete the counters of an app that is deleted."""
    modify(session, delete(MetricCount).where(MetricCount.app_id == app_id))


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


def last_successes(session: Session, job_ids: Iterable[int]) -> list[LastSuccess]:
    """Return the last success of each job that has one."""
    successes = query(LastSuccess, JobSuccess, app=App.name, job=Job.name)
    named = successes.join(Job, Job.id == JobSuccess.job_id).join(App, App.id == Job.app_id)
    return fetch_by_ids(session, LastSuccess, named, JobSuccess.job_id, job_ids)


def last_successes_in_runs(
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


def keep_successes(session: Session, successes: Mapping[int, int]) -> None:
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
    insert_or_replace(session, JobSuccess, rows, key="job_id")


def forget_success(session: Session, job_id: int) -> None:
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
