"""What the outlook is made from, and the stored outlooks."""

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import delete, insert
from sqlalchemy.orm import Session

from warren.sql.batch import modify
from warren.sql.dialects.supported import use_index
from warren.sql.models import Job, JobState, Limit, Outlook, Run
from warren.sql.models.job_tables import BY_NEXT_TICK
from warren.sql.rows import fetch, query
from warren.sql.run_status import IN_FLIGHT, RunStatus

#: The most jobs and runs that an outlook is made from.
MAX_JOBS, MAX_RUNS = 5_000, 10_000


class DueJob(NamedTuple):
    """A job that is due soon: its schedule, and what its runs need."""

    id: int
    app_id: int
    schedule_kind: str
    schedule_value: str | None
    schedule_options: str | None
    timezone: str | None
    is_enabled: int
    next_tick_at: int


class Needs(NamedTuple):
    """What runs of a job need, and how long they usually take; None = nobody knows."""

    id: int
    concurrency: int
    scope: str
    limits: str | None
    usual_ms: int | None
    took_ms: int | None


class OpenRun(NamedTuple):
    """A run that waits, is due soon, or runs."""

    app_id: int
    job_id: int
    due_at: int
    status: str
    started_at: int | None


class LimitRoom(NamedTuple):
    """A limit, see `warren.sql.models.Limit`."""

    id: int
    name: str | None
    at_once: int | None
    rate: int | None
    per_ms: int | None
    tokens: float | None


def due_jobs(session: Session, until_ms: int) -> list[DueJob]:
    """Return the jobs that are due until an instant, those due first before the others."""
    due = query(DueJob, Job).where(Job.is_enabled == 1, Job.next_tick_at <= until_ms)
    first = use_index(due, Job, BY_NEXT_TICK).order_by(Job.next_tick_at).limit(MAX_JOBS)
    return fetch(session, DueJob, first)


def open_runs(session: Session, until_ms: int) -> list[OpenRun]:
    """Return the runs that are open and due until an instant."""
    is_open = Run.status.in_({*IN_FLIGHT, RunStatus.PLANNED})
    wanted = query(OpenRun, Run).where(is_open, Run.due_at <= until_ms)
    return fetch(session, OpenRun, wanted.order_by(Run.due_at).limit(MAX_RUNS))


def needs(session: Session, job_ids: list[int]) -> dict[int, Needs]:
    """Return what runs of jobs need."""
    wanted = (
        query(Needs, Job, usual_ms=JobState.usual_ms, took_ms=JobState.took_ms)
        .outerjoin(JobState, JobState.job_id == Job.id)
        .where(Job.id.in_(job_ids))
    )
    return {row.id: row for row in fetch(session, Needs, wanted)}


def limits(session: Session) -> list[LimitRoom]:
    """Return the limits that have a name."""
    return fetch(session, LimitRoom, query(LimitRoom, Limit).where(Limit.name.is_not(None)))


def store(session: Session, outlooks: Mapping[int, str], *, now_ms: int) -> None:
    """Store the outlook of each app, in place of all that are stored."""
    modify(session, delete(Outlook))
    rows = [
        {"app_id": app_id, "made_at": now_ms, "content": content}
        for app_id, content in sorted(outlooks.items())
    ]
    if rows:
        session.execute(insert(Outlook), rows)
