"""Deletes the runs of finished ticks: found along an index, deleted by primary key.

The transaction that deletes also records, for the audit, up to which tick rows of a job may be
missing, for the day report, how many runs of each day were deleted, and which of their logs are to
be deleted from the log store.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, and_, delete, insert, or_, select
from sqlalchemy.orm import Session

from warren.sql import unfolded
from warren.sql.batch import ALREADY_LOCKED, chunks, modify, update_each
from warren.sql.dialects.supported import PRIMARY_KEY, use_index
from warren.sql.instants import at, epoch_ms
from warren.sql.models import Call, FlowNode, Purge, Run
from warren.sql.models.run_tables import BY_DUE_SECOND
from warren.sql.rows import fetch, query
from warren.sql.run_status import FINAL
from warren.sql.runs import day_reports, stored_logs
from warren.sql.runs.ticks import Tick, in_ticks, parts, tick_of
from warren.sql.unfolded import Change, Outcomes, RunEnd


class DuePosition(NamedTuple):
    """A run's position in the order of due times and ids; `due` is naive UTC."""

    due: datetime
    run_id: int


class PurgeCandidate(NamedTuple):
    """A run that may be deleted, with its tick and its position in the order of due times."""

    id: int
    app_id: int
    job_id: int
    scheduled_at: int
    origin_id: int
    due_second: datetime | None
    status: str

    @property
    def position(self) -> DuePosition:
        """Return its position; a run without a trigger time comes first."""
        return DuePosition(self.due_second or START.due, self.id)


START, END = DuePosition(at(0), 0), DuePosition(at(253_370_764_800_000), 0)


def nth_newest_run(
    session: Session, number: int, *, now_ms: int, app_id: int | None = None
) -> DuePosition | None:
    """Return the position of the nth newest run that is due by now; None if there are fewer."""
    statement = use_index(select(Run.due_second, Run.id), Run, BY_DUE_SECOND)
    statement = statement.where(Run.due_second <= at(now_ms))
    if app_id is not None:
        statement = statement.where(Run.app_id == app_id)
    newest_first = statement.order_by(Run.due_second.desc(), Run.id.desc())
    row = session.execute(newest_first.offset(number - 1).limit(1)).one_or_none()
    return DuePosition(row[0] or START.due, row[1]) if row else None


def nth_newest_tick(session: Session, number: int, *, job_id: int, now_ms: int) -> int | None:
    """Return the tick of a job's nth newest run by now, in epoch ms; None if there are fewer."""
    ticks = (
        select(Run.scheduled_at)
        .where(Run.job_id == job_id, Run.scheduled_at <= now_ms)
        .order_by(Run.scheduled_at.desc())
    )
    due_at: int | None = session.execute(ticks.offset(number - 1).limit(1)).scalar_one_or_none()
    return due_at


def due_after(
    session: Session,
    after: DuePosition,
    before: DuePosition,
    *,
    limit: int,
    app_id: int | None = None,
) -> list[PurgeCandidate]:
    """Return final runs between two positions, both excluded, in order."""
    statement = (
        use_index(query(PurgeCandidate, Run), Run, BY_DUE_SECOND)
        .where(Run.status.in_(FINAL), *_between(after, before))
        .order_by(Run.due_second, Run.id)
        .limit(limit)
    )
    if app_id is not None:
        statement = statement.where(Run.app_id == app_id)
    return fetch(session, PurgeCandidate, statement)


def ticks_after(session: Session, after: Tick, *, before_ms: int, limit: int) -> list[Tick]:
    """Return the job's ticks after `after` and before `before_ms`, in order."""
    is_later = or_(
        Run.scheduled_at > after.scheduled_at,
        and_(Run.scheduled_at == after.scheduled_at, Run.origin_id > after.origin_id),
    )
    ticks = (
        query(Tick, Run)
        .where(
            Run.job_id == after.job_id,
            Run.scheduled_at >= after.scheduled_at,
            Run.scheduled_at < before_ms,
            is_later,
        )
        .group_by(Run.job_id, Run.scheduled_at, Run.origin_id)
        .order_by(Run.scheduled_at, Run.origin_id)
        .limit(limit)
    )
    return fetch(session, Tick, ticks)


def runs_of_ticks(session: Session, ticks: Iterable[Tick]) -> dict[Tick, list[PurgeCandidate]]:
    """Return the runs of each tick, its first run before the others."""
    by_tick: dict[Tick, list[PurgeCandidate]] = defaultdict(list)
    ordered = query(PurgeCandidate, Run).order_by(Run.shard_index, Run.attempt)
    for part in parts(ticks):
        for run in fetch(session, PurgeCandidate, ordered.where(in_ticks(part))):
            by_tick[tick_of(run)].append(run)
    return by_tick


