"""What became of a due time, judged by the newest run of each of its shards, whatever caused it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum

from sqlalchemy.orm import Session

from warren.scheduler.backfills.kept_schedule import KeptSchedule
from warren.sql.backfill_status import Selection
from warren.sql.jobs import backfills
from warren.sql.jobs.backfills import DueRun
from warren.sql.run_status import FINE, OPEN, RunStatus


class DueTimeState(StrEnum):
    """What became of a due time."""

    #: Nothing ran for it: it has no run, or only cancelled ones.
    MISSING = "MISSING"
    OPEN = "OPEN"
    SUCCEEDED = "SUCCEEDED"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"


#: The due times that each selection takes.
SELECTED: Mapping[Selection, Collection[DueTimeState]] = {
    Selection.MISSING: {DueTimeState.MISSING},
    Selection.FAILED: {DueTimeState.FAILED},
    Selection.ALL: set(DueTimeState) - {DueTimeState.OPEN},
}


def state_of(runs: Iterable[DueRun]) -> DueTimeState:
    """Return what became of a due time with these runs, each shard's newest last."""
    shards: dict[int, DueTimeState] = {}
    for run in runs:
        if run.status != RunStatus.CANCELLED:
            shards[run.shard_index] = _state(run.status)
        else:
            shards.setdefault(run.shard_index, DueTimeState.MISSING)
    states = set(shards.values()) or {DueTimeState.MISSING}
    for state in (DueTimeState.OPEN, DueTimeState.FAILED):
        if state in states:
            return state
    if DueTimeState.MISSING in states:
        return DueTimeState.MISSING if len(states) == 1 else DueTimeState.FAILED
    return next(iter(states)) if len(states) == 1 else DueTimeState.SUCCEEDED


def _state(status: str) -> DueTimeState:
    if status in OPEN:
        return DueTimeState.OPEN
    if status not in FINE:
        return DueTimeState.FAILED
    return DueTimeState(status)


def states(
    session: Session, job_id: int, ticks: Sequence[int], *, backfill_id: int | None = None
) -> dict[int, DueTimeState]:
    """Return what became of a job's due times; with `backfill_id`, by the runs of that backfill."""
    runs = backfills.runs_at(session, job_id, ticks)
    return {
        tick: state_of(run for run in runs.get(tick, ()) if backfill_id in (None, run.backfill_id))
        for tick in ticks
    }


def states_kept(
    session: Session, job_id: int, kept: KeptSchedule, ticks: Sequence[int]
) -> dict[int, DueTimeState]:
    """Return what became of due times of a schedule; of dates, by all runs about them."""
    if not kept.is_of_dates:
        return states(session, job_id, ticks)
    days = {tick: kept.run_date(tick) for tick in ticks}
    runs = backfills.runs_about(session, job_id, list(days.values())) if days else {}
    return {tick: state_of(_last_by_start(runs.get(day, ()))) for tick, day in days.items()}


def _last_by_start(runs: Iterable[DueRun]) -> list[DueRun]:
    """Return the runs of the newest trigger of a date."""
    by_origin = sorted(runs, key=lambda run: (run.origin_id, run.shard_index, run.attempt))
    ran = [run for run in by_origin if run.status != RunStatus.CANCELLED]
    return [run for run in ran if run.origin_id == ran[-1].origin_id]
