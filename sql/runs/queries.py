"""What schedulers ask about runs: what is due, what is open, what has gone silent.

Nothing is ordered by id with a limit: that tempts the database into reading the whole table in the
order of its primary key.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Select, and_, false, func, not_, or_, select
from sqlalchemy.orm import Session

from sql.batch import chunks
from sql.dialects.hints import use_index
from sql.models import App, Job, Run
from sql.rows import fetch, query
from sql.run_status import IN_FLIGHT, Kind, RunStatus
from sql.runs.run_rows import EndedRun, RoutedRun, TracedRun


class RunOfJob(NamedTuple):
    """A run and its job, by their ids."""

    id: int
    job_id: int


class DueSpan(NamedTuple):
    """The due times [from, to) of an app's runs, 0 = of all apps."""

    from_ms: int
    to_ms: int
    app_id: int = 0


class BusyBoot(NamedTuple):
    """A boot of an executor with the number of its runs in flight."""

    app_id: int
    address: str
    boot_id: str
    runs: int


#: How long a wish to kill is looked for; its run has ended some other way by then.
KILL_MS = 24 * 3_600_000


def next_due(session: Session, *, since_ms: int) -> dict[int, int]:
    """Return, for each app id with PLANNED runs due at or after `since_ms`, the earliest `due_at`.

    The lower bound keeps the scan off index entries that an old snapshot still holds: without it a
    claim slows from 4 to 55 ms. Grouping by the status too, which is the same for all, lets MariaDB
    jump from app to app along the index: 6 ms instead of 110 with 100,000 rows.
    """
    rows = session.execute(next_due_of_apps(since_ms))
    return {row[0]: row[1] for row in rows}


def next_due_of_apps(since_ms: int) -> Select[int, int]:
    """Return the statement that reads `next_due`."""
    return (
        select(Run.app_id, func.min(Run.due_at).label("due_at"))
        .where(Run.status == RunStatus.PLANNED, Run.due_at >= since_ms)
        .group_by(Run.status, Run.app_id)
    )


def peek_due(
    session: Session,
    app_id: int,
    *,
    since_ms: int,
    until_ms: int,
    limit: int,
    without_jobs: Collection[int] = (),
    missed: Sequence[DueSpan] = (),
) -> list[int]:
    """Return PLANNED runs of an app due in [since, until], oldest first, without locks.

    Their ids are in the index, so that no row is read. Runs of `without_jobs` are left out, so that
    they cannot hide others, and so are those that a schedule planned for a time in `missed`.
    """
    statement = select(Run.id).where(
        Run.status == RunStatus.PLANNED,
        Run.app_id == app_id,
        Run.due_at >= since_ms,
        Run.due_at <= until_ms,
    )
    if without_jobs:
        statement = statement.where(Run.job_id.not_in(list(without_jobs)))
    if missed:
        statement = statement.where(not_(_is_missed(missed)))
    found = session.execute(statement.order_by(Run.due_at).limit(limit))
    return list(found.scalars())


def job_of(session: Session, run_id: int) -> int | None:
    """Return the job of a run, None if there is no such run."""
    return session.execute(select(Run.job_id).where(Run.id == run_id)).scalar_one_or_none()


def overdue_counts(session: Session, *, before_ms: int) -> dict[int, int]:
    """Return how many PLANNED runs of each job were due before `before_ms`."""
    rows = session.execute(
        select(Run.job_id, func.count())
        .where(Run.status == RunStatus.PLANNED, Run.due_at < before_ms)
        .group_by(Run.job_id)
    )
    return dict(rows.all())


def missed_jobs(session: Session, missed: Sequence[DueSpan]) -> list[int]:
    """Return the jobs with PLANNED runs of their schedules due in any of the spans."""
    rows = session.execute(
        select(Run.job_id).where(Run.status == RunStatus.PLANNED, _is_missed(missed)).distinct()
    )
    return sorted(rows.scalars())


def missed(session: Session, job_ids: Iterable[int], missed: Sequence[DueSpan]) -> list[RunOfJob]:
    """Return those jobs' PLANNED runs, read without locks."""
    planned = query(RunOfJob, Run).where(Run.status == RunStatus.PLANNED, _is_missed(missed))
    return [
        row
        for chunk in chunks(job_ids)
        for row in fetch(session, RunOfJob, planned.where(Run.job_id.in_(chunk)))
    ]


def last_misfires(session: Session, job_ids: Iterable[int], *, since_ms: int) -> dict[int, int]:
    """Return the last tick from `since_ms` on of which a MISFIRE run was planned, by job."""
    rows = session.execute(
        select(Run.job_id, func.max(Run.scheduled_at))
        .where(
            Run.job_id.in_(sorted(job_ids)),
            Run.scheduled_at >= since_ms,
            Run.kind == Kind.MISFIRE,
        )
        .group_by(Run.job_id)
    )
    return dict(rows.all())


def in_flight(session: Session) -> list[BusyBoot]:
    """Return the boots that have runs in flight."""
    busy = query(BusyBoot, Run, runs=func.count()).where(Run.status.in_(IN_FLIGHT))
    return fetch(session, BusyBoot, busy.group_by(Run.app_id, Run.address, Run.boot_id))


