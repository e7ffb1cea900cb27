"""All changes of runs: a function for each transition of `run_status`, each a guarded UPDATE.

Functions take a session and never commit. A row that fails the guard has moved on; that is normal.
Rows are found by id only, so that no statement locks or waits for rows that it does not change.

A successful run that is the only run of its tick ends without being read first. The executor
reports the job of each run; the guard of the UPDATE checks that, and that the run is the only one
of its tick.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from warren.sql import unfolded
from warren.sql.batch import Guard, chunks, lock_rows, modify_by_ids, update_alike, update_each
from warren.sql.dialects.dialect import Locking, UpdateRule
from warren.sql.dialects.supported import PRIMARY_KEY, use_index
from warren.sql.explanation import Explanation
from warren.sql.instants import at
from warren.sql.models import Run
from warren.sql.registry import pauses
from warren.sql.run_status import ENTERED, ENTERED_FROM, FINAL, IN_FLIGHT, Kind, RunStatus
from warren.sql.runs import planned_runs
from warren.sql.runs.run_rows import LockedRun, PlannedRun, RoutedRun
from warren.sql.unfolded import Change


def may_enter(entered: RunStatus) -> Guard:
    """Return the guard that a run may enter this status."""
    return status_in(ENTERED_FROM[entered])


def status_in(statuses: Iterable[RunStatus]) -> Guard:
    names = ", ".join(f"'{status.value}'" for status in sorted(statuses))
    return Guard(f"{Run.status.expression} IN ({names})")


#: The largest groups of runs with the same route get a statement each, if they have at least
#: MIN_ALIKE runs; all other runs share one statement, however different they are.
MIN_ALIKE = 8
MAX_ALIKE_STATEMENTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """The route of a claimed run; `code_version` is that of the boot, `holds` counts limits."""

    run_id: int
    address: str
    boot_id: str
    message: Explanation
    code_version: str | None = None
    holds: int | None = None


#: Address, boot, code version and reason of a route, and how many limits the run holds.
_RouteKey: TypeAlias = tuple[str, str, str | None, Explanation, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalState:
    """A run's final state, with everything known about it."""

    run_id: int
    status: RunStatus
    message: Explanation
    finished_at: int
    started_at: int | None = None
    log_tail: str | None = None
    result: str = ""


def claim(session: Session, run_ids: Sequence[int]) -> list[PlannedRun]:
    """Lock and return the runs among these that are still PLANNED and not locked by others."""
    return lock_rows(session, PlannedRun, Run, run_ids, _STILL_PLANNED)


def claim_to_send(
    session: Session, run_ids: Sequence[int], *, app_id: int, now_ms: int
) -> list[PlannedRun]:
    """Claim runs of an app; return none if a pause holds the app back."""
    guard = f"{_STILL_PLANNED.guard} AND {pauses.is_not_paused(app_id, now_ms)}"
    return lock_rows(session, PlannedRun, Run, run_ids, replace(_STILL_PLANNED, guard=guard))


def route(session: Session, runs: Sequence[Routed], *, node: str, now_ms: int) -> int:
    """Move claimed runs to ROUTED, with the address and boot that their trigger goes to.

    A few large groups of runs with the same route and reason are moved by a statement each, all
    others by one, or by two if some of them hold limits.
    """
    alike: dict[_RouteKey, list[int]] = defaultdict(list)
    for run in runs:
        key = (run.address, run.boot_id, run.code_version, run.message, run.holds)
        alike[key].append(run.run_id)
    largest = [key for key, run_ids in alike.items() if len(run_ids) >= MIN_ALIKE]
    largest.sort(key=lambda key: -len(alike[key]))
    guard, count = may_enter(RunStatus.ROUTED), 0
    entered = {"status": RunStatus.ROUTED.value, "routed_at": now_ms}
    for key in largest[:MAX_ALIKE_STATEMENTS]:
        values = entered | _routed_columns(key, node)
        count += update_alike(session, Run, alike.pop(key), values, guard=guard)
    # Most hold nothing, so their updates leave out that column.
    rows: dict[bool, list[dict[str, Any]]] = defaultdict(list)
    for key, run_ids in alike.items():
        columns = _routed_columns(key, node)
        rows["holds" in columns] += [{"id": run_id, **columns} for run_id in run_ids]
    # Our own word and number, which Python and SQL write in the same key.
    rule = UpdateRule(sets={column: repr(value) for column, value in entered.items()})
    for alike_rows in rows.values():
        count += update_each(session, Run, alike_rows, guard=guard, rule=rule)
    return count


