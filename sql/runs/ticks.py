"""Whole ticks: every shard and attempt of one due time of one job."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from sqlalchemy import ColumnElement, and_, or_, select
from sqlalchemy.orm import Session

from sql.batch import chunks
from sql.models import Run
from sql.rows import fetch, query
from sql.run_status import OPEN, RunStatus
from sql.runs.run_rows import FailedRun, LockedRun, TickRun

#: Ticks asked for in one statement.
_AT_ONCE = 100
_FAILURES = (RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.UNDELIVERED, RunStatus.LOST)


class Tick(NamedTuple):
    """Which tick of which job, and what caused it: the key of its runs."""

    job_id: int
    scheduled_at: int
    origin_id: int


class HasTick(Protocol):
    """A row with the key of its tick."""

    @property
    def job_id(self) -> int: ...  # noqa: D102 - as of a tick
    @property
    def scheduled_at(self) -> int: ...  # noqa: D102
    @property
    def origin_id(self) -> int: ...  # noqa: D102


def tick_of(run: HasTick) -> Tick:
    """Return the tick that a run belongs to."""
    return Tick(run.job_id, run.scheduled_at, run.origin_id)


def heads(session: Session, ticks: Iterable[Tick]) -> list[int]:
    """Return the ids of the ticks' first runs: of shard 0, attempt 0."""
    return [
        run_id
        for part in chunks(sorted(set(ticks)), _AT_ONCE)
        for run_id in session.execute(
            select(Run.id).where(is_of(part), Run.shard_index == 0, Run.attempt == 0)
        ).scalars()
    ]


def attempts(session: Session, ticks: Iterable[Tick]) -> dict[Tick, list[TickRun]]:
    """Return every run of the ticks, by shard and attempt."""
    found: dict[Tick, list[TickRun]] = defaultdict(list)
    for part in chunks(sorted(set(ticks)), _AT_ONCE):
        statement = query(TickRun, Run).where(is_of(part)).order_by(Run.shard_index, Run.attempt)
        for run in fetch(session, TickRun, statement):
            found[tick_of(run)].append(run)
    return found


def failures_before(session: Session, runs: Iterable[LockedRun]) -> dict[int, FailedRun]:
    """Return, by the ids of these attempts, the last one before each that failed, if one did.

    It has used up a retry, unlike one that never started and was planned again.
    """
    retries = [run for run in runs if run.attempt]
    failed: dict[tuple[Tick, int], list[FailedRun]] = defaultdict(list)
    for part in chunks(sorted({tick_of(run) for run in retries}), _AT_ONCE):
        statement = query(FailedRun, Run).where(is_of(part), Run.status.in_(_FAILURES))
        for row in fetch(session, FailedRun, statement.order_by(Run.attempt)):
            failed[tick_of(row), row.shard_index].append(row)
    before = {run.id: _before(run, failed[tick_of(run), run.shard_index]) for run in retries}
    return {run_id: rows[-1] for run_id, rows in before.items() if rows}


def _before(run: LockedRun, failed: Iterable[FailedRun]) -> list[FailedRun]:
    left = run.retries_left
    return [row for row in failed if row.attempt < run.attempt and row.retries_left > left]


def open_ids(session: Session, job_id: int) -> list[int]:
    """Return the runs that a job's schedule caused and that are not over, read without locks."""
    return list(
        session.execute(
            select(Run.id).where(Run.status.in_(OPEN), Run.job_id == job_id, Run.origin_id == 0)
        ).scalars()
    )


def is_of(ticks: list[Tick]) -> ColumnElement[bool]:
    """Return the condition on runs of any of these ticks."""
    # Not a list of tuples, for which MariaDB reads the whole table.
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
