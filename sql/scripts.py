"""A job's script as its editor needs it: the job with its app, and the source that is current."""

from sqlalchemy import select
from sqlalchemy.orm import Session, undefer

from sql.errors import NotFound
from sql.models import App, Job
from sql.rows import AnyRow


def of_job(session: Session, job_id: int) -> AnyRow:
    """Return `Job`, its source loaded, and the `app` name.

    Raises:
        NotFound: there is no such job, or it has no script.

    """
    found = session.execute(
        select(Job, App.app_name.label("app"))
        .join(App, App.id == Job.job_group)
        .where(Job.id == job_id, Job.glue_id.is_not(None))
        .options(undefer(Job.glue_source))
    ).one_or_none()
    if found is None:
        raise NotFound(f"job {job_id} has no script")
    return found
