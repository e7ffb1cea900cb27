"""What the ledger's page lists: jobs a page at a time, and why due times were skipped."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from sql.models import App, Job, SkippedTicks
from sql.rows import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFilter:
    """Which jobs to list, by id from `after_id` on; `name` is a part of it, None = any."""

    app_ids: Collection[int] | None
    app: str | None = None
    name: str | None = None
    after_id: int = 0
    limit: int = 20


def jobs(session: Session, wanted: LedgerFilter) -> Rows:
    """Return jobs as `id, name, app, trigger_status`."""
    statement = (
        select(Job.id, Job.job_desc.label("name"), App.app_name.label("app"), Job.trigger_status)
        .join(App, App.id == Job.job_group)
        .where(Job.id > wanted.after_id)
        .order_by(Job.id)
        .limit(wanted.limit)
    )
    if wanted.app_ids is not None:
        statement = statement.where(Job.job_group.in_(wanted.app_ids))
    if wanted.app:
        statement = statement.where(App.app_name == wanted.app)
    if wanted.name:
        statement = statement.where(Job.job_desc.contains(wanted.name, autoescape=True))
    return session.execute(statement).all()


def skip_reasons(session: Session, job_id: int, bounds: tuple[int, int]) -> dict[str, int]:
    """Return how many due times of a job were skipped for each reason, in (after, until].

    A stretch of skips belongs to where it begins.
    """
    rows = session.execute(
        select(SkippedTicks.reason, func.sum(SkippedTicks.count))
        .where(
            SkippedTicks.job_id == job_id,
            SkippedTicks.from_at > bounds[0],
            SkippedTicks.from_at <= bounds[1],
        )
        .group_by(SkippedTicks.reason)
        .order_by(SkippedTicks.reason)
    )
    return {row[0]: int(row[1]) for row in rows}
