"""What job files need: apps and jobs with the sources of scripts, and where jobs are declared."""

from collections.abc import Collection, Iterable, Sequence

from sqlalchemy import Select, select, update
from sqlalchemy.orm import Session, undefer

from warren.sql.batch import chunks
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


def declared_places(session: Session, job_ids: Iterable[int]) -> dict[int, str]:
    """Return where these jobs are declared; those that are declared nowhere are left out."""
    return {
        job_id: place
        for chunk in chunks(job_ids)
        for job_id, place in session.execute(
            select(Job.id, Job.declared_in).where(Job.id.in_(chunk))
        )
        if place is not None
    }


def set_declared_place(session: Session, job_ids: Iterable[int], place: str) -> None:
    """Note where these jobs are declared."""
    for chunk in chunks(job_ids):
        session.execute(
            update(Job).where(Job.id.in_(chunk)).values(declared_in=place),
            execution_options={"synchronize_session": False},
        )


def names_and_places(
    session: Session, app_ids: Collection[int]
) -> list[tuple[int, int, str, str | None]]:
    """Return id, app id, name and place of all jobs of these apps."""
    wanted = select(Job.id, Job.app_id, Job.name, Job.declared_in)
    rows = session.execute(wanted.where(Job.app_id.in_(list(app_ids))))
    return [(job_id, app_id, name, place) for job_id, app_id, name, place in rows]
