"""What is the case right now: runs that wait or run for long, executors that are gone, full limits.

Also the events that are kept of it, once it is over.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import ColumnElement, delete, func, insert, or_, select, update
from sqlalchemy.orm import Session

from warren.sql import limits
from warren.sql.batch import ALREADY_LOCKED, chunks, fetch_by_ids, modify, update_each
from warren.sql.models import App, BoardEvent, Job, JobError, JobState, Limit, Registration, Run
from warren.sql.registry.presence import EXECUTOR
from warren.sql.rows import fetch, query
from warren.sql.run_status import RunStatus

_WAITING = (RunStatus.PLANNED, RunStatus.ROUTED, RunStatus.SENT)


class Waiting(NamedTuple):
    """A job's runs that have not started, and when the first of them was due."""

    job_id: int
    app_id: int
    number: int
    oldest_at: int


class LongestRun(NamedTuple):
    """The run of a job that has run longest, by its start."""

    job_id: int
    started_at: int
    usual_ms: int


class LiveState(NamedTuple):
    """What is stored of the open runs of a job, and its last due times."""

    job_id: int
    waiting_count: int
    waiting_since: int
    long_since: int
    week_ms: int
    strip: str


class FullLimit(NamedTuple):
    """A limit of which nothing is left."""

    id: int
    name: str


class SpellRow(NamedTuple):
    """An error of a job, and whether the job fails with it now."""

    app_id: int
    error_key: str
    error_text: str
    since_at: int
    last_at: int
    still: str | None


class EventRow(NamedTuple):
    """See `BoardEvent`."""

    id: int
    kind: str
    app_id: int
    subject: str
    since_at: int
    until_at: int | None
    runs: int
    error_key: str | None = None


def waiting(session: Session, *, due_before_ms: int) -> list[Waiting]:
    """Return the jobs with runs that were due before an instant and have not started."""
    statement = (
        query(Waiting, Run, number=func.count(), oldest_at=func.min(Run.due_at))
        .where(Run.status.in_(_WAITING), Run.due_at < due_before_ms)
        .group_by(Run.job_id, Run.app_id)
    )
    return fetch(session, Waiting, statement)


def longest(session: Session) -> list[LongestRun]:
    """Return the run of each job that has run longest, of jobs whose usual duration is known."""
    statement = (
        query(LongestRun, Run, started_at=func.min(Run.started_at), usual_ms=JobState.usual_ms)
        .join(JobState, JobState.job_id == Run.job_id)
        .where(Run.status == RunStatus.RUNNING, JobState.usual_ms > 0)
        .group_by(Run.job_id, JobState.usual_ms)
    )
    return fetch(session, LongestRun, statement.where(Run.started_at.is_not(None)))


def marked(session: Session) -> set[int]:
    """Return the jobs that are stored as waiting or running for long."""
    is_marked = or_(JobState.waiting_count > 0, JobState.long_since > 0)
    return set(session.execute(select(JobState.job_id).where(is_marked)).scalars())


def states(session: Session, job_ids: Iterable[int]) -> list[LiveState]:
    """Return what is stored of the open runs of jobs."""
    return fetch_by_ids(session, LiveState, query(LiveState, JobState), JobState.job_id, job_ids)


def mark(session: Session, rows: Iterable[Mapping[str, int]]) -> None:
    """Store what is known of the open runs of jobs."""
    ordered = sorted(rows, key=lambda row: row["job_id"])
    if ordered:
        update_each(session, JobState, ordered, guard=ALREADY_LOCKED, key="job_id")


def executors(session: Session) -> list[tuple[int, Registration]]:
    """Return the executors that have registered, each with the id of its app."""
    wanted = select(App.id, Registration).join(App, App.name == Registration.app)
    return [(id_, row) for id_, row in session.execute(wanted.where(Registration.kind == EXECUTOR))]


def lost_runs(session: Session, app_id: int, address: str, since_ms: int) -> int:
    """Return how many runs were lost with an executor."""
    lost = select(func.count()).where(*lost_with(app_id, address, since_ms=since_ms))
    return session.execute(lost).scalar_one()


def lost_with(app_id: int, address: str, *, since_ms: int) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions of runs that were due since then, and were lost with an executor."""
    return (
        Run.status == RunStatus.LOST,
        Run.app_id == app_id,
        Run.due_at >= since_ms,
        Run.address == address,
    )


def full_limits(session: Session) -> list[FullLimit]:
    """Return the limits with a name of which nothing is left."""
    known = session.execute(
        select(Limit.id, Limit.name, Limit.at_once).where(
            Limit.name.is_not(None), Limit.at_once.is_not(None)
        )
    ).all()
    taken = limits.held(session, [id_ for id_, _, _ in known])
    return [
        FullLimit(id_, name or "")
        for id_, name, at_once in known
        if at_once is not None and taken.get(id_, 0) >= at_once
    ]


def limits_of(session: Session, job_ids: Iterable[int]) -> dict[int, str]:
    """Return the limits that jobs name, as their field says."""
    return {
        job_id: limits or ""
        for chunk in chunks(sorted(job_ids))
        for job_id, limits in session.execute(
            select(Job.id, Job.limits).where(Job.id.in_(chunk), Job.limits.is_not(None))
        )
    }


def spells(session: Session, *, since_ms: int) -> list[SpellRow]:
    """Return the errors of jobs since an instant, those that began first before the others."""
    statement = (
        query(SpellRow, JobError, app_id=Job.app_id, still=JobState.error_key)
        .join(Job, Job.id == JobError.job_id)
        .outerjoin(JobState, JobState.job_id == JobError.job_id)
        .where(JobError.last_at >= since_ms)
    )
    return fetch(session, SpellRow, statement.order_by(JobError.since_at))


def events(session: Session, *, since_ms: int) -> list[EventRow]:
    """Return the events that are open, or were since an instant."""
    is_recent = or_(BoardEvent.until_at.is_(None), BoardEvent.until_at >= since_ms)
    wanted = query(EventRow, BoardEvent).where(is_recent)
    return fetch(session, EventRow, wanted.order_by(BoardEvent.id))


def add_event(
    session: Session,
    *,
    kind: str,
    app_id: int,
    subject: str,
    since_at: int,
    until_at: int | None,
    runs: int,
    error_key: str | None,
) -> None:
    row = {"kind": kind, "app_id": app_id, "subject": subject, "error_key": error_key}
    row |= {"since_at": since_at, "until_at": until_at, "runs": runs}
    session.execute(insert(BoardEvent), row)


def change_event(
    session: Session, event_id: int, *, since_at: int, until_at: int | None, runs: int
) -> None:
    """Change how long an event was, and how much it cost."""
    changed = update(BoardEvent).where(BoardEvent.id == event_id)
    modify(session, changed.values(since_at=since_at, until_at=until_at, runs=runs))


def forget_events(session: Session, before_ms: int) -> None:
    """Delete events that were over before an instant."""
    modify(session, delete(BoardEvent).where(BoardEvent.until_at < before_ms))
