"""Versions of scripts: saved, listed, read; the source of a version never changes."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import delete, func, insert, null, select, update
from sqlalchemy.orm import Session, undefer

from warren.sql.batch import ALREADY_LOCKED, update_each
from warren.sql.dialects.supported import of
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.instants import at
from warren.sql.models import App, Job, Run, ScriptVersion
from warren.sql.models.job_tables import FLOW_TYPE
from warren.sql.rows import Column, Query, fetch, fetch_one, query
from warren.sql.run_status import OPEN


def of_job(session: Session, job_id: int) -> tuple[Job, str]:
    """Return a job, with its source loaded, and the name of its app.

    Raises:
        NotFound: there is no such job, or it has no script.

    """
    row = session.execute(
        select(Job, App.name)
        .join(App, App.id == Job.app_id)
        .where(Job.id == job_id, Job.script_version.is_not(None), Job.script_type != FLOW_TYPE)
        .options(undefer(Job.script_source))
    ).one_or_none()
    if row is None:
        raise NotFound(LookupFailure.NO_SCRIPT, id=job_id)
    return row[0], row[1]


#: Versions kept of each job's script, besides those of open runs.
KEPT_VERSIONS = 30


class StoredVersion(NamedTuple):
    """A version, with the size of its source in bytes; in lists, `source` is None."""

    id: int
    number: int
    script_type: str | None
    remark: str
    author: str | None
    add_time: datetime | None
    size: int
    source: str | None


def save(
    session: Session,
    job: Job,
    *,
    script_type: str,
    source: str,
    remark: str,
    author: str,
    now_ms: int,
) -> int:
    """Save a source as the current version of a locked job's script; return the version's id.

    Versions older than the last KEPT_VERSIONS are deleted, unless an open run names them.
    """
    saved = ScriptVersion(
        job_id=job.id,
        number=_highest_number(session, job.id) + 1,
        script_type=script_type,
        source=source,
        remark=remark,
        author=author,
        add_time=at(now_ms),
        update_time=at(now_ms),
    )
    session.add(saved)
    session.flush()
    job.script_version = saved.id
    job.script_type, job.script_source, job.script_remark = script_type, source, remark
    job.script_updated = at(now_ms)
    session.flush()
    _trim(session, job)
    return saved.id


def save_first(session: Session, jobs: Mapping[int, Mapping[str, Any]], *, author: str) -> None:
    """Save the first versions of new jobs' scripts, given by job id as their row's attributes."""
    if not jobs:
        return
    rows = [
        {
            "job_id": job_id,
            "number": 1,
            "script_type": row["script_type"],
            "source": row["script_source"],
            "remark": row["script_remark"],
            "author": author,
            "add_time": row["script_updated"],
            "update_time": row["script_updated"],
        }
        for job_id, row in jobs.items()
    ]
    session.execute(insert(ScriptVersion), rows)
    saved = select(ScriptVersion.job_id, ScriptVersion.id).where(ScriptVersion.job_id.in_(jobs))
    versions = [{"id": job, "script_version": version} for job, version in session.execute(saved)]
    update_each(session, Job, versions, guard=ALREADY_LOCKED)


def set_remark(session: Session, job: Job, remark: str, *, now_ms: int) -> None:
    """Change the remark of the current version of a locked job's script."""
    job.script_remark = remark
    session.execute(
        update(ScriptVersion)
        .where(ScriptVersion.id == job.script_version)
        .values(remark=remark, update_time=at(now_ms))
    )


def detach(job: Job) -> None:
    """Remove a locked job's script; its versions are kept until the job is deleted."""
    job.script_type, job.script_source, job.script_remark = "BEAN", None, None
    job.script_version = job.script_updated = None


def forget(session: Session, job_id: int) -> None:
    """Delete all versions of a job that is being deleted."""
    session.execute(delete(ScriptVersion).where(ScriptVersion.job_id == job_id))


def versions(session: Session, job_id: int) -> list[StoredVersion]:
    """Return a job's versions, newest first."""
    listed = _of_job(session, job_id, source=null()).order_by(ScriptVersion.id.desc())
    return fetch(session, StoredVersion, listed)


def version(session: Session, job_id: int, version_id: int) -> StoredVersion:
    """Return one version of a job's script, with its source.

    Raises:
        NotFound: the job has no such version.

    """
    wanted = _of_job(session, job_id).where(ScriptVersion.id == version_id)
    version = fetch_one(session, StoredVersion, wanted)
    if version is None:
        raise NotFound(LookupFailure.NO_SCRIPT_VERSION, id=job_id, version=version_id)
    return version


def _of_job(session: Session, job_id: int, **others: Column) -> Query:
    size = of(session).byte_length(ScriptVersion.source)
    of_job = ScriptVersion.job_id == job_id
    return query(StoredVersion, ScriptVersion, size=size, **others).where(of_job)


def number(session: Session, version_id: int) -> int:
    """Return the number that users see for a version; 0 if there is no such version."""
    wanted = select(ScriptVersion.number).where(ScriptVersion.id == version_id)
    return session.execute(wanted).scalar_one_or_none() or 0


def sources(session: Session, version_ids: Collection[int]) -> dict[int, tuple[str, str]]:
    """Return type and source of the versions that exist among these, by id."""
    rows = session.execute(
        select(ScriptVersion.id, ScriptVersion.script_type, ScriptVersion.source).where(
            ScriptVersion.id.in_(list(version_ids))
        )
    )
    return {version: (kind or "", source or "") for version, kind, source in rows}


def _highest_number(session: Session, job_id: int) -> int:
    highest = select(func.max(ScriptVersion.number)).where(ScriptVersion.job_id == job_id)
    return session.execute(highest).scalar_one() or 0


def _trim(session: Session, job: Job) -> None:
    newest_first = (
        select(ScriptVersion.id)
        .where(ScriptVersion.job_id == job.id)
        .order_by(ScriptVersion.id.desc())
    )
    surplus = list(session.execute(newest_first).scalars())[KEPT_VERSIONS:]
    if not surplus:
        return
    named = session.execute(
        select(Run.script_version)
        .where(Run.status.in_(OPEN), Run.app_id == job.app_id, Run.script_version.in_(surplus))
        .distinct()
    ).scalars()
    unused = set(surplus) - set(named)
    session.execute(delete(ScriptVersion).where(ScriptVersion.id.in_(sorted(unused))))
