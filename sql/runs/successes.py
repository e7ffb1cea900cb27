"""Ends successful runs that are the only run of their tick, without reading them first.

The executor reports the job of each run; the guard of the UPDATE checks that, and that the run is
the only one of its tick.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from warren.sql.batch import Guard, lock_rows, update_each
from warren.sql.dialects.dialect import Locking, UpdateRule
from warren.sql.instants import at
from warren.sql.models import Run
from warren.sql.run_status import RunStatus
from warren.sql.runs.transitions import ENTERED, may_enter, status_in


class SentTo(NamedTuple):
    """The executor boot to which runs were sent."""

    app_id: int
    address: str
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """A successful run, its job, and what its handler returned as JSON, "" for nothing.

    Job and `due_at` are those of the trigger, and distinguish it from another run with its id.
    """

    run_id: int
    job_id: int
    due_at: int
    message: str
    started_at: int
    finished_at: int
    log_tail: str
    result: str = ""


class _SingleRunTick(NamedTuple):
    id: int
    job_id: int
    due_at: int
    app_id: int
    address: str | None
    boot_id: str | None


_SUCCEEDED = UpdateRule(
    # Our own words and numbers, which Python and SQL write in the same way.
    sets={column: repr(value) for column, value in ENTERED[RunStatus.SUCCEEDED].items()},
    matched=["job_id", "due_at"],
)
_OPEN_AND_ALONE = " AND ".join(
    [
        may_enter(RunStatus.SUCCEEDED).condition,
        f"{Run.shard_total.expression} <= 1",
        f"{Run.attempt.expression} = 0",
        f"{Run.flow_run_id.expression} IS NULL",
        # What it holds has to be given back.
        f"{Run.holds.expression} IS NULL",
    ]
)
#: The guard that a run was sent to a boot, whose values are those of a `SentTo`.
SENT_TO = " AND ".join(
    f"{column.expression} = {{}}" for column in (Run.app_id, Run.address, Run.boot_id)
)


def succeed_open(session: Session, runs: Mapping[SentTo, Sequence[Success]]) -> set[int]:
    """Move the runs of each boot that are open and as reported to SUCCEEDED.

    Returns their ids. Usually all can be moved, so that is tried first, under a savepoint. Only if
    one was not moved is that undone, and the runs that can be moved are looked up.
    """
    connection = session.connection()
    # Not `begin_nested`: after a deadlock the savepoint is gone, and its rollback would hide that.
    connection.exec_driver_sql("SAVEPOINT successes")
    if all(succeed(session, boot, sent) for boot, sent in runs.items()):
        return {run.run_id for sent in runs.values() for run in sent}
    connection.exec_driver_sql("ROLLBACK TO SAVEPOINT successes")
    moved: set[int] = set()
    for boot, sent in runs.items():
        open_ids = lock_open(session, boot, {run.run_id: (run.job_id, run.due_at) for run in sent})
        succeed(session, boot, [run for run in sent if run.run_id in open_ids])
        moved |= open_ids
    return moved


def succeed(session: Session, boot: SentTo, runs: Sequence[Success]) -> bool:
    """Move runs that were sent to one boot to SUCCEEDED; return whether all were moved.

    A run that was not moved was final already, or is not as reported; it is not known which.
    """
    ordered = sorted(runs, key=lambda run: run.run_id)
    # Most runs have no result, so their updates leave out that column.
    without_result = [_row(run) for run in ordered if not run.result]
    with_result = [_row(run) | {"result": run.result} for run in ordered if run.result]
    guard = Guard(f"{_OPEN_AND_ALONE} AND {SENT_TO}", boot)
    moved = [
        update_each(session, Run, rows, guard=guard, rule=_SUCCEEDED)
        for rows in (without_result, with_result)
        if rows
    ]
    return sum(moved) == len(runs)


def lock_open(session: Session, boot: SentTo, runs: Mapping[int, tuple[int, int]]) -> set[int]:
    """Lock and return the runs that `succeed` would move; `runs` have their job and due time."""
    how = Locking(guard=_OPEN_AND_ALONE, order="id")
    return {
        row.id
        for row in lock_rows(session, _SingleRunTick, Run, sorted(runs), how)
        if (row.app_id, row.address, row.boot_id) == boot
        and runs[row.id] == (row.job_id, row.due_at)
    }


def _row(run: Success) -> dict[str, Any]:
    return {
        "id": run.run_id,
        "job_id": run.job_id,
        "due_at": run.due_at,
        "message": run.message,
        "finished_second": at(run.finished_at),
        "finished_at": run.finished_at,
        "started_at": run.started_at,
        "log_tail": run.log_tail,
    }


def note_progress(session: Session, boot: SentTo, texts: Mapping[int, str]) -> int:
    """Store the progress of runs, as JSON by id; only of those that are RUNNING on this boot."""
    rows = [{"id": run_id, "progress": progress} for run_id, progress in sorted(texts.items())]
    running = status_in([RunStatus.RUNNING]).condition
    return update_each(session, Run, rows, guard=Guard(f"{running} AND {SENT_TO}", boot))
