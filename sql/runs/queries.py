"""Queries about runs that are in flight, and about runs by their ids.

No query orders by id with a limit: the database might then read the whole table along its primary
key.
"""

from collections.abc import Iterable

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from warren.sql.batch import chunks, fetch_by_ids
from warren.sql.dialects.supported import use_index
from warren.sql.instants import AHEAD_MS, DAY_MS
from warren.sql.models import App, Job, Run
from warren.sql.models.run_tables import BY_STATUS
from warren.sql.rows import fetch, query
from warren.sql.run_status import IN_FLIGHT, OPEN, RunStatus
from warren.sql.runs.run_rows import EndedRun, LockedRun, RoutedRun, RunFacts, TracedRun
from warren.sql.runs.transitions import SentTo

#: Kill requests older than this are ignored; their runs ended otherwise.
KILL_MS = DAY_MS


def in_flight(session: Session) -> dict[SentTo, int]:
    """Return the number of runs in flight of each boot that has any."""
    key = (Run.app_id, Run.address, Run.boot_id)
    busy = select(*key, func.count()).where(Run.status.in_(IN_FLIGHT), Run.address.is_not(None))
    rows = session.execute(busy.group_by(*key))
    return {SentTo._make(boot): runs for *boot, runs in rows}


def count_open_at(session: Session, app_id: int, address: str) -> int:
    """Return how many of an app's runs are in flight at an address."""
    counted = select(func.count()).where(
        Run.status.in_(IN_FLIGHT), Run.app_id == app_id, Run.address == address
    )
    return session.execute(use_index(counted.select_from(Run), Run, BY_STATUS)).scalar_one()


def in_flight_of_job(session: Session, app_id: int, job_id: int) -> dict[str, int]:
    """Return the number of a job's runs in flight by address."""
    counted = (
        select(Run.address, func.count())
        .where(Run.status.in_(IN_FLIGHT), Run.app_id == app_id, Run.job_id == job_id)
        .group_by(Run.address)
    )
    rows = session.execute(use_index(counted, Run, BY_STATUS))
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
    now_ms: int,
    limit: int,
    except_nodes: Iterable[str] = (),
    except_since_ms: int = 0,
) -> list[RoutedRun]:
    """Return runs routed up to `before_ms` whose trigger is not confirmed yet.

    That includes those routed before the clock was set back to `now_ms`. Runs that the schedulers
    `except_nodes` have routed since `except_since_ms` are left out.
    """
    is_wanted = Run.routed_by.not_in(sorted(except_nodes)) | _was_routed(except_since_ms, now_ms)
    return fetch(
        session,
        RoutedRun,
        query(RoutedRun, Run)
        .where(Run.status == RunStatus.ROUTED, _was_routed(before_ms, now_ms), is_wanted)
        .order_by(Run.routed_at)
        .limit(limit),
    )


def sent_or_running(
    session: Session, *, before_ms: int, now_ms: int, limit: int, offset: int = 0
) -> list[RoutedRun]:
    """Return SENT and RUNNING runs routed up to `before_ms`, which an executor should know.

    That includes those routed before the clock was set back to `now_ms`. The oldest come first, and
    `offset` of them are left out.
    """
    return fetch(
        session,
        RoutedRun,
        query(RoutedRun, Run)
        .where(Run.status.in_([RunStatus.SENT, RunStatus.RUNNING]), _was_routed(before_ms, now_ms))
        .order_by(Run.routed_at)
        .offset(offset)
        .limit(limit),
    )


def _was_routed(before_ms: int, now_ms: int) -> ColumnElement[bool]:
    """Return the condition on runs routed up to an instant, or before the clock was set back."""
    return or_(Run.routed_at <= before_ms, Run.routed_at > now_ms + AHEAD_MS)


def by_ids(session: Session, run_ids: Iterable[int]) -> list[RoutedRun]:
    return fetch_by_ids(session, RoutedRun, query(RoutedRun, Run), Run.id, run_ids)


def facts(session: Session, run_ids: Iterable[int]) -> dict[int, RunFacts]:
    """Return the runs that exist among these, by id."""
    runs = fetch_by_ids(session, RunFacts, query(RunFacts, Run), Run.id, run_ids)
    return {run.id: run for run in runs}


def underway(session: Session, run_ids: Iterable[int], *, since_ms: int) -> list[RoutedRun]:
    """Return the runs that were routed after `since_ms` and have not reported a start."""
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


def due_after(session: Session, run: RoutedRun | LockedRun, *, now_ms: int) -> list[int]:
    """Return the open runs of a run's job that are newer and due, the oldest first."""
    newer = session.execute(
        select(Run.scheduled_at, Run.id).where(
            Run.job_id == run.job_id,
            Run.scheduled_at >= run.scheduled_at,
            Run.status.in_(OPEN),
            Run.due_at <= now_ms,
        )
    )
    ages = sorted((scheduled_at, run_id) for scheduled_at, run_id in newer)
    return [
        run_id
        for scheduled_at, run_id in ages
        if (scheduled_at, run_id) > (run.scheduled_at, run.id)
    ]


def statuses(session: Session, run_ids: Iterable[int]) -> dict[int, RunStatus]:
    """Return the status of each of the runs that exist."""
    return {
        run_id: RunStatus(status)
        for chunk in chunks(run_ids)
        for run_id, status in session.execute(select(Run.id, Run.status).where(Run.id.in_(chunk)))
    }


def ended(session: Session, run_ids: Iterable[int]) -> dict[int, EndedRun]:
    """Return the runs by id, with what run webhooks report about them."""
    runs = fetch_by_ids(session, EndedRun, query(EndedRun, Run), Run.id, run_ids)
    return {run.id: run for run in runs}


def traced(session: Session, run_ids: Iterable[int]) -> list[TracedRun]:
    """Return the runs with what their spans contain."""
    runs = (
        query(TracedRun, Run, app=App.name, job=Job.name)
        .outerjoin(Job, Job.id == Run.job_id)
        .outerjoin(App, App.id == Run.app_id)
    )
    return fetch_by_ids(session, TracedRun, runs, Run.id, run_ids)


def traceparents(session: Session, run_ids: Iterable[int]) -> dict[int, str]:
    """Return the `traceparent` of the runs that have one, by id."""
    return {
        row.id: row.traceparent
        for chunk in chunks(sorted(set(run_ids)))
        for row in session.execute(select(Run.id, Run.traceparent).where(Run.id.in_(chunk)))
        if row.traceparent
    }
