"""Clearing runs that are over: whole ticks, found along an index, deleted by primary key.

What is deleted is recorded in the same transaction: for the audit, up to which tick of a job rows
may be missing; for the day report, how many runs of each day are gone.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, and_, delete, insert, or_, select
from sqlalchemy.orm import Session

from sql import reports
from sql.batch import chunks, update_each
from sql.instants import at
from sql.models import Purge, Run
from sql.rows import AnyRow, Rows
from sql.run_status import FINAL
from sql.ticks import Tick, is_of

TABLE = Purge.__tablename__
_BY_TIME = "FORCE INDEX (i_trigger_time)"


class Place(NamedTuple):
    """Where a run stands in the order in which runs were due; `due` is naive UTC."""

    due: datetime
    run_id: int


START, END = Place(at(0), 0), Place(at(253_370_764_800_000), 0)


def nth_newest(session: Session, number: int, *, app_id: int | None = None) -> Place | None:
    """Return the place of the run that `number` - 1 others were due after; None without one."""
    statement = select(Run.trigger_time, Run.id).with_hint(Run, _BY_TIME, "mysql")
    if app_id is not None:
        statement = statement.where(Run.job_group == app_id)
    newest_first = statement.order_by(Run.trigger_time.desc(), Run.id.desc())
    found = session.execute(newest_first.offset(number - 1).limit(1)).one_or_none()
    return Place(found[0] or START.due, found[1]) if found else None


def nth_newest_tick(session: Session, number: int, *, job_id: int) -> int | None:
    """Return the tick of a job's run that `number` - 1 others come after; None without one."""
    ticks = select(Run.scheduled_at).where(Run.job_id == job_id).order_by(Run.scheduled_at.desc())
    found: int | None = session.execute(ticks.offset(number - 1).limit(1)).scalar_one_or_none()
    return found


def due_after(
    session: Session, after: Place, before: Place, *, limit: int, app_id: int | None = None
) -> Rows:
    """Return final runs between two places, in order: the columns of their tick and place."""
    statement = (
        select(Run.trigger_time, Run.id, Run.job_id, Run.scheduled_at, Run.origin_id)
        .with_hint(Run, _BY_TIME, "mysql")
        .where(Run.status.in_(FINAL), *_between(after, before))
        .order_by(Run.trigger_time, Run.id)
        .limit(limit)
    )
    if app_id is not None:
        statement = statement.where(Run.job_group == app_id)
    return session.execute(statement).all()


def ticks_after(session: Session, after: Tick, *, before_ms: int, limit: int) -> list[Tick]:
    """Return ticks of a job after one of them, in order, up to `before_ms` and without it."""
    is_later = or_(
        Run.scheduled_at > after.scheduled_at,
        and_(Run.scheduled_at == after.scheduled_at, Run.origin_id > after.origin_id),
    )
    rows = session.execute(
        select(Run.job_id, Run.scheduled_at, Run.origin_id)
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
    return [Tick(*row) for row in rows]


def of_ticks(session: Session, ticks: Iterable[Tick]) -> dict[Tick, list[AnyRow]]:
    """Return the runs of ticks, each tick's first run before the others."""
    found: dict[Tick, list[AnyRow]] = defaultdict(list)
    for part in chunks(sorted(set(ticks)), 100):
        statement = select(
            Run.id, Run.job_id, Run.scheduled_at, Run.origin_id, Run.trigger_time, Run.status
        )
        ordered = statement.where(is_of(part)).order_by(Run.shard_index, Run.attempt)
        for run in session.execute(ordered):
            found[Tick(run.job_id, run.scheduled_at, run.origin_id)].append(run)
    return found


def clear(
    session: Session,
    run_ids: Sequence[int],
    *,
    by: str,
    now_ms: int,
    day_of: Callable[[datetime], date],
) -> int:
    """Delete those of the runs that are there and over, and record it; return how many."""
    gone = [row for chunk in chunks(run_ids) for row in _lock_final(session, chunk)]
    if not gone:
        return 0
    for chunk in chunks(row.id for row in gone):
        session.execute(
            delete(Run).where(Run.id.in_(chunk)),
            execution_options={"synchronize_session": False},
        )
    _record(session, gone, by=by[:64], now_ms=now_ms)
    reports.note_cleared(session, _by_day(gone, day_of))
    return len(gone)


def _lock_final(session: Session, run_ids: Sequence[int]) -> Rows:
    # Locked, so that what two people clear at the same time is recorded once.
    return session.execute(
        select(Run.id, Run.job_id, Run.scheduled_at, Run.trigger_time, Run.status)
        .with_hint(Run, "FORCE INDEX (PRIMARY)", "mysql")
        .where(Run.id.in_(run_ids), Run.status.in_(FINAL))
        .order_by(Run.id)
        .with_for_update()
    ).all()


def _record(session: Session, gone: Rows, *, by: str, now_ms: int) -> None:
    """Keep one row for each job and who cleared: how far, and how many in all."""
    counts = Counter(row.job_id for row in gone)
    last = dict.fromkeys(counts, 0)
    for row in gone:
        last[row.job_id] = max(last[row.job_id], row.scheduled_at)
    known = {row.job_id: row for row in _recorded(session, list(counts), by)}
    changed = [
        {
            "id": row.id,
            "to_at": max(row.to_at, last[job_id]),
            "count": row.runs + counts[job_id],
            "purged_at": now_ms,
        }
        for job_id, row in sorted(known.items())
    ]
    if changed:
        update_each(session, TABLE, changed, guard="1 = 1")
    new = [
        {
            "job_id": job_id,
            "to_at": last[job_id],
            "count": counts[job_id],
            "purged_at": now_ms,
            "purged_by": by,
        }
        for job_id in sorted(counts.keys() - known.keys())
    ]
    if new:
        session.execute(insert(Purge), new)


def _recorded(session: Session, job_ids: Sequence[int], by: str) -> Rows:
    return [
        row
        for chunk in chunks(sorted(job_ids))
        for row in session.execute(
            select(Purge.id, Purge.job_id, Purge.to_at, Purge.count.label("runs"))
            .where(Purge.job_id.in_(chunk), Purge.purged_by == by)
            .order_by(Purge.id)
            .with_for_update()
        )
    ]


def _by_day(gone: Rows, day_of: Callable[[datetime], date]) -> dict[date, reports.Counts]:
    days: dict[date, Counter[str]] = defaultdict(Counter)
    for row in gone:
        if row.trigger_time is not None:
            days[day_of(row.trigger_time)][row.status] += 1
    return {day: reports.of_statuses(statuses) for day, statuses in days.items()}


def _between(after: Place, before: Place) -> tuple[ColumnElement[bool], ...]:
    return (
        Run.trigger_time >= after.due,
        Run.trigger_time <= before.due,
        or_(Run.trigger_time > after.due, Run.id > after.run_id),
        or_(Run.trigger_time < before.due, Run.id < before.run_id),
    )
