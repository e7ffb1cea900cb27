"""Planned runs: finds those of a job, and changes them while they stay planned."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from warren.sql.batch import chunks, modify_by_ids
from warren.sql.instants import at
from warren.sql.models import Run
from warren.sql.run_status import LATE_MS, Kind, RunStatus


class Payload(NamedTuple):
    """What a planned run executes; `script_version` is for runs planned with a handler."""

    handler: str | None
    param: str | None
    script_version: int | None


def of_jobs(
    session: Session, job_ids: Iterable[int], kinds: Iterable[Kind], *, schedule_only: bool = False
) -> dict[int, int]:
    """Return the job ids of the jobs' PLANNED runs by run id, without locks.

    Updates of these runs need a guard.
    """
    statement = select(Run.id, Run.job_id).where(
        Run.status == RunStatus.PLANNED, Run.kind.in_(list(kinds))
    )
    if schedule_only:
        statement = statement.where(Run.origin_id == 0)
    return {
        run_id: job_id
        for chunk in chunks(job_ids)
        for run_id, job_id in session.execute(statement.where(Run.job_id.in_(chunk)))
    }


def lock_due(session: Session, job_ids: Iterable[int], *, now_ms: int) -> None:
    """Lock the jobs' PLANNED runs that are due, or soon; wait for claims of them."""
    due = select(Run.id).where(Run.status == RunStatus.PLANNED, Run.due_at <= now_ms + LATE_MS)
    for chunk in chunks(job_ids):
        session.execute(due.where(Run.job_id.in_(chunk)).with_for_update()).all()


def move(session: Session, run_id: int, *, due_ms: int, run_date: date | None) -> int:
    """Move a PLANNED run that has a tick of its own to another one; return how many were moved."""
    statement = (
        update(Run)
        .where(Run.status == RunStatus.PLANNED, Run.origin_id == Run.id, Run.attempt == 0)
        .values(scheduled_at=due_ms, due_at=due_ms, due_second=at(due_ms), run_date=run_date)
    )
    return modify_by_ids(session, Run, [run_id], statement)


def to_come(
    session: Session, job_ids: Iterable[int], *, after_ms: int
) -> list[tuple[int, int, int, int]]:
    """Return PLANNED runs of jobs' schedules that are due after an instant.

    Each is its id, its job, its tick, and when it is due.
    """
    statement = select(Run.id, Run.job_id, Run.scheduled_at, Run.due_at).where(
        Run.status == RunStatus.PLANNED,
        Run.kind == Kind.SCHEDULE,
        Run.origin_id == 0,
        Run.due_at > after_ms,
    )
    return [
        (run_id, job_id, tick, due_at)
        for chunk in chunks(job_ids)
        for run_id, job_id, tick, due_at in session.execute(statement.where(Run.job_id.in_(chunk)))
    ]


def postpone(session: Session, due: Mapping[int, int]) -> None:
    """Move the due times of PLANNED runs, by run id; their ticks stay."""
    for run_id, due_ms in due.items():
        statement = (
            update(Run)
            .where(Run.status == RunStatus.PLANNED)
            .values(due_at=due_ms, due_second=at(due_ms))
        )
        modify_by_ids(session, Run, [run_id], statement)


def misfire(session: Session, run_ids: Sequence[int], *, now_ms: int) -> int:
    """Turn PLANNED runs of a schedule into MISFIRE runs that are due now; return how many."""
    statement = (
        update(Run)
        .where(Run.status == RunStatus.PLANNED)
        .values(kind=Kind.MISFIRE, due_at=now_ms, due_second=at(now_ms), released_at=None)
    )
    return modify_by_ids(session, Run, run_ids, statement)


def release(session: Session, run_ids: Sequence[int], *, now_ms: int) -> int:
    """Record that PLANNED runs of a schedule run although they are late; return how many."""
    planned = update(Run).where(Run.status == RunStatus.PLANNED)
    return modify_by_ids(session, Run, run_ids, planned.values(released_at=now_ms))


def give_payloads(
    session: Session, payloads: Mapping[int, Payload], *, kinds: Iterable[Kind]
) -> int:
    """Give PLANNED runs of jobs these payloads, by job id; return how many were updated.

    Runs planned with a version of a script keep it, unless the job no longer has a script.
    """
    alike: dict[Payload, list[int]] = defaultdict(list)
    for run_id, job_id in of_jobs(session, payloads, kinds).items():
        alike[payloads[job_id]].append(run_id)
    return sum(_replace_payload(session, run_ids, payload) for payload, run_ids in alike.items())


def _replace_payload(session: Session, run_ids: Sequence[int], payload: Payload) -> int:
    handler, param, version = payload
    kept = None if version is None else func.coalesce(Run.script_version, version)
    statement = (
        update(Run)
        .where(Run.status == RunStatus.PLANNED)
        .values(handler=handler, param=param, script_version=kept)
    )
    return modify_by_ids(session, Run, sorted(run_ids), statement)


class Computed(NamedTuple):
    """The columns of a planned run that are computed from its tick."""

    run_date: date | None
    param: str


def recompute(
    session: Session,
    job_ids: Collection[int],
    made: Callable[[int, int], Computed],
    *,
    kinds: Iterable[Kind],
) -> None:
    """Give PLANNED runs of jobs what `made` returns for their job and tick."""
    planned = select(Run.id, Run.job_id, Run.scheduled_at).where(
        Run.status == RunStatus.PLANNED, Run.kind.in_(list(kinds))
    )
    alike: dict[Computed, list[int]] = defaultdict(list)
    for chunk in chunks(job_ids):
        for run_id, job_id, tick in session.execute(planned.where(Run.job_id.in_(chunk))):
            alike[made(job_id, tick)].append(run_id)
    for values, run_ids in alike.items():
        statement = update(Run).where(Run.status == RunStatus.PLANNED).values(values._asdict())
        modify_by_ids(session, Run, sorted(run_ids), statement)
