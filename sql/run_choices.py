"""What people may choose from when they look for runs: their apps, and a job by its name."""

from collections.abc import Collection, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from sql.models import App, Job, Run
from sql.rows import Rows


def apps(session: Session, app_ids: Collection[int] | None) -> Rows:
    """Return `id, app_name` of apps by name; None = of all."""
    statement = select(App.id, App.app_name).order_by(App.app_name)
    if app_ids is not None:
        statement = statement.where(App.id.in_(app_ids))
    return session.execute(statement).all()


def jobs_named(session: Session, name: str, app_ids: Collection[int] | None) -> Sequence[int]:
    """Return the ids of up to two jobs called NAME, or APP/NAME, in the given apps."""
    app, slash, short = name.partition("/")
    statement = select(Job.id).where(Job.job_desc == name)
    if slash:
        statement = (
            select(Job.id)
            .join(App, App.id == Job.job_group)
            .where((Job.job_desc == name) | ((App.app_name == app) & (Job.job_desc == short)))
        )
    if app_ids is not None:
        statement = statement.where(Job.job_group.in_(app_ids))
    return session.execute(statement.limit(2)).scalars().all()


def has_runs(session: Session, job_id: int, app_ids: Collection[int] | None) -> bool:
    """Return whether the last run of a job, which may be gone, belongs to the given apps."""
    newest = (
        select(Run.job_group)
        .where(Run.job_id == job_id)
        .order_by(
            Run.scheduled_at.desc(),
            Run.origin_id.desc(),
            Run.shard_index.desc(),
            Run.attempt.desc(),
        )
        .limit(1)
    )
    app_id = session.execute(newest).scalar_one_or_none()
    return app_id is not None and (app_ids is None or app_id in app_ids)
