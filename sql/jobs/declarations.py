"""Reads and writes where jobs are declared."""

from collections.abc import Collection, Iterable

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from warren.sql.batch import chunks
from warren.sql.models import Job


def places(session: Session, job_ids: Iterable[int]) -> dict[int, str]:
    """Return where these jobs are declared; those that are declared nowhere are left out."""
    return {
        job_id: place
        for chunk in chunks(job_ids)
        for job_id, place in session.execute(
            select(Job.id, Job.declared_in).where(Job.id.in_(chunk))
        )
        if place is not None
    }


def set_place(session: Session, job_ids: Iterable[int], place: str) -> None:
    """Note where these jobs are declared."""
    for chunk in chunks(job_ids):
        session.execute(
            update(Job).where(Job.id.in_(chunk)).values(declared_in=place),
            execution_options={"synchronize_session": False},
        )


def in_apps(session: Session, app_ids: Collection[int]) -> list[tuple[int, int, str, str | None]]:
    """Return id, app id, name and place of all jobs of these apps."""
    wanted = select(Job.id, Job.app_id, Job.name, Job.declared_in)
    rows = session.execute(wanted.where(Job.app_id.in_(list(app_ids))))
    return [(job_id, app_id, name, place) for job_id, app_id, name, place in rows]
