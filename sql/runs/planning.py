"""Creates runs as PLANNED rows, one for each tick, shard and attempt."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import date
from operator import attrgetter
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from warren.sql.batch import chunks, insert_or_ignore
from warren.sql.dialects.supported import of
from warren.sql.errors import RunIdTaken, RunsNotPlanned
from warren.sql.explanation import Explanation
from warren.sql.ids import RunIds
from warren.sql.instants import at
from warren.sql.models import Run
from warren.sql.models.run_tables import TICK_KEY
from warren.sql.run_status import Kind, RunStatus
from warren.sql.runs.run_rows import LockedRun
from warren.sql.runs.transitions import ENTERED


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