def in_flight_of_job(session: Session, app_id: int, job_id: int) -> dict[str, int]:
    """Return how many runs of a job are in flight at each address."""
    counted = (
        select(Run.address, func.count())
        .where(Run.status.in_(IN_FLIGHT), Run.app_id == app_id, Run.job_id == job_id)
        .group_by(Run.address)
    )
    found = session.execute(use_index(counted, Run, "i_status_due"))
    return {address: runs for address, runs in found if address}


def of_boot(
    session: Session, app_id: int, address: str, boot_id: str, *, limit: int
) -> list[RoutedRun]:
    """Return runs in flight of an app that were routed to one boot."""
    return fetch(
        session,
        RoutedRun,
        query(RoutedRun, Run)
        .where(
            Run.status.in_(IN_FLIGHT),
            Run.address == address,
            Run.boot_id == boot_id,
            Run.app_id == app_id,
        )
        .order_by(Run.routed_at)
        .limit(limit),
    )


def routed(
    session: Session,
    *,
    before_ms: int,
    limit: int,
    spared: Iterable[str] = (),
    spared_after_ms: int = 0,
) -> list[RoutedRun]:
    """Return runs routed before `before_ms` whose trigger nobody has confirmed yet.

    What the schedulers `spared` routed is left out from `spared_after_ms` on.
    """
    is_wanted = Run.routed_by.not_in(sorted(spared)) | (Run.routed_at < spared_after_ms)
    return fetch(
        session,
        RoutedRun,
        query(RoutedRun, Run)
        .where(Run.status == RunStatus.ROUTED, Run.routed_at <= before_ms, is_wanted)
        .order_by(Run.routed_at)
        .limit(limit),
    )


def handed_over(session: Session, *, before_ms: int, limit: int) -> list[RoutedRun]:
    """Return runs that an executor should know since before `before_ms`: SENT and RUNNING ones."""
    return fetch(
        session,
        RoutedRun,
        query(RoutedRun, Run)
        .where(Run.status.in_([RunStatus.SENT, RunStatus.RUNNING]), Run.routed_at <= before_ms)
        .order_by(Run.routed_at)
        .limit(limit),
    )


def by_ids(session: Session, run_ids: Iterable[int]) -> list[RoutedRun]:
    """Return runs by their ids, as a dispatcher needs them."""
    return [
        row
        for chunk in chunks(run_ids)
        for row in fetch(session, RoutedRun, query(RoutedRun, Run).where(Run.id.in_(chunk)))
    ]


def underway(session: Session, run_ids: Iterable[int], *, since_ms: int) -> list[RoutedRun]:
    """Return those of these runs whose trigger may be on its way, routed after `since_ms`."""
    coming = (RunStatus.ROUTED, RunStatus.SENT)
    found = by_ids(session, run_ids)
    return [run for run in found if run.status in coming and run.routed_at > since_ms]


def wanted_dead(session: Session, *, now_ms: int) -> list[RoutedRun]:
    """Return runs in flight that somebody asked to kill, oldest first."""
    return fetch(
        session,
        RoutedRun,
        query(RoutedRun, Run)
        .where(*is_wanted_dead(now_ms))
        .order_by(Run.kill_requested_at)
        .limit(1_000),
    )


def is_wanted_dead(now_ms: int) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions on runs in flight that somebody asked to kill in the last day."""
    return Run.kill_requested_at >= now_ms - KILL_MS, Run.status.in_(IN_FLIGHT)


def statuses(session: Session, run_ids: Iterable[int]) -> dict[int, RunStatus]:
    """Return the status of each of the runs that exist."""
    return {
        run_id: RunStatus(status)
        for chunk in chunks(run_ids)
        for run_id, status in session.execute(select(Run.id, Run.status).where(Run.id.in_(chunk)))
    }


def _is_missed(missed: Sequence[DueSpan]) -> ColumnElement[bool]:
    """Return the condition on runs that a schedule planned for a time in one of the spans."""
    is_due = or_(false(), *map(_is_due, missed))
    return and_(Run.kind.in_([Kind.SCHEDULE, Kind.MISFIRE]), is_due)


def _is_due(span: DueSpan) -> ColumnElement[bool]:
    is_due = and_(Run.due_at >= span.from_ms, Run.due_at < span.to_ms)
    return and_(Run.app_id == span.app_id, is_due) if span.app_id else is_due


def ended(session: Session, run_ids: Iterable[int]) -> dict[int, EndedRun]:
    """Return what others are told of runs that are over, by id."""
    return {
        run.id: run
        for chunk in chunks(sorted(set(run_ids)))
        for run in fetch(session, EndedRun, query(EndedRun, Run).where(Run.id.in_(chunk)))
    }


def traced(session: Session, run_ids: Iterable[int]) -> list[TracedRun]:
    """Return what the spans of runs tell."""
    runs = (
        query(TracedRun, Run, app=App.name, job=Job.name)
        .outerjoin(Job, Job.id == Run.job_id)
        .outerjoin(App, App.id == Run.app_id)
    )
    return [
        run
        for chunk in chunks(sorted(set(run_ids)))
        for run in fetch(session, TracedRun, runs.where(Run.id.in_(chunk)))
    ]


def traceparents(session: Session, run_ids: Iterable[int]) -> dict[int, str]:
    """Return the traces that runs were triggered in, of those that were in one."""
    return {
        row.id: row.traceparent
        for chunk in chunks(sorted(set(run_ids)))
        for row in session.execute(select(Run.id, Run.traceparent).where(Run.id.in_(chunk)))
        if row.traceparent
    }
