"""Planned runs: created as PLANNED rows, and changed while they stay planned.

There is one for each tick, shard and attempt.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from operator import attrgetter
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from warren.sql.batch import chunks, insert_or_ignore, modify_by_ids
from warren.sql.dialects.supported import of
from warren.sql.errors import RunIdTaken, RunsNotPlanned
from warren.sql.explanation import Explanation
from warren.sql.ids import RunIds
from warren.sql.instants import at
from warren.sql.models import Job, Run
from warren.sql.models.run_tables import TICK_KEY
from warren.sql.run_status import ENTERED, LATE_MS, Kind, RunStatus
from warren.sql.runs.run_rows import LockedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to plan.

    Attributes:
        run_date: the date that it is about; None = its handler gets that of `scheduled_at` in UTC.
        origin_id: 0 for a schedule's tick; None = the run's own id (MANUAL and API).
        starts: how many earlier attempts of its shard may have started.
        shard_total: 0 = as many shards as there are executors when the run is sent.
        script_version: the version of the job's script to run; None = run the handler.
        run_id: an id taken in advance, for runs without a unique key of their own: their unit of
            work may be repeated after a commit whose answer was lost.
        rerun_of: the run that it repeats, if it is a re-run or a retry of one.
        called_by: the run that called it, if it is such a run or a retry of one.
        backfill_id: the backfill that it belongs to, if any.
        flow_run_id: the flow's run to whose node it belongs; it starts no children.
        without_children: whether its success starts no children.
        traceparent: the trace in which the run was triggered.
        fault: why it has no param, so that it can only fail; it is not stored here.
        released_at: when it was decided that it runs although it is late.

    """

    app_id: int
    job_id: int
    handler: str
    param: str
    kind: Kind
    scheduled_at: int
    due_at: int
    run_date: date | None = None
    retries_left: int
    origin_id: int | None = 0
    shard_index: int = 0
    shard_total: int = 1
    attempt: int = 0
    starts: int = 0
    redeliveries: int = 0
    wanted_addresses: str | None = None
    trigger_message: str = ""
    script_version: int | None = None
    rerun_of: int | None = None
    called_by: int | None = None
    backfill_id: int | None = None
    flow_run_id: int | None = None
    without_children: bool = False
    run_id: int | None = None
    traceparent: str | None = None
    released_at: int | None = None
    fault: Explanation | None = None

    @classmethod
    def again(
        cls,
        run: LockedRun,
        *,
        due_at: int,
        retries_left: int,
        starts: int,
        redeliveries: int = 0,
    ) -> "NewRun":
        """Return the next attempt of a run, which keeps all fields that a `LockedRun` has."""
        changed: dict[str, Any] = {
            "handler": run.handler or "",
            "param": run.param or "",
            "kind": Kind.RETRY,
            "due_at": due_at,
            "retries_left": retries_left,
            "attempt": run.attempt + 1,
            "starts": starts,
            "redeliveries": redeliveries,
            "without_children": bool(run.without_children),
        }
        kept = {name: getattr(run, name) for name in _INHERITED if name not in changed}
        return cls(**kept, **changed)


def plan(session: Session, runs: Sequence[NewRun], ids: RunIds) -> list[int]:
    """Insert PLANNED rows; return the id assigned to each.

    A run whose tick, origin, shard and attempt already have a row is not inserted, and its id stays
    unused.

    Raises:
        RunIdTaken: another run has its id, see `Database.write`.

    """
    if not runs:
        return []
    new_ids = iter(ids.take(session, sum(run.run_id is None for run in runs)))
    run_ids = [next(new_ids) if run.run_id is None else run.run_id for run in runs]
    rows = [_row(run, run_id) for run, run_id in zip(runs, run_ids, strict=True)]
    try:
        insert_or_ignore(session, Run, rows, same=TICK_KEY)
    except DBAPIError as error:
        if not of(session).is_id_taken(error):
            raise
        raise RunIdTaken("a run id that was given out is taken", min(run_ids)) from error
    return run_ids