def _routed_columns(key: _RouteKey, node: str) -> dict[str, Any]:
    address, boot_id, code_version, message, holds = key
    return ({"holds": holds} if holds else {}) | {
        "address": address,
        "boot_id": boot_id,
        "code_version": code_version,
        "routed_by": node,
        "trigger_message": message.text,
        "trigger_why": message.why,
    }


def explain(session: Session, words: Mapping[int, Explanation]) -> None:
    """Store why claimed runs could not be routed; they stay PLANNED."""
    rows = [
        {"id": run_id, "trigger_message": how.text, "trigger_why": how.why}
        for run_id, how in sorted(words.items())
    ]
    if rows:
        update_each(session, Run, rows, guard=status_in([RunStatus.PLANNED]))


def mark_sent(session: Session, run_ids: Sequence[int], *, node: str, now_ms: int) -> int:
    """Move runs whose trigger the broker confirmed to SENT; a final run stays final."""
    values = {**ENTERED[RunStatus.SENT], "sent_at": now_ms}
    condition = f"{may_enter(RunStatus.SENT).condition} AND {Run.routed_by.expression} = {{}}"
    return update_alike(session, Run, run_ids, values, guard=Guard(condition, (node,)))


def rewrite(session: Session, run_id: int) -> None:
    """Write a run's row unchanged; if this fails, the database takes no writes at all."""
    session.execute(update(Run).where(Run.id == run_id).values(status=Run.status))


def start(session: Session, started: Mapping[int, int]) -> int:
    """Move runs to RUNNING; `started` has the start of each run's process in epoch ms."""
    running = ENTERED[RunStatus.RUNNING]
    rows = [
        {"id": run_id, **running, "started_at": started_at}
        for run_id, started_at in sorted(started.items())
    ]
    return update_each(session, Run, rows, guard=may_enter(RunStatus.RUNNING))


def open_flows(session: Session, run_ids: Sequence[int], *, now_ms: int) -> int:
    """Move claimed runs of flows to RUNNING; they have no executor."""
    values = {**ENTERED[RunStatus.RUNNING], "started_at": now_ms}
    return update_alike(session, Run, run_ids, values, guard=status_in([RunStatus.PLANNED]))


def lock(session: Session, run_ids: Iterable[int]) -> list[LockedRun]:
    """Lock runs in the order of their ids and return them."""
    return lock_rows(session, LockedRun, Run, sorted(set(run_ids)), _IN_ORDER)


def lock_routed(session: Session, run_ids: Iterable[int]) -> list[RoutedRun]:
    """Lock runs that were given to an executor, in the order of their ids, and return them."""
    rows = lock_rows(session, RoutedRun, Run, sorted(set(run_ids)), _IN_ORDER)
    return [run for run in rows if run.address]


def end(session: Session, ended: Sequence[FinalState]) -> int:
    """Move runs to their final state; return how many were moved.

    Raises:
        ValueError: a status is not final.

    """
    # Most runs have no reason or no result, so their updates leave out that column.
    rows: dict[tuple[frozenset[RunStatus], bool, bool], list[dict[str, Any]]] = defaultdict(list)
    for run in ended:
        if run.status not in FINAL:
            raise ValueError(f"expected status to be final, got: {run.status.value}")
        has_why, has_result = run.message.why is not None, bool(run.result)
        rows[ENTERED_FROM[run.status], has_why, has_result].append(_final_row(run))
    return sum(
        update_each(session, Run, alike, guard=status_in(allowed))
        for (allowed, *_), alike in rows.items()
    )


def note_late(session: Session, reports: Mapping[int, str]) -> set[int]:
    """Store late statuses of runs that are LOST; return the runs that had none before."""
    locked = lock_rows(session, _ReportedRun, Run, sorted(reports), _LOST_FOR_GOOD)
    first = {run.id for run in locked}
    rows = [{"id": run_id, "late_status": reports[run_id]} for run_id in sorted(first)]
    update_each(session, Run, rows, guard=Guard(_LOST_FOR_GOOD.guard))
    return first


