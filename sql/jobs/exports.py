"""Reads apps and jobs for a job file, with the sources of scripts."""

from collections.abc import Collection, Sequence

from sqlalchemy import Select, select
from sqlalchemy.orm import Session, undefer

from warren.sql.errors import LookupFailure, NotFound
from warren.sql.jobs import job_names
from warren.sql.models import App, Job
from warren.sql.registry import apps as apps_table


def apps(session: Session, app_ids: Collection[int] | None = None) -> Sequence[App]:
    """Return apps sorted by name; `app_ids` None = all."""
    statement = select(App).order_by(App.name)
    if app_ids is not None:
        statement = statement.where(App.id.in_(app_ids))
    return session.execute(statement).scalars().all()


def jobs(
    session: Session,
    *,
    app: str | None = None,
    names: Sequence[str] = (),
    app_ids: Collection[int] | None = None,
) -> list[tuple[Job, str]]:
    """Return jobs with the names of their apps, sorted by app and name.

    `app` limits them to one app, `names` (NAME or APP/NAME) to these jobs. Only the apps in
    `app_ids` exist, None = all do.

    Raises:
        NotFound: there is no such app or job.
        Ambiguous: several apps have a job of that name.

    """
    statement = _jobs()
    if app_ids is not None:
        statement = statement.where(Job.app_id.in_(app_ids))
    app_id = None if app is None else apps_table.find(session, app, app_ids).id
    if app_id is not None:
        statement = statement.where(Job.app_id == app_id)
    if names:
        wanted = [
            job_names.find(session, f"{app}/{name}" if app and "/" not in name else name, app_ids)
            for name in names
        ]
        for name, job in zip(names, wanted, strict=True):
            if app_id not in (None, job.app_id):
                raise NotFound(LookupFailure.NO_JOB_NAMED, name=name)
        statement = statement.where(Job.id.in_([job.id for job in wanted]))
    return _with_app(session, statement)


def visible_jobs(
    session: Session, app_ids: Collection[int] | None, job_ids: Collection[int] | None
) -> list[tuple[Job, str]]:
    """Return the jobs with these ids in these apps as `jobs` does; None = all."""
    statement = _jobs()
    if app_ids is not None:
        statement = statement.where(Job.app_id.in_(app_ids))
    if job_ids is not None:
        statement = statement.where(Job.id.in_(job_ids))
    return _with_app(session, statement)


def _jobs() -> Select[Job, str]:
    return (
        select(Job, App.name)
        .join(App, App.id == Job.app_id)
        .options(undefer(Job.script_source))
        .order_by(App.name, Job.name)
    )


def _with_app(session: Session, statement: Select[Job, str]) -> list[tuple[Job, str]]:
    return [(job, app) for job, app in session.execute(statement)]
