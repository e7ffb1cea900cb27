"""Queries of the scheduler's roles about runs: which are due, in flight, or silent.

No query orders by id with a limit: the database might then read the whole table along its primary
key.
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
    """The ids of a run and its job."""

    id: int
    job_id: int


class DueSpan(NamedTuple):
    """Due times in which runs of a schedule have misfired, of one app or, with `app_id` 0, of all.

    These are [from, to). A MISFIRE run that was still waiting is decided about anew, together with
    what was missed after it, so its due times reach up to `over_ms`.
    """

    from_ms: int
    to_ms: int
    over_ms: int
    app_id: int = 0


class BusyBoot(NamedTuple):
    """A boot of an executor, and the number of its runs in flight."""

    app_id: int
    address: str
    boot_id: str
    runs: int


#: Kill requests older than this are ignored; their runs have ended in some other way.
KILL_MS = 24 * 3_600_000


def next_due(session: Session, *, since_ms: int) -> dict[int, int]:
    """Return the earliest `due_at` of each app's PLANNED runs due at or after `since_ms`.

    The lower bound avoids index entries that are deleted but kept for an old snapshot; without it a
    claim takes 55 ms instead of 4. Grouping by status too, although all have the same, lets MariaDB
    jump from app to app along the index: 6 ms instead of 110 with 100,000 rows.
    """
    rows = session.execute(next_due_of_apps(since_ms))
    return {row[0]: row[1] for row in rows}


def next_due_of_apps(since_ms: int) -> Select[int, int]:
    """Return the SELECT of `next_due`."""
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
    """Return the ids of an app's PLANNED runs due in [since, until], oldest first, without locks.

    The ids are in the index, so no row is read. Runs of `without_jobs` are left out, and so are
    runs that a schedule planned for a time in `missed`.
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
    run_ids = session.execute(statement.order_by(Run.due_at).limit(limit))
    return list(run_ids.scalars())


def job_of(session: Session, run_id: int) -> int | None:
    """Return the id of a run's job; None if there is no such run."""
    return session.execute(select(Run.job_id).where(Run.id == run_id)).scalar_one_or_none()


def overdue_counts(session: Session, *, before_ms: int) -> dict[int, int]:
    """Return the number of each job's PLANNED runs that were due before `before_ms`."""
    rows = session.execute(
        select(Run.job_id, func.count())
        .where(Run.status == RunStatus.PLANNED, Run.due_at < before_ms)
        .group_by(Run.job_id)
    )
    return dict(rows.all())


def missed_jobs(session: Session, missed: Sequence[DueSpan]) -> list[int]:
    """Return the jobs with PLANNED runs of their schedules that misfired in one of the spans."""
    rows = session.execute(
        select(Run.job_id).where(Run.status == RunStatus.PLANNED, _is_missed(missed)).distinct()
    )
    return sorted(rows.scalars())


def missed(session: Session, job_ids: Iterable[int], missed: Sequence[DueSpan]) -> list[RunOfJob]:
    """Return those runs of these jobs, without locks."""
    planned = query(RunOfJob, Run).where(Run.status == RunStatus.PLANNED, _is_missed(missed))
    return [
        row
        for chunk in chunks(job_ids)
        for row in fetch(session, RunOfJob, planned.where(Run.job_id.in_(chunk)))
    ]


def last_misfires(session: Session, job_ids: Iterable[int], *, since_ms: int) -> dict[int, int]:
    """Return each job's last tick at or after `since_ms` that has a MISFIRE run."""
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
    """Return the number of a job's runs in flight by address."""
    counted = (
        select(Run.address, func.count())
        .where(Run.status.in_(IN_FLIGHT), Run.app_id == app_id, Run.job_id == job_id)
        .group_by(Run.address)
    )
    rows = session.execute(use_index(counted, Run, "i_status_due"))
    return {address: runs for address, runs in rows if address}