def clear(
    session: Session,
    run_ids: Sequence[int],
    *,
    by: str,
    now_ms: int,
    day_of: Callable[[datetime], date],
) -> int:
    """Delete the runs that are final, and record it; return how many were deleted."""
    deleted = [row for chunk in chunks(run_ids) for row in _lock_final(session, chunk)]
    if not deleted:
        return 0
    for chunk in chunks(row.id for row in deleted):
        modify(session, delete(Run).where(Run.id.in_(chunk)))
        modify(session, delete(Call).where(Call.called_by.in_(chunk)))
        modify(session, delete(FlowNode).where(FlowNode.flow_run_id.in_(chunk)))
        stored_logs.give_up(session, chunk, now_ms)
    _record(session, deleted, by=by, now_ms=now_ms)
    _tell_board(session, deleted)
    day_reports.note_cleared(session, _by_day(deleted, day_of))
    return len(deleted)


def _tell_board(session: Session, deleted: Sequence[PurgeCandidate]) -> None:
    """Have the board forget what was deleted."""
    runs = [
        RunEnd(row.id, row.app_id, epoch_ms(row.due_second), row.status)
        for row in deleted
        if row.due_second is not None
    ]
    none = Outcomes()
    counts = {key: none.plus(number, -1) for key, number in unfolded.counted(runs).items()}
    jobs = sorted({row.job_id for row in deleted})
    unfolded.note(session, Change(jobs=jobs, counts=counts))


def _lock_final(session: Session, run_ids: Sequence[int]) -> list[PurgeCandidate]:
    final = (
        use_index(query(PurgeCandidate, Run), Run, PRIMARY_KEY)
        .where(Run.id.in_(run_ids), Run.status.in_(FINAL))
        .order_by(Run.id)
    )
    # Locked, so that two people who clear at the same time record each run once.
    return fetch(session, PurgeCandidate, final.with_for_update())


def _record(session: Session, deleted: Sequence[PurgeCandidate], *, by: str, now_ms: int) -> None:
    """Update the one row for each job and user: the last deleted tick, and how many in all."""
    counts = Counter(row.job_id for row in deleted)
    last = dict.fromkeys(counts, 0)
    for row in deleted:
        last[row.job_id] = max(last[row.job_id], row.scheduled_at)
    records = _recorded(session, list(counts), by)
    changed = [
        {
            "id": record_id,
            "to_at": max(to_at, last[job_id]),
            "count": runs + counts[job_id],
            "purged_at": now_ms,
        }
        for job_id, (record_id, to_at, runs) in sorted(records.items())
    ]
    if changed:
        update_each(session, Purge, changed, guard=ALREADY_LOCKED)
    new = [
        {
            "job_id": job_id,
            "to_at": last[job_id],
            "count": counts[job_id],
            "purged_at": now_ms,
            "purged_by": by,
        }
        for job_id in sorted(counts.keys() - records.keys())
    ]
    if new:
        session.execute(insert(Purge), new)


def _recorded(session: Session, job_ids: Sequence[int], by: str) -> dict[int, tuple[int, int, int]]:
    """Lock a user's records of jobs; return, by job, the id, last tick and number of runs."""
    records = select(Purge.job_id, Purge.id, Purge.to_at, Purge.count).where(Purge.purged_by == by)
    locked = records.order_by(Purge.id).with_for_update()
    return {
        job_id: (record_id, to_at, runs)
        for chunk in chunks(sorted(job_ids))
        for job_id, record_id, to_at, runs in session.execute(locked.where(Purge.job_id.in_(chunk)))
    }


def _by_day(
    deleted: Iterable[PurgeCandidate], day_of: Callable[[datetime], date]
) -> dict[date, day_reports.ByApp]:
    days: dict[date, list[tuple[int, str, int]]] = defaultdict(list)
    for row in deleted:
        if row.due_second is not None:
            days[day_of(row.due_second)].append((row.app_id, row.status, 1))
    return {day: day_reports.of_apps(runs) for day, runs in days.items()}


def _between(after: DuePosition, before: DuePosition) -> tuple[ColumnElement[bool], ...]:
    return (
        Run.due_second >= after.due,
        Run.due_second <= before.due,
        or_(Run.due_second > after.due, Run.id > after.run_id),
        or_(Run.due_second < before.due, Run.id < before.run_id),
    )
