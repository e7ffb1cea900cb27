"""Whole ticks, with all shards and attempts of one due time of a job, and the shards of broadcasts.

Shards 1 to n-1 are inserted ROUTED, in the transaction of shard 0.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from sqlalchemy import ColumnElement, and_, insert, inspect, or_, select
from sqlalchemy.orm import Session

from warren.sql.batch import ALREADY_LOCKED, chunks, update_each
from warren.sql.explanation import Explanation
from warren.sql.models import Run
from warren.sql.rows import fetch, query
from warren.sql.run_status import ENTERED, FAILURES, OPEN, RunStatus
from warren.sql.runs.run_rows import FailedRun, LockedRun, TickRun

_COLUMNS = tuple(column_attr.class_attribute for column_attr in inspect(Run).column_attrs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Shard `index` of the broadcast whose shard 0 is the run `zero_id`, and its executor."""

    zero_id: int
    run_id: int
    index: int
    total: int
    address: str
    boot_id: str
    message: Explanation
    code_version: str | None = None
    holds: int | None = None


def number(session: Session, totals: Mapping[int, int]) -> None:
    """Make each claimed run shard 0 of its total; none must have been expanded before."""
    rows = [
        {"id": run_id, "shard_total": total, "sharding": f"0/{total}"}
        for run_id, total in totals.items()
    ]
    update_each(session, Run, rows, guard=ALREADY_LOCKED)


def add(session: Session, shards: Sequence[Shard], *, node: str, now_ms: int) -> None:
    """Insert shards as copies of their shard 0, ROUTED by `node`.

    Raises:
        IntegrityError: a shard already exists, which never happens after a claim.

    """
    zeros = _rows(session, {shard.zero_id for shard in shards})
    rows = [_row(zeros[shard.zero_id], shard, node, now_ms) for shard in shards]
    if rows:
        session.execute(insert(Run), rows)


def _rows(session: Session, run_ids: set[int]) -> dict[int, dict[str, Any]]:
    return {
        row.id: dict(row._mapping)  # noqa: SLF001 - public; the underscore avoids clashes with column names
        for chunk in chunks(sorted(run_ids))
        for row in session.execute(select(*_COLUMNS).where(Run.id.in_(chunk)))
    }


def _row(zero: dict[str, Any], shard: Shard, node: str, now_ms: int) -> dict[str, Any]:
    return zero | {
        "id": shard.run_id,
        **ENTERED[RunStatus.ROUTED],
        "shard_index": shard.index,
        "shard_total": shard.total,
        "sharding": f"{shard.index}/{shard.total}",
        "address": shard.address,
        "boot_id": shard.boot_id,
        "code_version": shard.code_version,
        "holds": shard.holds,
        "routed_by": node,
        "routed_at": now_ms,
        "trigger_message": shard.message.text,
        "trigger_why": shard.message.why,
    }


#: The most ticks in one statement.
_CHUNK = 100


class Tick(NamedTuple):
    """The key that a tick's runs share; `origin_id` is the run that caused it, 0 = the schedule."""

    job_id: int
    scheduled_at: int
    origin_id: int


class HasTick(Protocol):
    """A row that has the key of its tick."""

    @property
    def job_id(self) -> int: ...
    @property
    def scheduled_at(self) -> int: ...
    @property
    def origin_id(self) -> int: ...


def tick_of(run: HasTick) -> Tick:
    return Tick(run.job_id, run.scheduled_at, run.origin_id)


def parts(ticks: Iterable[Tick]) -> Iterator[list[Tick]]:
    """Yield each of the ticks once, as many at a time as one statement takes."""
    return chunks(sorted(set(ticks)), _CHUNK)


def first_run_ids(session: Session, ticks: Iterable[Tick], *, own: bool = False) -> list[int]:
    """Return the ids of the first runs (shard 0, attempt 0) of ticks and, unless `own`, of re-runs.

    Flows that are due together may share jobs, so their nodes ask for their own runs alone.
    """
    wanted = in_ticks if own else _is_due_with
    return [
        run_id
        for part in parts(ticks)
        for run_id in session.execute(
            select(Run.id).where(wanted(part), Run.shard_index == 0, Run.attempt == 0)
        ).scalars()
    ]