def plan_asked(session: Session, runs: Sequence[NewRun], ids: RunIds) -> list[int]:
    """Insert PLANNED rows of requested runs; each has its `run_id`.

    Raises:
        RunsNotPlanned: another run has the key of one of them, so not all were planned.
        RunIdTaken: the id of one of them is not above that of the run that it repeats.

    """
    for run in runs:
        if run.rerun_of and run.run_id and run.run_id <= run.rerun_of:
            raise RunIdTaken("the counter of run ids is at runs to be repeated", run.run_id)
    run_ids = plan(session, runs, ids)
    kept = {
        run_id
        for chunk in chunks(run_ids)
        for run_id in session.execute(select(Run.id).where(Run.id.in_(chunk))).scalars()
    }
    if missing := set(run_ids) - kept:
        raise RunsNotPlanned(len(missing))
    return run_ids


#: The fields that a row stores unchanged.
_STORED = tuple(field.name for field in fields(NewRun) if field.name not in ("run_id", "fault"))
_values = attrgetter(*_STORED)
#: The fields that are the same for all attempts of a shard.
_INHERITED = tuple(name for name in _STORED if name in LockedRun._fields)


def _row(run: NewRun, run_id: int) -> dict[str, Any]:
    return dict(zip(_STORED, _values(run), strict=True)) | {
        "id": run_id,
        **ENTERED[RunStatus.PLANNED],
        "sharding": f"{run.shard_index}/{run.shard_total}" if run.shard_total else None,
        "due_second": at(run.due_at),
        "alarm_status": 0,
        "kind": run.kind.value,
        "origin_id": run_id if run.origin_id is None else run.origin_id,
        "without_children": 1 if run.without_children else None,
    }


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
    """Record that PLANNED runs of a schedule will run although they are late; return how many."""
    planned = update(Run).where(Run.status == RunStatus.PLANNED)
    return modify_by_ids(session, Run, run_ids, planned.values(released_at=now_ms))


def give_payloads(session: Session, jobs: Iterable[Job], *, kinds: Iterable[Kind]) -> int:
    """Give PLANNED runs the handlers, params and scripts of their jobs; return how many.

    Runs planned with a version of a script keep it, unless the job no longer has a script.
    """
    by_id = {job.id: job for job in jobs}
    alike: dict[tuple[str | None, str | None, int | None], list[int]] = defaultdict(list)
    for run_id, job_id in of_jobs(session, by_id, kinds).items():
        job = by_id[job_id]
        alike[job.handler, job.param, job.script_version].append(run_id)
    planned = update(Run).where(Run.status == RunStatus.PLANNED)
    updated = 0
    for (handler, param, version), run_ids in alike.items():
        kept = None if version is None else func.coalesce(Run.script_version, version)
        values = planned.values(handler=handler, param=param, script_version=kept)
        updated += modify_by_ids(session, Run, sorted(run_ids), values)
    return updated


def recompute(
    session: Session,
    job_ids: Collection[int],
    made: Callable[[int, int], tuple[date | None, str]],
    *,
    kinds: Iterable[Kind],
) -> None:
    """Give PLANNED runs of jobs the date and the param that `made` returns for job and tick."""
    planned = select(Run.id, Run.job_id, Run.scheduled_at).where(
        Run.status == RunStatus.PLANNED, Run.kind.in_(list(kinds))
    )
    alike: dict[tuple[date | None, str], list[int]] = defaultdict(list)
    for chunk in chunks(job_ids):
        for run_id, job_id, tick in session.execute(planned.where(Run.job_id.in_(chunk))):
            alike[made(job_id, tick)].append(run_id)
    for (run_date, param), run_ids in alike.items():
        statement = update(Run).where(Run.status == RunStatus.PLANNED)
        values = statement.values(run_date=run_date, param=param)
        modify_by_ids(session, Run, sorted(run_ids), values)
