"""Queries of the dashboard: counts of jobs, executors, running and failed runs."""

from collections.abc import Collection, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from warren.sql.listings import run_messages, run_search
from warren.sql.listings.run_messages import RunLine
from warren.sql.listings.run_search import RunSearch
from warren.sql.models import App, Job, Registration, Run
from warren.sql.registry.presence import EXECUTOR
from warren.sql.run_status import FAILURES, RunStatus


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


def running(session: Session, app_ids: Collection[int] | None, *, limit: int) -> list[RunLine]:
    """Return running runs, the latest started first; there are no more than slots."""
    statement = select(Run.id).where(Run.status == RunStatus.RUNNING)
    if app_ids is not None:
        statement = statement.where(Run.app_id.in_(app_ids))
    newest = statement.order_by(Run.started_at.desc(), Run.id.desc()).limit(limit)
    return run_messages.by_ids(session, session.execute(newest).scalars().all())


def failed(
    session: Session, app_ids: Collection[int] | None, *, since_ms: int, limit: int
) -> list[RunLine]:
    """Return failed runs that nothing has made good since, the latest due first.

    There may be fewer than `limit`, if most of the newest failures were made good.
    """
    wanted = RunSearch(
        statuses=FAILURES, unresolved=True, app_ids=app_ids, since_ms=since_ms, limit=limit
    )
    return run_search.page(session, wanted).runs
