"""Who holds limits, and which due runs wait."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from warren.sql.listings import recent
from warren.sql.models import App, Hold, Job, Run
from warren.sql.rows import fetch, query
from warren.sql.run_status import RunStatus
from warren.sql.runs.run_rows import DetailedRun


class HoldingRun(NamedTuple):
    """A run that holds a limit; `job` and `app` are None if they were deleted."""

    limit_id: int
    weight: int
    id: int
    app_id: int
    app: str | None
    job: str | None
    status: str
    routed_at: int | None


def holding(session: Session, limit_ids: Iterable[int], *, most: int) -> list[HoldingRun]:
    """Return the runs that hold these limits, those that have held longest first."""
    named = {"limit_id": Hold.limit_id, "weight": Hold.weight, "app": App.name, "job": Job.name}
    statement = (
        query(HoldingRun, Run, **named)
        .join(Hold, Hold.run_id == Run.id)
        .outerjoin(Job, Job.id == Run.job_id)
        .outerjoin(App, App.id == Run.app_id)
        .where(Hold.limit_id.in_(sorted(limit_ids)))
        .order_by(Run.routed_at, Run.id)
    )
    return fetch(session, HoldingRun, statement.limit(most))


def queue(
    session: Session,
    app_ids: Collection[int] | None,
    job_ids: Collection[int] | None,
    *,
    now_ms: int,
    most: int,
    after: tuple[int, int] | None = None,
) -> list[DetailedRun]:
    """Return PLANNED runs that are due, the longest waiting first; None = of all apps or jobs.

    `after` are `due_at` and id of the run that the list continues after.
    """
    due = select(Run.id).where(Run.status == RunStatus.PLANNED, Run.due_at <= now_ms)
    if app_ids is not None:
        due = due.where(Run.app_id.in_(sorted(app_ids)))
    if job_ids is not None:
        due = due.where(Run.job_id.in_(sorted(job_ids)))
    if after is not None:
        due_at, run_id = after
        is_later = and_(Run.due_at == due_at, Run.id > run_id)
        due = due.where(Run.due_at >= due_at, or_(Run.due_at > due_at, is_later))
    first = session.execute(due.order_by(Run.due_at, Run.id).limit(most))
    return recent.by_ids(session, list(first.scalars()))
