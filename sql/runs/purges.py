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

from sql.batch import Guard, chunks, update_each
from sql.dialects.hints import PRIMARY_KEY, use_index
from sql.instants import at
from sql.models import Purge, Run
from sql.rows import fetch, query
from sql.run_status import FINAL
from sql.runs import day_reports
from sql.runs.ticks import Tick, is_of, tick_of

_BY_TIME = "i_trigger_time"


class DuePosition(NamedTuple):
    """A run's position in the order of due times; `due` is naive UTC."""

    due: datetime
    run_id: int


class PlacedRun(NamedTuple):
    """A run by its tick and place."""

    id: int
    app_id: int
    job_id: int
    scheduled_at: int
    origin_id: int
    trigger_time: datetime | None
    status: str

    @property
    def place(self) -> DuePosition:
        """Return its position."""
        return DuePosition(self.trigger_time or START.due, self.id)


class _Record(NamedTuple):
    """How far runs of a job were cleared by somebody, and how many in all."""

    id: int
    job_id: int
    to_at: int
    runs: int


START, END = DuePosition(at(0), 0), DuePosition(at(253_370_764_800_000), 0)


def nth_newest(session: Session, number: int, *, app_id: int | None = None) -> DuePosition | None:
    """Return the place of the run that `number` - 1 others were due after; None without one."""
    statement = use_index(select(Run.trigger_time, Run.id), Run, _BY_TIME)
    if app_id is not None:
        statement = statement.where(Run.app_id == app_id)
    newest_first = statement.order_by(Run.trigger_time.desc(), Run.id.desc())
    found = session.execute(newest_first.offset(number - 1).limit(1)).one_or_none()
    return DuePosition(found[0] or START.due, found[1]) if found else None


def nth_newest_tick(session: Session, number: int, *, job_id: int) -> int | None:
    """Return the tick of a job's run that `number` - 1 others come after; None without one."""
    ticks = select(Run.scheduled_at).where(Run.job_id == job_id).order_by(Run.scheduled_at.desc())
    found: int | None = session.execute(ticks.offset(number - 1).limit(1)).scalar_one_or_none()
    return found


def due_after(
    session: Session,
    after: DuePosition,
    before: DuePosition,
    *,
    limit: int,
    app_id: int | None = None,
) -> list[PlacedRun]:
    """Return final runs between two places, in order."""
    statement = (
        use_index(query(PlacedRun, Run), Run, _BY_TIME)
        .where(Run.status.in_(FINAL), *_between(after, before))
        .order_by(Run.trigger_time, Run.id)
        .limit(limit)
    )
    if app_id is not None:
        statement = statement.where(Run.app_id == app_id)
    return fetch(session, PlacedRun, statement)


def ticks_after(session: Session, after: Tick, *, before_ms: int, limit: int) -> list[Tick]:
    """Return ticks of a job after one of them, in order, up to `before_ms` and without it."""
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


def of_ticks(session: Session, ticks: Iterable[Tick]) -> dict[Tick, list[PlacedRun]]:
    """Return the runs of ticks, each tick's first run before the others."""
    found: dict[Tick, list[PlacedRun]] = defaultdict(list)
    ordered = query(PlacedRun, Run).order_by(Run.shard_index, Run.attempt)
    for part in chunks(sorted(set(ticks)), 100):
        for run in fetch(session, PlacedRun, ordered.where(is_of(part))):
            found[tick_of(run)].append(run)
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
    day_reports.note_cleared(session, _by_day(gone, day_of))
    return len(gone)


def _lock_final(session: Session, run_ids: Sequence[int]) -> list[PlacedRun]:
    final = (
        use_index(query(PlacedRun, Run), Run, PRIMARY_KEY)
        .where(Run.id.in_(run_ids), Run.status.in_(FINAL))
        .order_by(Run.id)
    )
    # Locked, so that what two people clear at the same time is recorded once.
    return fetch(session, PlacedRun, final.with_for_update())


def _record(session: Session, gone: Sequence[PlacedRun], *, by: str, now_ms: int) -> None:
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
        update_each(session, Purge, changed, guard=Guard("1 = 1"))
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


def _recorded(session: Session, job_ids: Sequence[int], by: str) -> list[_Record]:
    records = query(_Record, Purge, runs=Purge.count).where(Purge.purged_by == by)
    locked = records.order_by(Purge.id).with_for_update()
    return [
        row
        for chunk in chunks(sorted(job_ids))
        for row in fetch(session, _Record, locked.where(Purge.job_id.in_(chunk)))
    ]


def _by_day(
    gone: Iterable[PlacedRun], day_of: Callable[[datetime], date]
) -> dict[date, day_reports.ByApp]:
    days: dict[date, list[tuple[int, str, int]]] = defaultdict(list)
    for row in gone:
        if row.trigger_time is not None:
            days[day_of(row.trigger_time)].append((row.app_id, row.status, 1))
    return {day: day_reports.of_apps(runs) for day, runs in days.items()}


def _between(after: DuePosition, before: DuePosition) -> tuple[ColumnElement[bool], ...]:
    return (
        Run.trigger_time >= after.due,
        Run.trigger_time <= before.due,
        or_(Run.trigger_time > after.due, Run.id > after.run_id),
        or_(Run.trigger_time < before.due, Run.id < before.run_id),
    )
