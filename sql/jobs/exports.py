"""Reads apps and jobs for a job file, with the sources of scripts."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session, undefer

from sql.jobs import job_names
from sql.models import App, Job
from sql.registry import apps as apps_table


def apps(session: Session) -> Sequence[App]:
    """Return all apps sorted by name."""
    return session.execute(select(App).order_by(App.name)).scalars().all()


def jobs(
    session: Session, *, app: str | None = None, names: Sequence[str] = ()
) -> list[tuple[Job, str]]:
    """Return jobs with the names of their apps, sorted by app and name.

    `app` limits them to one app, `names` (NAME or APP/NAME) to these jobs.

    Raises:
        NotFound: there is no such app or job.
        Ambiguous: several apps have a job of that name.

    """
    statement = (
        select(Job, App.name.label("app"))
        .join(App, App.id == Job.app_id)
        .options(undefer(Job.script_source))
        .order_by(App.name, Job.name)
    )
    if app is not None:
        statement = statement.where(Job.app_id == apps_table.find(session, app).id)
    if names:
        wanted = [
            job_names.find(session, f"{app}/{name}" if app and "/" not in name else name).id
            for name in names
        ]
        statement = statement.where(Job.id.in_(wanted))
    return [(job, owner) for job, owner in session.execute(statement)]