def of_boot(
    session: Session, app_id: int, address: str, boot_id: str, *, limit: int
) -> list[RoutedRun]:
    """Return an app's runs in flight that were routed to one boot."""
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
    except_nodes: Iterable[str] = (),
    except_since_ms: int = 0,
) -> list[RoutedRun]:
    """Return runs routed up to `before_ms` whose trigger is not confirmed yet.

    Runs that the schedulers `except_nodes` have routed since `except_since_ms` are left out.
    """
    is_wanted = Run.routed_by.not_in(sorted(except_nodes)) | (Run.routed_at < except_since_ms)
    return fetch(
        session,
        RoutedRun,
        query(RoutedRun, Run)
        .where(Run.status == RunStatus.ROUTED, Run.routed_at <= before_ms, is_wanted)
        .order_by(Run.routed_at)
        .limit(limit),
    )


def sent_or_running(session: Session, *, before_ms: int, limit: int) -> list[RoutedRun]:
    """Return SENT and RUNNING runs routed up to `before_ms`, which an executor should know."""
    return fetch(
        session,
        RoutedRun,
        query(RoutedRun, Run)
        .where(Run.status.in_([RunStatus.SENT, RunStatus.RUNNING]), Run.routed_at <= before_ms)
        .order_by(Run.routed_at)
        .limit(limit),
    )


def by_ids(session: Session, run_ids: Iterable[int]) -> list[RoutedRun]:
    """Return runs by id."""
    return [
        row
        for chunk in chunks(run_ids)
        for row in fetch(session, RoutedRun, query(RoutedRun, Run).where(Run.id.in_(chunk)))
    ]


def underway(session: Session, run_ids: Iterable[int], *, since_ms: int) -> list[RoutedRun]:
    """Return those of the runs that were routed after `since_ms` and have not reported a start."""
    unstarted = (RunStatus.ROUTED, RunStatus.SENT)
    runs = by_ids(session, run_ids)
    return [run for run in runs if run.status in unstarted and run.routed_at > since_ms]


def kill_requested(session: Session, *, now_ms: int) -> list[RoutedRun]:
    """Return runs in flight with a kill request of the last day, oldest request first."""
    return fetch(
        session,
        RoutedRun,
        query(RoutedRun, Run)
        .where(*is_kill_requested(now_ms))
        .order_by(Run.kill_requested_at)
        .limit(1_000),
    )


def is_kill_requested(now_ms: int) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions on runs in flight with a kill request of the last day."""
    return Run.kill_requested_at >= now_ms - KILL_MS, Run.status.in_(IN_FLIGHT)


def statuses(session: Session, run_ids: Iterable[int]) -> dict[int, RunStatus]:
    """Return the status of each of the runs that exist."""
    return {
        run_id: RunStatus(status)
        for chunk in chunks(run_ids)
        for run_id, status in session.execute(select(Run.id, Run.status).where(Run.id.in_(chunk)))
    }


def _is_missed(missed: Sequence[DueSpan]) -> ColumnElement[bool]:
    """Return the condition on runs of a schedule that misfired in one of the spans."""
    is_due = or_(false(), *map(_is_due, missed))
    return and_(Run.kind.in_([Kind.SCHEDULE, Kind.MISFIRE]), is_due)


def _is_due(span: DueSpan) -> ColumnElement[bool]:
    is_due = and_(
        Run.due_at >= span.from_ms,
        Run.due_at < span.over_ms,
        or_(Run.due_at < span.to_ms, Run.kind == Kind.MISFIRE),
    )
    return and_(Run.app_id == span.app_id, is_due) if span.app_id else is_due


def ended(session: Session, run_ids: Iterable[int]) -> dict[int, EndedRun]:
    """Return the runs by id, with what run webhooks report about them."""
    return {
        run.id: run
        for chunk in chunks(sorted(set(run_ids)))
        for run in fetch(session, EndedRun, query(EndedRun, Run).where(Run.id.in_(chunk)))
    }


def traced(session: Session, run_ids: Iterable[int]) -> list[TracedRun]:
    """Return the runs with what their spans contain."""
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
    """Return the `traceparent` of the runs that have one, by id."""
    return {
        row.id: row.traceparent
        for chunk in chunks(sorted(set(run_ids)))
        for row in session.execute(select(Run.id, Run.traceparent).where(Run.id.in_(chunk)))
        if row.traceparent
    }
