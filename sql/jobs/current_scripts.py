"""Reads a job with the current source of its script, for the script editor."""

from sqlalchemy import select
from sqlalchemy.orm import Session, undefer

from warren.sql.errors import LookupFailure, NotFound
from warren.sql.models import App, Job


def of_job(session: Session, job_id: int) -> tuple[Job, str]:
    """Return a job, with its source loaded, and the name of its app.

    Raises:
        NotFound: there is no such job, or it has no script.

    """
    row = session.execute(
        select(Job, App.name)
        .join(App, App.id == Job.app_id)
        .where(Job.id == job_id, Job.script_version.is_not(None))
        .options(undefer(Job.script_source))
    ).one_or_none()
    if row is None:
        raise NotFound(LookupFailure.NO_SCRIPT, id=job_id)
    return row[0], row[1]
