"""Every change of a run: one function per arrow of `run_status`, each a guarded UPDATE.

Functions take a session and never commit. Losing a guard is normal: the row had moved on. Rows are
reached by their ids alone, so that no statement locks, or waits for, a row that is not its own.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from sqlalchemy import CursorResult, Update, func, select, update
from sqlalchemy.orm import Session

from sql.batch import Guard, chunks, lock_rows, update_alike, update_each
from sql.dialects.dialect import Locking
from sql.dialects.hints import PRIMARY_KEY, update_by_index, use_index
from sql.explanation import Explanation
from sql.instants import at, at_as_text
from sql.models import Run
from sql.registry import pauses
from sql.run_status import CODES, ENTERED_FROM, FINAL, IN_FLIGHT, Kind, RunStatus
from sql.runs.guards import may_enter, status_in
from sql.runs.planning import NewRun, plan
from sql.runs.run_rows import LockedRun, PlannedRun, RoutedRun

#: `at` and the making of new runs are at hand here too, for who writes runs.
__all__ = ["Ended", "NewRun", "Routed", "at", "plan"]

#: From this many on, runs that are routed alike get their own statement; fewer share one.
ALIKE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """Where a claimed run goes."""

    run_id: int
    address: str
    boot_id: str
    message: Explanation


class Payload(NamedTuple):
    """What a planned run is to run; `script_version` is for runs planned with a handler."""

    handler: str | None
    param: str | None
    script_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A run's final state, with all that is known of it."""

    run_id: int
    status: RunStatus
    message: Explanation
    finished_at: int
    started_at: int | None = None
    log_tail: str | None = None


def claim(session: Session, run_ids: Sequence[int]) -> list[PlannedRun]:
    """Lock those of the runs that are still PLANNED and that nobody else holds; return them."""
    return lock_rows(session, PlannedRun, Run, run_ids, _STILL_PLANNED)


def claim_to_send(
    session: Session, run_ids: Sequence[int], *, app_id: int, now_ms: int
) -> list[PlannedRun]:
    """Do the same with runs of an app, unless a pause keeps it from sending: then return none."""
    guard = f"{_STILL_PLANNED.guard} AND {pauses.nothing_held(app_id, now_ms)}"
    return lock_rows(session, PlannedRun, Run, run_ids, replace(_STILL_PLANNED, guard=guard))


def route(session: Session, runs: Sequence[Routed], *, node: str, now_ms: int) -> int:
    """Move claimed runs to ROUTED: the address and boot their trigger will go to.

    Those that go the same way for the same reason are moved by one statement.
    """
    alike: dict[tuple[str, str, Explanation], list[int]] = defaultdict(list)
    for run in runs:
        alike[run.address, run.boot_id, run.message].append(run.run_id)
    guard, rows, count = may_enter(RunStatus.ROUTED), [], 0
    for (address, boot_id, message), run_ids in alike.items():
        values = {
            "status": RunStatus.ROUTED.value,
            "address": address,
            "boot_id": boot_id,
            "routed_by": node,
            "routed_at": now_ms,
            "trigger_message": message.text,
            "trigger_why": message.why,
        }
        if len(run_ids) >= ALIKE:
            count += update_alike(session, Run, run_ids, values, guard=guard)
        else:
            rows += [{"id": run_id, **values} for run_id in run_ids]
    return count + update_each(session, Run, rows, guard=guard)


def explain(session: Session, words: Mapping[int, Explanation]) -> None:
    """Note, of claimed runs that go nowhere, how that came about."""
    rows = [
        {"id": run_id, "trigger_message": how.text, "trigger_why": how.why}
        for run_id, how in sorted(words.items())
    ]
    if rows:
        update_each(session, Run, rows, guard=status_in([RunStatus.PLANNED]))


def mark_sent(session: Session, run_ids: Sequence[int], *, node: str, now_ms: int) -> int:
    """Move runs whose trigger the broker confirmed to SENT; a finished one stays finished."""
    trigger_code, handle_code = CODES[RunStatus.SENT]
    values = {
        "status": RunStatus.SENT.value,
        "sent_at": now_ms,
        "trigger_code": trigger_code,
        "handle_code": handle_code,
    }
    condition = f"{may_enter(RunStatus.SENT).condition} AND {Run.routed_by.expression} = {{}}"
    return update_alike(session, Run, run_ids, values, guard=Guard(condition, (node,)))


def start(session: Session, started: Mapping[int, int]) -> int:
    """Move runs, given with the instant their process began, to RUNNING."""
    trigger_code, handle_code = CODES[RunStatus.RUNNING]
    rows = [
        {
            "id": run_id,
            "status": RunStatus.RUNNING.value,
            "started_at": started_at,
            "trigger_code": trigger_code,
            "handle_code": handle_code,
        }
        for run_id, started_at in sorted(started.items())
    ]
    return update_each(session, Run, rows, guard=may_enter(RunStatus.RUNNING))


def lock(session: Session, run_ids: Iterable[int]) -> list[LockedRun]:
    """Lock runs in the order of their ids and return what a decision about their end needs."""
    return lock_rows(session, LockedRun, Run, sorted(set(run_ids)), _IN_ORDER)


