"""Finds jobs by name for the filters of run lists."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from warren.sql.dialects.supported import use_index
from warren.sql.models import Job, Run
from warren.sql.models.jobs import BY_SEARCHED_TEXT
from warren.sql.registry.apps import ids_by_name
from warren.sql.rows import contains, fetch, query


class _NamedJob(NamedTuple):
    id: int
    app_id: int
    name: str


def jobs_named(session: Session, name: str, app_ids: Collection[int] | None) -> Sequence[int]:
    """Return the ids of jobs named NAME or APP/NAME in the given apps; up to two for each form."""
    # By app and name, which have an index; a search by name alone would read all jobs.
    known = ids_by_name(session, app_ids)
    app, _, short = name.partition("/")
    conditions = [and_(Job.app_id.in_(sorted(known.values())), Job.name == name)]
    if app in known:
        conditions.append(and_(Job.app_id == known[app], Job.name == short))
    job_ids = {
        job_id
        for condition in conditions
        for job_id in session.execute(select(Job.id).where(condition).limit(2)).scalars()
    }
    return sorted(job_ids)


def job_names(
    session: Session, text: str, app_ids: Collection[int] | None, *, limit: int
) -> list[str]:
    """Return the first jobs of the given apps whose name contains a text, as APP/NAME.

    The text may also be APP/ and a part of a name.
    """
    known = ids_by_name(session, app_ids)
    by_id = {app_id: name for name, app_id in known.items()}
    return [f"{by_id[row.app_id]}/{row.name}" for row in _jobs_with(session, text, known, limit)]


def jobs_with(
    session: Session, text: str, app_ids: Collection[int] | None, *, limit: int
) -> list[int]:
    """Return the ids of the jobs that `job_names` finds."""
    return [row.id for row in _jobs_with(session, text, ids_by_name(session, app_ids), limit)]


def _jobs_with(
    session: Session, text: str, known: Mapping[str, int], limit: int
) -> list[_NamedJob]:
    app, _, short = text.partition("/")
    wanted = [known[app]] if app in known and "/" in text else sorted(known.values())
    part = short if app in known and "/" in text else text
    statement = (
        use_index(query(_NamedJob, Job), Job, BY_SEARCHED_TEXT)
        .where(
            Job.app_id.in_(wanted),
            contains(session, Job.name, part),
        )
        .order_by(Job.app_id, Job.name)
        .limit(limit)
    )
    return fetch(session, _NamedJob, statement)


def has_runs(session: Session, job_id: int, app_ids: Collection[int] | None) -> bool:
    """Return whether the last run of a job belongs to the given apps; the job may be deleted."""
    newest = (
        select(Run.app_id)
        .where(Run.job_id == job_id)
        .order_by(
            Run.scheduled_at.desc(),
            Run.origin_id.desc(),
            Run.shard_index.desc(),
            Run.attempt.desc(),
        )
        .limit(1)
    )
    app_id = session.execute(newest).scalar_one_or_none()
    return app_id is not None and (app_ids is None or app_id in app_ids)
