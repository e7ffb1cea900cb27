"""Queries of the dashboard: jobs, executors, running and failed runs, and how late runs start."""

from collections.abc import Collection, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from warren.sql.dialects.supported import use_index
from warren.sql.instants import HOUR_MS, at
from warren.sql.listings import run_messages, run_search
from warren.sql.listings.run_search import RunSearch
from warren.sql.models import App, Job, Registration, Run
from warren.sql.models.run_tables import BY_DUE_SECOND
from warren.sql.registry.presence import EXECUTOR, EXECUTOR_ALIVE_MS
from warren.sql.run_status import FAILURES, RunStatus
from warren.sql.runs.run_rows import DetailedRun

#: The most runs examined for lateness, latest due first; each costs a read by primary key.
MAX_LATENESS_RUNS = 1_000
#: How far back they may be due.
LATENESS_MS = HOUR_MS


def job_counts(session: Session, app_ids: Collection[int] | None) -> tuple[int, int]:
    """Return the number of jobs, and of enabled ones.

    It reads an index entry for each job, so callers should cache the result.
    """
    statement = select(Job.is_enabled, func.count()).group_by(Job.is_enabled)
    if app_ids is not None:
        statement = statement.where(Job.app_id.in_(app_ids))
    counts = dict(session.execute(statement).all())
    return sum(counts.values()), counts.get(1, 0)


def executors(session: Session, app_ids: Collection[int] | None) -> Sequence[Registration]:
    """Return the executors of apps, sorted by app and address."""
    statement = select(Registration).where(Registration.kind == EXECUTOR)
    if app_ids is not None:
        names = select(App.name).where(App.id.in_(app_ids))
        statement = statement.where(Registration.app.in_(names))
    in_order = statement.order_by(Registration.app, Registration.address)
    return session.execute(in_order).scalars().all()


def count_silent(
    session: Session, app_ids: Collection[int] | None, *, now_ms: int, most: int
) -> int:
    """Count the executors of apps that have stopped sending heartbeats, up to `most`."""
    silent = select(Registration.id).where(
        Registration.kind == EXECUTOR, Registration.beat_at < now_ms - EXECUTOR_ALIVE_MS
    )
    if app_ids is not None:
        names = select(App.name).where(App.id.in_(app_ids))
        silent = silent.where(Registration.app.in_(names))
    counted = select(func.count()).select_from(silent.limit(most).subquery())
    return session.execute(counted).scalar_one()


def running(session: Session, app_ids: Collection[int] | None, *, limit: int) -> list[DetailedRun]:
    """Return running runs, the latest started first; there are at most as many as slots."""
    statement = select(Run.id).where(Run.status == RunStatus.RUNNING)
    if app_ids is not None:
        statement = statement.where(Run.app_id.in_(app_ids))
    newest = statement.order_by(Run.started_at.desc(), Run.id.desc()).limit(limit)
    return run_messages.by_ids(session, session.execute(newest).scalars().all())


def failed(
    session: Session, app_ids: Collection[int] | None, *, since_ms: int, limit: int
) -> list[DetailedRun]:
    """Return failed runs that no later run has made good, the latest due first.

    There may be fewer than `limit`, if later runs made good most of the newest failures.
    """
    wanted = RunSearch(
        statuses=FAILURES, unresolved=True, app_ids=app_ids, since_ms=since_ms, limit=limit
    )
    return run_search.page(session, wanted).runs


def lateness(
    session: Session,
    app_ids: Collection[int] | None,
    *,
    now_ms: int,
    looked_at: int = MAX_LATENESS_RUNS,
) -> list[int]:
    """Return how many milliseconds after their due times recent runs started, sorted.

    Examines the `looked_at` latest due runs of all apps, and counts those of `app_ids` (None = all)
    that have started.
    """
    rows = session.execute(
        use_index(select(Run.app_id, Run.due_at, Run.started_at), Run, BY_DUE_SECOND)
        .where(Run.due_second >= at(now_ms - LATENESS_MS), Run.due_second <= at(now_ms))
        .order_by(Run.due_second.desc())
        .limit(looked_at)
    )
    return sorted(
        max(started_at - due_at, 0)
        for app_id, due_at, started_at in rows
        if started_at is not None and (app_ids is None or app_id in app_ids)
    )
