"""Who looks after the trouble of which job, and until when its alarms are not sent."""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from warren.sql.batch import chunks, modify
from warren.sql.models import JobState, Mute
from warren.sql.rows import fetch, query


class StoredMute(NamedTuple):
    """A mute; see `warren.sql.models.Mute`."""

    job_id: int
    silences: int
    error_key: str
    made_at: int
    made_by: str
    until_at: int
    reason: str


def put(session: Session, mute: StoredMute) -> None:
    """Store a mute in place of the job's earlier one."""
    end(session, [mute.job_id])
    session.add(Mute(**mute._asdict()))


def end(session: Session, job_ids: Iterable[int]) -> None:
    """Delete the mutes of jobs."""
    for chunk in chunks(job_ids):
        modify(session, delete(Mute).where(Mute.job_id.in_(chunk)))


def end_of_other_errors(session: Session, job_ids: Iterable[int]) -> None:
    """Delete the mutes of jobs that fail with another error now."""
    now = select(JobState.error_key).where(JobState.job_id == Mute.job_id).scalar_subquery()
    for chunk in chunks(job_ids):
        modify(session, delete(Mute).where(Mute.job_id.in_(chunk), Mute.error_key != now))


def of_job(session: Session, job_id: int) -> StoredMute | None:
    """Return the mute of a job; it may have ended."""
    return next(iter(_fetch(session, [job_id])), None)


def silencing(session: Session, job_ids: Collection[int], *, now_ms: int) -> dict[int, StoredMute]:
    """Return the mutes in force that hold alarms back, by job."""
    return {
        mute.job_id: mute
        for mute in _fetch(session, job_ids)
        if mute.silences and mute.until_at > now_ms
    }


def error_key_of(session: Session, job_id: int) -> str:
    """Return the key of the error with which a job fails now; empty if it does not fail."""
    key = session.execute(select(JobState.error_key).where(JobState.job_id == job_id)).scalar()
    return key or ""


def _fetch(session: Session, job_ids: Collection[int]) -> list[StoredMute]:
    wanted: Any = query(StoredMute, Mute)
    return [
        mute
        for chunk in chunks(sorted(job_ids))
        for mute in fetch(session, StoredMute, wanted.where(Mute.job_id.in_(chunk)))
    ]
