"""Every change of a run: one function per arrow of `run_status`, each a guarded UPDATE.

Functions take a session and never commit. Losing a guard is normal: the row had moved on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import CursorResult, select, update
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.orm import Session

from sql.batch import chunks, update_each
from sql.ids import RunIds
from sql.models import Run
from sql.rows import Rows
from sql.run_status import CODES, ENTERED_FROM, IN_FLIGHT, OPEN, Kind, RunStatus

TABLE = Run.__tablename__


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to plan; `origin_id` None = the run's own id (MANUAL and API)."""

    job_group: int
    job_id: int
    handler: str
    param: str
    kind: Kind
    scheduled_at: int
    due_at: int
    retries_left: int
    origin_id: int | None = 0
    shard_index: int = 0
    shard_total: int = 1
    attempt: int = 0
    redeliveries: int = 0
    wanted_addresses: str | None = None
    trigger_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """Where a claimed run goes."""

    run_id: int
    address: str
    boot_id: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A run's final state, with all that is known of it."""

    run_id: int
    status: RunStatus
    message: str
    finished_at: int
    started_at: int | None = None
    log_tail: str | None = None


def plan(session: Session, runs: Sequence[NewRun], ids: RunIds) -> list[int]:
    """Insert PLANNED rows; return their ids. A row whose tick is there already is left out."""
    if not runs:
        return []
    taken = ids.take(session, len(runs))
    rows = [_row(run, run_id) for run, run_id in zip(runs, taken, strict=True)]
    statement = _insert_unless_there(session)
    for chunk in chunks(rows):
        session.execute(statement, chunk)
    return taken


def claim(session: Session, run_ids: Sequence[int]) -> Rows:
    """Lock those of the runs that are still PLANNED and that nobody else holds; return them."""
    return session.execute(
        select(*DISPATCH_COLUMNS)
        .where(Run.id.in_(run_ids), Run.status == RunStatus.PLANNED)
        .order_by(Run.due_at, Run.id)
        .with_for_update(skip_locked=True)
    ).all()


def route(session: Session, runs: Sequence[Routed], *, node: str, now_ms: int) -> int:
    """Move claimed runs to ROUTED: the address and boot their trigger will go to."""
    rows = [
        {
            "id": run.run_id,
            "status": RunStatus.ROUTED.value,
            "executor_address": run.address,
            "boot_id": run.boot_id,
            "routed_by": node,
            "routed_at": now_ms,
            "trigger_msg": run.message,
        }
        for run in runs
    ]
    return update_each(session, TABLE, rows, guard=_guard(RunStatus.ROUTED))


def mark_sent(session: Session, run_ids: Sequence[int], *, node: str, now_ms: int) -> int:
    """Move runs whose trigger the broker confirmed to SENT; a finished one stays finished."""
    return _rowcount(
        session,
        update(Run)
        .where(Run.id.in_(run_ids), Run.status == RunStatus.ROUTED, Run.routed_by == node)
        .values(status=RunStatus.SENT, sent_at=now_ms, trigger_code=200),
    )


def start(session: Session, started: Mapping[int, int]) -> int:
    """Move runs, given with the instant their process began, to RUNNING."""
    rows = [
        {
            "id": run_id,
            "status": RunStatus.RUNNING.value,
            "started_at": started_at,
            "trigger_code": CODES[RunStatus.RUNNING][0],
        }
        for run_id, started_at in started.items()
    ]
    return update_each(session, TABLE, rows, guard=_guard(RunStatus.RUNNING))


def lock(session: Session, run_ids: Iterable[int]) -> Rows:
    """Lock runs in the order of their ids and return what a decision about their end needs."""
    return session.execute(
        select(*DECISION_COLUMNS)
        .where(Run.id.in_(list(run_ids)))
        .order_by(Run.id)
        .with_for_update()
    ).all()


def end(session: Session, ended: Sequence[Ended]) -> int:
    """Move locked open runs to their final state."""
    rows = [_final_row(run) for run in ended]
    return update_each(session, TABLE, rows, guard=_is_open())


def note_late(session: Session, run_id: int, status: RunStatus) -> bool:
    """Record what a run that was given up as LOST reported in the end; True the first time."""
    return bool(
        _rowcount(
            session,
            update(Run)
            .where(Run.id == run_id, Run.status == RunStatus.LOST, Run.late_status.is_(None))
            .values(late_status=status),
        )
    )


def request_kill(session: Session, run_id: int, *, now_ms: int) -> bool:
    """Ask for a run in flight to be killed; False when it is not in flight."""
    return bool(
        _rowcount(
            session,
            update(Run)
            .where(Run.id == run_id, Run.status.in_(IN_FLIGHT), Run.kill_requested_at.is_(None))
            .values(kill_requested_at=now_ms),
        )
    )


