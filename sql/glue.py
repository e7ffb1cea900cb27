"""Versions of scripts: saved, listed, read. What a version holds never changes."""

from collections.abc import Collection

from sqlalchemy import LargeBinary, cast, delete, func, select, update
from sqlalchemy.orm import Session

from sql.errors import NotFound
from sql.instants import at
from sql.models import GlueVersion, Job, Run
from sql.rows import AnyRow, Rows
from sql.run_status import OPEN

#: Versions kept of each job's script, besides those that open runs name.
KEPT_VERSIONS = 30

_LISTED = (
    GlueVersion.id,
    GlueVersion.job_id,
    GlueVersion.glue_type,
    GlueVersion.glue_remark,
    GlueVersion.author,
    GlueVersion.add_time,
)


def save(
    session: Session,
    job: Job,
    *,
    glue_type: str,
    source: str,
    remark: str,
    author: str,
    now_ms: int,
) -> int:
    """Make a source the current version of a locked job's script; return the version's id.

    Versions beyond the last KEPT_VERSIONS go, unless a run that is not over names them.
    """
    saved = GlueVersion(
        job_id=job.id,
        glue_type=glue_type,
        glue_source=source,
        glue_remark=remark,
        author=author[:64],
        add_time=at(now_ms),
        update_time=at(now_ms),
    )
    session.add(saved)
    session.flush()
    job.glue_id = saved.id
    job.glue_type, job.glue_source, job.glue_remark = glue_type, source, remark
    job.glue_updatetime = at(now_ms)
    session.flush()
    _trim(session, job)
    return saved.id


def retitle(session: Session, job: Job, remark: str, *, now_ms: int) -> None:
    """Give the current version of a locked job's script another remark."""
    job.glue_remark = remark
    session.execute(
        update(GlueVersion)
        .where(GlueVersion.id == job.glue_id)
        .values(glue_remark=remark, update_time=at(now_ms))
    )


def leave(job: Job) -> None:
    """Let a locked job have no script any more; its versions stay for as long as the job does."""
    job.glue_type, job.glue_source, job.glue_remark = "BEAN", None, None
    job.glue_id = job.glue_updatetime = None


def forget(session: Session, job_id: int) -> None:
    """Delete every version of a job that is being deleted."""
    session.execute(delete(GlueVersion).where(GlueVersion.job_id == job_id))


def versions(session: Session, job_id: int) -> Rows:
    """Return a job's versions, newest first, each with its `size` in bytes and no source."""
    size = func.length(cast(GlueVersion.glue_source, LargeBinary)).label("size")
    return session.execute(
        select(*_LISTED, size).where(GlueVersion.job_id == job_id).order_by(GlueVersion.id.desc())
    ).all()


def version(session: Session, job_id: int, glue_id: int) -> AnyRow:
    """Return one version of a job's script, with its source.

    Raises:
        NotFound: the job has no such version.

    """
    found = session.execute(
        select(*_LISTED, GlueVersion.glue_source).where(
            GlueVersion.id == glue_id, GlueVersion.job_id == job_id
        )
    ).one_or_none()
    if found is None:
        raise NotFound(f"job {job_id} has no version {glue_id} of its script")
    return found


def sources(session: Session, glue_ids: Collection[int]) -> dict[int, tuple[str, str]]:
    """Return type and source of those of the versions that exist."""
    rows = session.execute(
        select(GlueVersion.id, GlueVersion.glue_type, GlueVersion.glue_source).where(
            GlueVersion.id.in_(list(glue_ids))
        )
    )
    return {row.id: (row.glue_type or "", row.glue_source or "") for row in rows}


def _trim(session: Session, job: Job) -> None:
    newest_first = (
        select(GlueVersion.id).where(GlueVersion.job_id == job.id).order_by(GlueVersion.id.desc())
    )
    old = list(session.execute(newest_first).scalars())[KEPT_VERSIONS:]
    if not old:
        return
    named = session.execute(
        select(Run.glue_id)
        .where(Run.status.in_(OPEN), Run.job_group == job.job_group, Run.glue_id.in_(old))
        .distinct()
    ).scalars()
    unused = set(old) - set(named)
    session.execute(delete(GlueVersion).where(GlueVersion.id.in_(sorted(unused))))
