"""What job files need: apps and jobs with the sources of scripts, and where jobs are declared."""

from collections.abc import Collection, Iterable, Sequence

from sqlalchemy import select, update
from sqlalchemy.orm import Session, undefer

from warren.sql.batch import chunks
from warren.sql.models import App, Job


def apps(session: Session, app_ids: Collection[int] | None = None) -> Sequence[App]:
    """Return apps sorted by name; `app_ids` None = all."""
    statement = select(App).order_by(App.name)
    if app_ids is not None:
        statement = statement.where(App.id.in_(app_ids))
    return session.execute(statement).scalars().all()


def visible_jobs(
    session: Session, app_ids: Collection[int] | None, job_ids: Collection[int] | None
) -> list[tuple[Job, str]]:
    """Return the jobs with these ids in these apps, with the names of their apps; None = all.

    They are sorted by app and name.
    """
    statement = (
        select(Job, App.name)
        .join(App, App.id == Job.app_id)
        .options(undefer(Job.script_source))
        .order_by(App.name, Job.name)
    )
    if app_ids is not None:
        statement = statement.where(Job.app_id.in_(app_ids))
    if job_ids is not None:
        statement = statement.where(Job.id.in_(job_ids))
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