def attempts(
    session: Session, ticks: Iterable[Tick], reruns: Collection[Tick] = ()
) -> dict[Tick, list[TickRun]]:
    """Return all runs of each tick by shard, origin and attempt, so that a shard's newest is last.

    A tick includes the re-runs of its due time; one that is in `reruns`, all runs of its due time.
    """
    by_tick: dict[Tick, list[TickRun]] = {}
    for part in parts(ticks):
        by_time: dict[tuple[int, int], list[TickRun]] = defaultdict(list)
        for run in fetch(session, TickRun, _IN_ORDER.where(_is_due_with(part))):
            by_time[run.job_id, run.scheduled_at].append(run)
        for tick in part:
            runs = by_time[tick.job_id, tick.scheduled_at]
            by_tick[tick] = runs if tick in reruns else own_runs(tick, runs)
    return {tick: runs for tick, runs in by_tick.items() if runs}


def own_attempts(session: Session, ticks: Iterable[Tick]) -> dict[Tick, list[TickRun]]:
    """Return the runs of each tick by shard and attempt, without re-runs."""
    by_tick: dict[Tick, list[TickRun]] = defaultdict(list)
    for part in parts(ticks):
        for run in fetch(session, TickRun, _IN_ORDER.where(in_ticks(part))):
            by_tick[tick_of(run)].append(run)
    return dict(by_tick)


_IN_ORDER = query(TickRun, Run).order_by(Run.shard_index, Run.origin_id, Run.attempt)


def own_runs(tick: Tick, runs: Iterable[TickRun]) -> list[TickRun]:
    """Return the runs of a due time that belong to a tick: its own, and re-runs."""
    return [run for run in runs if run.origin_id == tick.origin_id or run.rerun_of is not None]


def failures_before(session: Session, runs: Iterable[LockedRun]) -> dict[int, FailedRun]:
    """Return the last failed attempt before each of these attempts, by their ids.

    Only attempts that used up a retry count, not those that never started and were planned again.
    """
    retries = [run for run in runs if run.attempt]
    failed: dict[tuple[Tick, int], list[FailedRun]] = defaultdict(list)
    for part in parts(map(tick_of, retries)):
        statement = query(FailedRun, Run).where(in_ticks(part), Run.status.in_(FAILURES))
        for row in fetch(session, FailedRun, statement.order_by(Run.attempt)):
            failed[tick_of(row), row.shard_index].append(row)
    before = {run.id: _before(run, failed[tick_of(run), run.shard_index]) for run in retries}
    return {run_id: rows[-1] for run_id, rows in before.items() if rows}


def _before(run: LockedRun, failed: Iterable[FailedRun]) -> list[FailedRun]:
    left = run.retries_left
    return [row for row in failed if row.attempt < run.attempt and row.retries_left > left]


def open_ids(session: Session, job_id: int) -> list[int]:
    """Return the ids of the open runs of a job's schedule, without locks."""
    return list(
        session.execute(
            select(Run.id).where(Run.status.in_(OPEN), Run.job_id == job_id, Run.origin_id == 0)
        ).scalars()
    )


def jobs_with_open_runs(session: Session, job_ids: Iterable[int]) -> set[int]:
    """Return which of the jobs have an open run caused by their schedule, without locks."""
    caused = select(Run.job_id).where(Run.status.in_(OPEN), Run.origin_id == 0)
    return {
        job_id
        for chunk in chunks(sorted(job_ids))
        for job_id in session.execute(caused.where(Run.job_id.in_(chunk))).scalars()
    }


def in_ticks(ticks: list[Tick]) -> ColumnElement[bool]:
    """Return the condition on runs of these ticks."""
    # Not `IN` with tuples: MariaDB would read the whole table.
    return or_(
        *(
            and_(
                Run.job_id == tick.job_id,
                Run.scheduled_at == tick.scheduled_at,
                Run.origin_id == tick.origin_id,
            )
            for tick in ticks
        )
    )


def _is_due_with(ticks: list[Tick]) -> ColumnElement[bool]:
    """Return the condition on runs of any origin whose due time is that of one of these ticks."""
    times = sorted({(tick.job_id, tick.scheduled_at) for tick in ticks})
    return or_(*(and_(Run.job_id == job_id, Run.scheduled_at == time) for job_id, time in times))
