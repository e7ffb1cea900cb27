"""Finds jobs by their names."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import and_, bindparam, select
from sqlalchemy.orm import Session

from warren.sql.batch import chunks, fetch_by_ids
from warren.sql.dialects.supported import use_index
from warren.sql.errors import Ambiguous, LookupFailure, NotFound
from warren.sql.models import App, Job
from warren.sql.models.job_tables import BY_SEARCHED_TEXT
from warren.sql.registry.apps import ids_by_name
from warren.sql.rows import Query, contains, query


class NamedJob(NamedTuple):
    """A job with its names, the columns that decide its due times, and its next one."""

    id: int
    app_id: int
    app: str
    name: str
    schedule_kind: str
    schedule_value: str | None
    schedule_options: str | None
    timezone: str | None
    is_enabled: int
    next_tick_at: int


def of_jobs() -> Query:
    """Return the query of NamedJob rows."""
    return query(NamedJob, Job, app=App.name).join(App, App.id == Job.app_id)


def by_ids(session: Session, job_ids: Iterable[int]) -> dict[int, NamedJob]:
    """Return jobs by id; those that do not exist are left out."""
    return {job.id: job for job in fetch_by_ids(session, NamedJob, of_jobs(), Job.id, job_ids)}


def find(session: Session, name: str, app_ids: Collection[int] | None = None) -> Job:
    """Return the job called NAME, or APP/NAME if several apps have it; `app_ids` None = all apps.

    Raises:
        NotFound: there is no such job.
        Ambiguous: several apps have a job of that name.

    """
    app, _, short = name.rpartition("/")
    statement = select(Job).join(App, App.id == Job.app_id).where(Job.name == short)
    if app:
        statement = statement.where(App.name == app)
    if app_ids is not None:
        statement = statement.where(App.id.in_(app_ids))
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
    """Return the jobs that exist, by app id and name; others are left out."""
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


def ids_named(session: Session, name: str, app_ids: Collection[int] | None) -> Sequence[int]:
    """Return the ids of jobs named NAME or APP/NAME in the given apps; up to two for each form."""
    # By app and name, which have an index; a search by name alone would read all jobs.
    apps = ids_by_name(session, app_ids)
    app, _, short = name.partition("/")
    conditions = [and_(Job.app_id.in_(sorted(apps.values())), Job.name == name)]
    if app in apps:
        conditions.append(and_(Job.app_id == apps[app], Job.name == short))
    job_ids = {
        job_id
        for condition in conditions
        for job_id in session.execute(select(Job.id).where(condition).limit(2)).scalars()
    }
    return sorted(job_ids)


def names_with(
    session: Session, text: str, app_ids: Collection[int] | None, *, limit: int
) -> list[str]:
    """Return the first jobs of the given apps whose name contains a text, as APP/NAME.

    The text may also be APP/ and a part of a name.
    """
    apps = ids_by_name(session, app_ids)
    by_id = {app_id: name for name, app_id in apps.items()}
    return [f"{by_id[app_id]}/{name}" for _, app_id, name in _with(session, text, apps, limit)]


def ids_with(
    session: Session, text: str, app_ids: Collection[int] | None, *, limit: int
) -> list[int]:
    """Return the ids of the jobs that `names_with` finds."""
    return [job_id for job_id, *_ in _with(session, text, ids_by_name(session, app_ids), limit)]


def _with(
    session: Session, text: str, known: Mapping[str, int], limit: int
) -> Iterable[tuple[int, int, str]]:
    app, _, short = text.partition("/")
    wanted = [known[app]] if app in known and "/" in text else sorted(known.values())
    part = short if app in known and "/" in text else text
    statement = (
        use_index(select(Job.id, Job.app_id, Job.name), Job, BY_SEARCHED_TEXT)
        .where(
            Job.app_id.in_(wanted),
            contains(session, Job.name, part),
        )
        .order_by(Job.app_id, Job.name)
        .limit(limit)
    )
    return [(job_id, app_id, name) for job_id, app_id, name in session.execute(statement)]


def some(
    session: Session, app_ids: Collection[int] | None = None, *, limit: int
) -> list[tuple[str, str]]:
    """Return the apps and names of up to `limit` jobs; `app_ids` None = of all apps."""
    wanted = select(App.name, Job.name).join(App, App.id == Job.app_id).limit(limit)
    if app_ids is not None:
        wanted = wanted.where(App.id.in_(app_ids))
    return [(app, name) for app, name in session.execute(wanted)]
