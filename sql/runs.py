"""Every change of a run: one function per arrow of `run_status`, each a guarded UPDATE.

Functions take a session and never commit. Losing a guard is normal: the row had moved on. Rows are
reached by their ids alone, so that no statement locks, or waits for, a row that is not its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import CursorResult, Update, func, select, update
from sqlalchemy.orm import Session

from sql.batch import chunks, update_each
from sql.instants import at, at_as_text
from sql.models import Run
from sql.new_runs import NewRun, plan
from sql.rows import AnyRow, Rows
from sql.run_columns import CLAIM_COLUMNS, DECISION_COLUMNS
from sql.run_status import CODES, ENTERED_FROM, FINAL, IN_FLIGHT, Kind, RunStatus

#: `at` and the making of new runs are at hand here too, for who writes runs.
__all__ = ["Ended", "NewRun", "Routed", "at", "plan"]

TABLE = Run.__tablename__
_BY_ID = "FORCE INDEX (PRIMARY)"


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


def claim(session: Session, run_ids: Sequence[int]) -> Rows:
    """Lock those of the runs that are still PLANNED and that nobody else holds; return them."""
    return session.execute(
        select(*CLAIM_COLUMNS)
        .with_hint(Run, _BY_ID, "mysql")
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
    return update_each(session, TABLE, rows, guard=_may_enter(RunStatus.ROUTED))


def explain(session: Session, words: Mapping[int, str]) -> None:
    """Note, of claimed runs that go nowhere, how that came about."""
    rows = [{"id": run_id, "trigger_msg": text} for run_id, text in sorted(words.items())]
    if rows:
        update_each(session, TABLE, rows, guard=_status_in([RunStatus.PLANNED]))


def mark_sent(session: Session, run_ids: Sequence[int], *, node: str, now_ms: int) -> int:
    """Move runs whose trigger the broker confirmed to SENT; a finished one stays finished."""
    trigger_code, handle_code = CODES[RunStatus.SENT]
    statement = (
        update(Run)
        .where(Run.status.in_(ENTERED_FROM[RunStatus.SENT]), Run.routed_by == node)
        .values(
            status=RunStatus.SENT,
            sent_at=now_ms,
            trigger_code=trigger_code,
            handle_code=handle_code,
        )
    )
    return _update_ids(session, run_ids, statement)


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
    return update_each(session, TABLE, rows, guard=_may_enter(RunStatus.RUNNING))


def lock(session: Session, run_ids: Iterable[int]) -> list[AnyRow]:
    """Lock runs in the order of their ids and return what a decision about their end needs."""
    return [
        row
        for chunk in chunks(sorted(set(run_ids)))
        for row in session.execute(
            select(*DECISION_COLUMNS)
            .with_hint(Run, _BY_ID, "mysql")
            .where(Run.id.in_(chunk))
            .order_by(Run.id)
            .with_for_update()
        )
    ]


def end(session: Session, ended: Sequence[Ended]) -> int:
    """Move runs to their final state; return how many were open and let it happen.

    Raises:
        ValueError: a status is not final.

    """
    rows: dict[frozenset[RunStatus], list[dict[str, Any]]] = defaultdict(list)
    for run in ended:
        if run.status not in FINAL:
            raise ValueError(f"expected status to be final, got: {run.status.value}")
        rows[ENTERED_FROM[run.status]].append(_final_row(run))
    return sum(
        update_each(session, TABLE, alike, guard=_status_in(allowed))
        for allowed, alike in rows.items()
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
    statement = (
        update(Run)
        .where(Run.status.in_(IN_FLIGHT), Run.kill_requested_at.is_(None))
        .values(kill_requested_at=now_ms)
    )
    return bool(_update_ids(session, [run_id], statement))


def take_over(session: Session, rows: Rows, *, node: str, now_ms: int) -> list[int]:
    """Make ROUTED runs of another scheduler this one's; return the ids that were won.

    A run is won when it still is as `rows` show it, and nobody holds it at this moment.
    """
    seen = {row.id: (row.routed_by, row.routed_at) for row in rows}
    won: list[int] = []
    for chunk in chunks(sorted(seen)):
        held = session.execute(
            select(Run.id, Run.routed_by, Run.routed_at)
            .with_hint(Run, _BY_ID, "mysql")
            .where(Run.id.in_(chunk), Run.status == RunStatus.ROUTED)
            .with_for_update(skip_locked=True)
        )
        won += [row.id for row in held if (row.routed_by, row.routed_at) == seen[row.id]]
    statement = (
        update(Run).where(Run.status == RunStatus.ROUTED).values(routed_by=node, routed_at=now_ms)
    )
    _update_ids(session, won, statement)
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
    trigger_code, handle_code = CODES[RunStatus.CANCELLED]
    statement = (
        update(Run)
        .where(Run.status.in_(ENTERED_FROM[RunStatus.CANCELLED]))
        .values(
            status=RunStatus.CANCELLED,
            handle_msg=reason,
            finished_at=now_ms,
            handle_time=at(now_ms),
            trigger_code=trigger_code,
            handle_code=handle_code,
        )
    )
    planned = _planned(session, job_id, kinds, schedule_only=schedule_only)
    return _update_ids(session, planned, statement)


def update_planned(
    session: Session,
    job_id: int,
    *,
    kinds: Iterable[Kind],
    handler: str | None,
    param: str | None,
    glue_id: int | None,
) -> int:
    """Let PLANNED runs of a job go with this handler and param.

    A run that was planned with a version of a script keeps that version, unless the job has no
    script any more; `glue_id` is for those that were planned with a handler.
    """
    version = None if glue_id is None else func.coalesce(Run.glue_id, glue_id)
    statement = (
        update(Run)
        .where(Run.status == RunStatus.PLANNED)
        .values(executor_handler=handler, executor_param=param, glue_id=version)
    )
    return _update_ids(session, _planned(session, job_id, kinds), statement)


def _planned(
    session: Session, job_id: int, kinds: Iterable[Kind], *, schedule_only: bool = False
) -> list[int]:
    """Return the ids of a job's PLANNED runs, read without locks; who uses them must guard."""
    statement = select(Run.id).where(
        Run.job_id == job_id, Run.status == RunStatus.PLANNED, Run.kind.in_(list(kinds))
    )
    if schedule_only:
        statement = statement.where(Run.origin_id == 0)
    return sorted(session.execute(statement).scalars())


def _final_row(run: Ended) -> dict[str, Any]:
    trigger_code, handle_code = CODES[run.status]
    return {
        "id": run.run_id,
        "status": run.status.value,
        "trigger_code": trigger_code,
        "handle_code": handle_code,
        "handle_msg": run.message,
        "handle_time": at_as_text(run.finished_at),
        "finished_at": run.finished_at,
        "started_at": run.started_at,
        "log_tail": run.log_tail,
    }


def _may_enter(entered: RunStatus) -> str:
    return _status_in(ENTERED_FROM[entered])


def _status_in(statuses: Iterable[RunStatus]) -> str:
    names = ", ".join(f"'{status.value}'" for status in sorted(statuses))
    return f"{TABLE}.status IN ({names})"


def _update_ids(session: Session, run_ids: Iterable[int], statement: Update) -> int:
    by_id = statement.with_hint(_BY_ID, dialect_name="mysql")
    return sum(_rowcount(session, by_id.where(Run.id.in_(chunk))) for chunk in chunks(run_ids))


def _rowcount(session: Session, statement: Update) -> int:
    result = session.execute(statement, execution_options={"synchronize_session": False})
    return cast("CursorResult[Any]", result).rowcount
