"""The stored state of jobs, the errors of each, and their mutes.

A mute says who looks after the trouble of a job, and until when its alarms are not sent.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from sqlalchemy import and_, delete, func, or_, select
from sqlalchemy.orm import Session

from warren.sql.batch import (
    ALREADY_LOCKED,
    chunks,
    fetch_by_ids,
    insert_or_ignore,
    modify,
    update_each,
)
from warren.sql.models import JobError, JobState, Mute, Purge
from warren.sql.rows import among, fetch, query

#: The most jobs with an error in one statement.
_PAIRS = 100


class Trouble(IntEnum):
    """What is wrong with a job, the worst first; a job has one of them."""

    FAILING = 1
    #: Its newest due time was lost with its executor.
    LOST = 2
    #: Its newest due times were skipped.
    SKIPPED = 3
    #: Runs of it are overdue and have not started.
    WAITING = 4
    #: Its newest run took much longer than usual.
    SLOW = 5
    #: A run of it takes much longer than usual.
    LONG = 6
    NONE = 9


class StoredState(NamedTuple):
    """What the fold needs of a job's state."""

    job_id: int
    strip: str
    error_key: str
    error_text: str
    waiting_count: int
    waiting_since: int
    long_since: int
    week_ms: int


class StoredError(NamedTuple):
    """An error of a job, see `JobError`."""

    job_id: int
    error_key: str
    error_text: str
    since_at: int
    last_at: int
    due_times: int
    run_id: int


class StoredMute(NamedTuple):
    """A mute; see `warren.sql.models.Mute`."""

    job_id: int
    silences: int
    error_key: str
    made_at: int
    made_by: str
    until_at: int
    reason: str


def read(session: Session, job_ids: Iterable[int]) -> dict[int, StoredState]:
    """Return the states of jobs that have one."""
    wanted = query(StoredState, JobState)
    states = fetch_by_ids(session, StoredState, wanted, JobState.job_id, job_ids)
    return {state.job_id: state for state in states}


def rows(session: Session, job_ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Return the whole states of jobs that have one, as `store` takes them."""
    names = JobState.__mapper__.column_attrs.keys()
    columns = select(*(getattr(JobState, name) for name in names))
    return {
        row[0]: dict(zip(names, row, strict=True))
        for chunk in chunks(sorted(job_ids))
        for row in session.execute(columns.where(among(JobState.job_id, chunk)))
    }


def store(
    session: Session, states: Mapping[int, Mapping[str, Any]], known: Collection[int]
) -> None:
    """Store the states of jobs; those of `known` jobs have a row."""
    changed = [{"job_id": id_, **state} for id_, state in sorted(states.items()) if id_ in known]
    new = [{"job_id": id_, **state} for id_, state in sorted(states.items()) if id_ not in known]
    if changed:
        update_each(session, JobState, changed, guard=ALREADY_LOCKED, key="job_id")
    if new:
        insert_or_ignore(session, JobState, new, key="job_id")


def with_usual(session: Session, *, after_id: int, limit: int) -> list[int]:
    """Return the first jobs after an id of which it is known how long they usually take."""
    usual = select(JobState.job_id).where(JobState.job_id > after_id, JobState.usual_ms > 0)
    return list(session.execute(usual.order_by(JobState.job_id).limit(limit)).scalars())


def errors(
    session: Session, keys: Iterable[tuple[int, str]] = (), job_ids: Iterable[int] = ()
) -> list[StoredError]:
    """Return the errors with these jobs and keys, and all of these jobs."""
    columns = query(StoredError, JobError)
    found: dict[tuple[int, str], StoredError] = {}
    for pairs in chunks(sorted(set(keys)), _PAIRS):
        for row in fetch(session, StoredError, columns.where(or_(*map(_is_error, pairs)))):
            found[row.job_id, row.error_key] = row
    for ids in chunks(sorted(set(job_ids))):
        for row in fetch(session, StoredError, columns.where(among(JobError.job_id, ids))):
            found[row.job_id, row.error_key] = row
    return list(found.values())


def store_errors(session: Session, wanted: Iterable[StoredError]) -> None:
    """Store errors of jobs, in place of those with the same job and key."""
    rows = sorted(wanted)
    for part in chunks([(row.job_id, row.error_key) for row in rows], _PAIRS):
        modify(session, delete(JobError).where(or_(*map(_is_error, part))))
    if rows:
        insert_or_ignore(session, JobError, [row._asdict() for row in rows], key="error_key")


def forget_errors(session: Session, job_id: int, keys: Collection[str]) -> None:
    """Delete errors of a job."""
    if keys:
        modify(
            session,
            delete(JobError).where(JobError.job_id == job_id, JobError.error_key.in_(keys)),
        )


def put_mute(session: Session, mute: StoredMute) -> None:
    """Store a mute in place of the job's earlier one."""
    end_mutes(session, [mute.job_id])
    session.add(Mute(**mute._asdict()))


def end_mutes(session: Session, job_ids: Iterable[int]) -> None:
    """Delete the mutes of jobs."""
    for chunk in chunks(job_ids):
        modify(session, delete(Mute).where(among(Mute.job_id, chunk)))


def end_mutes_of_other_errors(session: Session, job_ids: Iterable[int]) -> None:
    """Delete the mutes of jobs that fail with another error now."""
    now = select(JobState.error_key).where(JobState.job_id == Mute.job_id).scalar_subquery()
    for chunk in chunks(job_ids):
        modify(session, delete(Mute).where(among(Mute.job_id, chunk), Mute.error_key != now))


def mute_of(session: Session, job_id: int) -> StoredMute | None:
    """Return the mute of a job; it may have ended."""
    return next(iter(_mutes(session, [job_id])), None)


def silencing_mutes(
    session: Session, job_ids: Collection[int], *, now_ms: int
) -> dict[int, StoredMute]:
    """Return the mutes in force that hold alarms back, by job."""
    return {
        mute.job_id: mute
        for mute in _mutes(session, job_ids)
        if mute.silences and mute.until_at > now_ms
    }


def error_key_of(session: Session, job_id: int) -> str:
    """Return the key of the error with which a job fails now; empty if it does not fail."""
    key = session.execute(select(JobState.error_key).where(JobState.job_id == job_id)).scalar()
    return key or ""


def _mutes(session: Session, job_ids: Collection[int]) -> list[StoredMute]:
    wanted: Any = query(StoredMute, Mute)
    return [
        mute
        for chunk in chunks(sorted(job_ids))
        for mute in fetch(session, StoredMute, wanted.where(among(Mute.job_id, chunk)))
    ]


def purged_until(session: Session, job_ids: Iterable[int]) -> dict[int, int]:
    """Return the last due time of which runs were deleted, for those of the jobs that have one."""
    last = select(Purge.job_id, func.max(Purge.to_at)).group_by(Purge.job_id)
    return {
        job_id: to_at
        for chunk in chunks(job_ids)
        for job_id, to_at in session.execute(last.where(among(Purge.job_id, chunk)))
    }


def forget_job(session: Session, job_id: int) -> None:
    """Delete all that the board has of a job that is deleted."""
    for model in (JobState, JobError, Mute):
        modify(session, delete(model).where(model.job_id == job_id))


def _is_error(pair: tuple[int, str]) -> Any:
    return and_(JobError.job_id == pair[0], JobError.error_key == pair[1])