def end(session: Session, ended: Sequence[Ended]) -> int:
    """Move runs to their final state; return how many were open and let it happen.

    Raises:
        ValueError: a status is not final.

    """
    # A success has no reason: those updates are spared the column.
    rows: dict[tuple[frozenset[RunStatus], bool], list[dict[str, Any]]] = defaultdict(list)
    for run in ended:
        if run.status not in FINAL:
            raise ValueError(f"expected status to be final, got: {run.status.value}")
        rows[ENTERED_FROM[run.status], run.message.why is not None].append(_final_row(run))
    return sum(
        update_each(session, Run, alike, guard=status_in(allowed))
        for (allowed, _), alike in rows.items()
    )


def note_late(session: Session, run_id: int, status: RunStatus) -> bool:
    """Record what a run that was given up as LOST reported in the end; True the first time."""
    statement = (
        update(Run)
        .where(Run.status == RunStatus.LOST, Run.late_status.is_(None))
        .values(late_status=status)
    )
    return bool(_update_ids(session, [run_id], statement))


def request_kill(session: Session, run_id: int, *, now_ms: int) -> bool:
    """Ask for a run in flight to be killed; False when it is not, or was asked for already."""
    return bool(request_kills(session, [run_id], now_ms=now_ms))


def request_kills(session: Session, run_ids: Iterable[int], *, now_ms: int) -> int:
    """Ask for runs in flight to be killed; return of how many that was not asked already."""
    statement = (
        update(Run)
        .where(Run.status.in_(IN_FLIGHT), Run.kill_requested_at.is_(None))
        .values(kill_requested_at=now_ms)
    )
    return _update_ids(session, run_ids, statement)


def take_over(session: Session, runs: Sequence[RoutedRun], *, node: str, now_ms: int) -> list[int]:
    """Make ROUTED runs of another scheduler this one's; return the ids that were won.

    A run is won when it still is as `runs` show it, and nobody holds it at this moment.
    """
    seen = {row.id: (row.routed_by, row.routed_at) for row in runs}
    won: list[int] = []
    for chunk in chunks(sorted(seen)):
        held = session.execute(
            use_index(select(Run.id, Run.routed_by, Run.routed_at), Run, PRIMARY_KEY)
            .where(Run.id.in_(chunk), Run.status == RunStatus.ROUTED)
            .with_for_update(skip_locked=True)
        )
        won += [run_id for run_id, by, routed_at in held if (by, routed_at) == seen[run_id]]
    statement = (
        update(Run).where(Run.status == RunStatus.ROUTED).values(routed_by=node, routed_at=now_ms)
    )
    _update_ids(session, won, statement)
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
    """Move PLANNED runs of jobs to CANCELLED; return how many, by job, where there were any.

    `schedule_only` spares what a person started.
    """
    trigger_code, handle_code = CODES[RunStatus.CANCELLED]
    statement = (
        update(Run)
        .where(Run.status.in_(ENTERED_FROM[RunStatus.CANCELLED]))
        .values(
            status=RunStatus.CANCELLED,
            message=reason.text,
            message_why=reason.why,
            finished_at=now_ms,
            handle_time=at(now_ms),
            trigger_code=trigger_code,
            handle_code=handle_code,
        )
    )
    planned = _planned(session, job_ids, kinds, schedule_only=schedule_only)
    held = [run for run in lock(session, planned) if run.status == RunStatus.PLANNED]
    _update_ids(session, [run.id for run in held], statement)
    return Counter(run.job_id for run in held)


def misfire(session: Session, run_ids: Sequence[int], *, now_ms: int) -> int:
    """Let PLANNED runs of a schedule be sent now, as the one run for all ticks that were missed."""
    statement = (
        update(Run)
        .where(Run.status == RunStatus.PLANNED)
        .values(kind=Kind.MISFIRE, due_at=now_ms, trigger_time=at(now_ms))
    )
    return _update_ids(session, run_ids, statement)


def update_planned(
    session: Session, payloads: Mapping[int, Payload], *, kinds: Iterable[Kind]
) -> int:
    """Let PLANNED runs of jobs, given by id, go with these payloads.

    A run that was planned with a version of a script keeps that version, unless the job has no
    script any more.
    """
    alike: dict[Payload, list[int]] = defaultdict(list)
    for run_id, job_id in _planned(session, payloads, kinds).items():
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
    return _update_ids(session, sorted(run_ids), statement)


def _planned(
    session: Session, job_ids: Iterable[int], kinds: Iterable[Kind], *, schedule_only: bool = False
) -> dict[int, int]:
    """Return the jobs of their PLANNED runs by the runs' ids, read without locks.

    Who uses them must guard.
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


def _final_row(run: Ended) -> dict[str, Any]:
    trigger_code, handle_code = CODES[run.status]
    row = {
        "id": run.run_id,
        "status": run.status.value,
        "trigger_code": trigger_code,
        "handle_code": handle_code,
        "message": run.message.text,
        "handle_time": at_as_text(run.finished_at),
        "finished_at": run.finished_at,
        "started_at": run.started_at,
        "log_tail": run.log_tail,
    }
    return row if run.message.why is None else row | {"message_why": run.message.why}


_STILL_PLANNED = Locking(
    guard=status_in([RunStatus.PLANNED]).condition, order="due_at, id", skips=True
)
_IN_ORDER = Locking(guard="1 = 1", order="id")


def _update_ids(session: Session, run_ids: Iterable[int], statement: Update) -> int:
    by_id = update_by_index(statement, PRIMARY_KEY)
    return sum(_rowcount(session, by_id.where(Run.id.in_(chunk))) for chunk in chunks(run_ids))


def _rowcount(session: Session, statement: Update) -> int:
    result = session.execute(statement, execution_options={"synchronize_session": False})
    return cast("CursorResult[Any]", result).rowcount
