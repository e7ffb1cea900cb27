"""Finds jobs by their names."""

from collections import defaultdict
from collections.abc import Iterable

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from warren.sql.batch import chunks
from warren.sql.errors import Ambiguous, LookupFailure, NotFound
from warren.sql.models import App, Job


def find(session: Session, name: str) -> Job:
    """Return a job, given as NAME, or as APP/NAME if two apps share the name.

    Raises:
        NotFound: there is no such job.
        Ambiguous: several apps have a job of that name.

    """
    app, _, short = name.rpartition("/")
    statement = select(Job).join(App, App.id == Job.app_id).where(Job.name == short)
    if app:
        statement = statement.where(App.name == app)
    jobs = session.execute(statement.limit(2)).scalars().all()
    if not jobs:
        raise NotFound(LookupFailure.NO_JOB_NAMED, name=name)
    if len(jobs) > 1:
        raise Ambiguous(LookupFailure.SEVERAL_JOBS_NAMED, name=name)
    return jobs[0]


def find_in_app(session: Session, app_id: int, name: str) -> Job | None:
    """Return an app's job by name; None if there is none."""
    return session.execute(
        select(Job).where(Job.app_id == app_id, Job.name == name)
    ).scalar_one_or_none()


#: Built once, because each trigger of the API executes it.
_NAMED = (
    select(App.id, Job.id, App.name, Job.name)
    .join(App, App.id == Job.app_id)
    .where(App.name == bindparam("its_app"), Job.name == bindparam("its_name"))
)


def named(session: Session, app: str, name: str) -> tuple[int, int] | None:
    """Return the ids of the app and the job with these names; None if there is no such job."""
    row = session.connection().execute(_NAMED, {"its_app": app, "its_name": name}).one_or_none()
    # MariaDB and MySQL ignore trailing spaces when they compare names.
    return None if row is None or row[2:] != (app, name) else (row[0], row[1])


def ids_in_app(session: Session, app_id: int, names: Iterable[str]) -> dict[str, int]:
    """Return the ids of an app's jobs by name; unknown names are left out."""
    return {
        name: job_id
        for chunk in chunks(names)
        for name, job_id in session.execute(
            select(Job.name, Job.id).where(Job.app_id == app_id, Job.name.in_(chunk))
        )
    }


def find_many(session: Session, keys: Iterable[tuple[int, str]]) -> dict[tuple[int, str], Job]:
    """Return those of the jobs that exist, by app id and name."""
    names: dict[int, list[str]] = defaultdict(list)
    for app_id, name in keys:
        names[app_id].append(name)
    return {
        (app_id, job.name): job
        for app_id, listed in names.items()
        for chunk in chunks(listed)
        for job in session.execute(
            select(Job).where(Job.app_id == app_id, Job.name.in_(chunk))
        ).scalars()
    }


def names_in_apps(session: Session, app_ids: Iterable[int]) -> list[tuple[int, int, str]]:
    """Return id, app id and name of all jobs of these apps."""
    wanted = select(Job.id, Job.app_id, Job.name).where(Job.app_id.in_(list(app_ids)))
    return [(job_id, app_id, name) for job_id, app_id, name in session.execute(wanted)]
