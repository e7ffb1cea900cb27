"""Limits: reads, inserts, changes and deletes them, and finds the jobs that name them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from warren.sql.models import App, Job, Limit
from warren.sql.rows import fetch, query


class LimitedJob(NamedTuple):
    """A job that names limits, as its field says."""

    id: int
    app_id: int
    app: str
    name: str
    limits: str


def all_named(session: Session) -> Sequence[Limit]:
    """Return all limits that have a name, by name."""
    named = select(Limit).where(Limit.name.is_not(None)).order_by(Limit.name)
    return session.execute(named).scalars().all()


def lock_named(session: Session, names: Iterable[str]) -> dict[str, Limit]:
    """Lock limits by name, in the order of their ids, and return those that exist."""
    known = select(Limit.id).where(Limit.name.in_(sorted(names)))
    ids = sorted(session.execute(known).scalars())
    rows = select(Limit).where(Limit.id.in_(ids)).order_by(Limit.id).with_for_update()
    # What this session read before the lock may be outdated.
    locked = session.execute(rows.execution_options(populate_existing=True)).scalars()
    return {limit.name: limit for limit in locked if limit.name is not None}


def add(session: Session, name: str, columns: Mapping[str, Any]) -> Limit:
    """Insert a limit, whose bucket is full."""
    limit = Limit(name=name, **columns)
    session.add(limit)
    session.flush()
    return limit


def change(session: Session, limit_id: int, columns: Mapping[str, Any]) -> None:
    """Change a locked limit; its bucket begins full if its rate changes."""
    session.execute(
        update(Limit).where(Limit.id == limit_id).values(**columns),
        execution_options={"synchronize_session": False},
    )


def remove(session: Session, limit_id: int) -> None:
    """Delete a limit that no run holds."""
    session.execute(delete(Limit).where(Limit.id == limit_id))


def forget_job(session: Session, job_id: int) -> None:
    """Delete a job's own limit; what its last runs hold of it goes when they have ended."""
    session.execute(delete(Limit).where(Limit.job_id == job_id))


def jobs_naming(session: Session) -> list[LimitedJob]:
    """Return the jobs that name limits, by app and name."""
    named = query(LimitedJob, Job, app=App.name).join(App, App.id == Job.app_id)
    return fetch(
        session, LimitedJob, named.where(Job.limits.is_not(None)).order_by(App.name, Job.name)
    )