def take_over(session: Session, rows: Rows, *, node: str, now_ms: int) -> list[int]:
    """Make ROUTED runs of another scheduler this one's; return the ids that were won."""
    won = []
    for row in rows:
        taken = _rowcount(
            session,
            update(Run)
            .where(
                Run.id == row.id,
                Run.status == RunStatus.ROUTED,
                Run.routed_by == row.routed_by,
                Run.routed_at == row.routed_at,
            )
            .values(routed_by=node, routed_at=now_ms),
        )
        won += [row.id] * taken
    return won


def cancel(
    session: Session,
    job_id: int,
    *,
    reason: str,
    now_ms: int,
    kinds: Iterable[Kind],
    schedule_only: bool,
) -> int:
    """Move PLANNED runs of a job to CANCELLED; `schedule_only` spares what a person started."""
    statement = update(Run).where(
        Run.job_id == job_id, Run.status == RunStatus.PLANNED, Run.kind.in_(list(kinds))
    )
    if schedule_only:
        statement = statement.where(Run.origin_id == 0)
    trigger_code, handle_code = CODES[RunStatus.CANCELLED]
    return _rowcount(
        session,
        statement.values(
            status=RunStatus.CANCELLED,
            handle_msg=reason,
            finished_at=now_ms,
            handle_time=at(now_ms),
            trigger_code=trigger_code,
            handle_code=handle_code,
        ),
    )


def update_planned(
    session: Session, job_id: int, *, kinds: Iterable[Kind], handler: str | None, param: str | None
) -> int:
    """Let PLANNED runs of a job go with this handler and param."""
    return _rowcount(
        session,
        update(Run)
        .where(Run.job_id == job_id, Run.status == RunStatus.PLANNED, Run.kind.in_(list(kinds)))
        .values(executor_handler=handler, executor_param=param),
    )


def at(instant_ms: int) -> datetime:
    """Return epoch milliseconds as the naive UTC datetime that XXL-JOB's columns hold."""
    return datetime.fromtimestamp(instant_ms / 1000, UTC).replace(tzinfo=None)


DISPATCH_COLUMNS = (
    Run.id,
    Run.job_group,
    Run.job_id,
    Run.executor_address,
    Run.executor_handler,
    Run.executor_param,
    Run.executor_fail_retry_count,
    Run.kind,
    Run.scheduled_at,
    Run.due_at,
    Run.origin_id,
    Run.shard_index,
    Run.shard_total,
    Run.attempt,
    Run.redeliveries,
    Run.boot_id,
    Run.routed_by,
    Run.routed_at,
    Run.sent_at,
    Run.status,
    Run.wanted_addresses,
    Run.kill_requested_at,
)

DECISION_COLUMNS = (*DISPATCH_COLUMNS, Run.started_at, Run.late_status)


def _row(run: NewRun, run_id: int) -> dict[str, Any]:
    return {
        "id": run_id,
        "job_group": run.job_group,
        "job_id": run.job_id,
        "executor_handler": run.handler,
        "executor_param": run.param,
        "executor_sharding_param": f"{run.shard_index}/{run.shard_total}",
        "executor_fail_retry_count": run.retries_left,
        "trigger_time": at(run.due_at),
        "trigger_code": 0,
        "trigger_msg": run.trigger_message,
        "handle_code": 0,
        "alarm_status": 0,
        "status": RunStatus.PLANNED,
        "kind": run.kind,
        "scheduled_at": run.scheduled_at,
        "due_at": run.due_at,
        "origin_id": run_id if run.origin_id is None else run.origin_id,
        "shard_index": run.shard_index,
        "shard_total": run.shard_total,
        "attempt": run.attempt,
        "redeliveries": run.redeliveries,
        "wanted_addresses": run.wanted_addresses,
    }


def _insert_unless_there(session: Session) -> Any:
    if session.get_bind().dialect.name == "sqlite":
        return sqlite.insert(Run).on_conflict_do_nothing()
    # Not INSERT IGNORE, which would also swallow values that do not fit.
    return mysql.insert(Run).on_duplicate_key_update(id=Run.id)


def _final_row(run: Ended) -> dict[str, Any]:
    trigger_code, handle_code = CODES[run.status]
    return {
        "id": run.run_id,
        "status": run.status.value,
        "trigger_code": trigger_code,
        "handle_code": handle_code,
        "handle_msg": run.message,
        "handle_time": str(at(run.finished_at)),
        "finished_at": run.finished_at,
        "started_at": run.started_at,
        "log_tail": run.log_tail,
    }


def _guard(entered: RunStatus) -> str:
    return _status_in(ENTERED_FROM[entered])


def _is_open() -> str:
    return _status_in(OPEN)


def _status_in(statuses: Iterable[RunStatus]) -> str:
    names = ", ".join(f"'{status.value}'" for status in sorted(statuses))
    return f"{TABLE}.status IN ({names})"


def _rowcount(session: Session, statement: Any) -> int:
    result = session.execute(statement, execution_options={"synchronize_session": False})
    return int(cast("CursorResult[Any]", result).rowcount)