def request_kill(session: Session, run_id: int, *, now_ms: int) -> bool:
    """Request the kill of a run in flight; return False if not in flight or already requested."""
    return bool(request_kills(session, [run_id], now_ms=now_ms))


def request_kills(session: Session, run_ids: Iterable[int], *, now_ms: int) -> int:
    """Request the kill of runs in flight; return how many are new requests."""
    statement = (
        update(Run)
        .where(Run.status.in_(IN_FLIGHT), Run.kill_requested_at.is_(None))
        .values(kill_requested_at=now_ms)
    )
    return modify_by_ids(session, Run, run_ids, statement)


def take_over(session: Session, runs: Sequence[RoutedRun], *, node: str, now_ms: int) -> list[int]:
    """Take over ROUTED runs of another scheduler; return the ids of the runs that were won.

    A run is won if its owner and routing time have not changed and it is not locked.
    """
    seen = {row.id: (row.routed_by, row.routed_at) for row in runs}
    won: list[int] = []
    for chunk in chunks(sorted(seen)):
        locked = session.execute(
            use_index(select(Run.id, Run.routed_by, Run.routed_at), Run, PRIMARY_KEY)
            .where(Run.id.in_(chunk), Run.status == RunStatus.ROUTED)
            .with_for_update(skip_locked=True)
        )
        won += [run_id for run_id, by, routed_at in locked if (by, routed_at) == seen[run_id]]
    # MySQL assigns in this order, so the first keeps what the last replaces.
    statement = (
        update(Run)
        .where(Run.status == RunStatus.ROUTED)
        .ordered_values(
            (Run.first_routed_at, func.coalesce(Run.first_routed_at, Run.routed_at)),
            (Run.routed_by, node),
            (Run.routed_at, now_ms),
        )
    )
    modify_by_ids(session, Run, won, statement)
    return won


def cancel(
    session: Session,
    job_ids: Iterable[int],
    *,
    reason: Explanation,
    now_ms: int,
    kinds: Iterable[Kind],
    schedule_only: bool,
) -> dict[int, int]:
    """Move PLANNED runs of jobs to CANCELLED; return how many by job id.

    With `schedule_only`, runs that people or parents triggered are left alone.
    """
    planned = planned_runs.of_jobs(session, job_ids, kinds, schedule_only=schedule_only)
    return cancel_these(session, planned, reason=reason, now_ms=now_ms)


def cancel_these(
    session: Session, run_ids: Iterable[int], *, reason: Explanation, now_ms: int
) -> dict[int, int]:
    """Move those of these runs that are PLANNED to CANCELLED; return how many by job id."""
    statement = (
        update(Run)
        .where(Run.status.in_(ENTERED_FROM[RunStatus.CANCELLED]))
        .values(
            **ENTERED[RunStatus.CANCELLED],
            message=reason.text,
            message_why=reason.why,
            finished_at=now_ms,
            finished_second=at(now_ms),
        )
    )
    held = [run for run in lock(session, run_ids) if run.status == RunStatus.PLANNED]
    modify_by_ids(session, Run, [run.id for run in held], statement)
    # Without a retry or a shard that was still to come, its due time may be over.
    if awaited := [run.id for run in held if run.attempt or run.shard_total > 1]:
        unfolded.note(session, Change(runs=awaited))
    return Counter(run.job_id for run in held)


def _final_row(run: FinalState) -> dict[str, Any]:
    row = {
        "id": run.run_id,
        **ENTERED[run.status],
        "message": run.message.text,
        "finished_second": at(run.finished_at),
        "finished_at": run.finished_at,
        "started_at": run.started_at,
        "log_tail": run.log_tail,
    }
    if run.message.why is not None:
        row["message_why"] = run.message.why
    if run.result:
        row["result"] = run.result
    return row


_STILL_PLANNED = Locking(
    guard=status_in([RunStatus.PLANNED]).condition, order="due_at, id", skips=True
)
_IN_ORDER = Locking(guard="1 = 1", order="id")
_LOST_FOR_GOOD = Locking(
    guard=f"{status_in([RunStatus.LOST]).condition} AND {Run.late_status.expression} IS NULL",
    order="id",
)


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


class _ReportedRun(NamedTuple):
    """A run, with what tells whether a report is about it."""

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
        for row in lock_rows(session, _ReportedRun, Run, sorted(runs), how)
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
