"""Whole ticks: every shard and attempt of one due time of one job."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import ColumnElement, and_, or_, select
from sqlalchemy.orm import Session

from sql.batch import chunks
from sql.models import Run
from sql.rows import AnyRow
from sql.run_columns import TICK_COLUMNS
from sql.run_status import OPEN

#: Ticks asked for in one statement.
_AT_ONCE = 100


class Tick(NamedTuple):
    """Which tick of which job, and what caused it: the key of its runs."""

    job_id: int
    scheduled_at: int
    origin_id: int


def tick_of(run: AnyRow) -> Tick:
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


def attempts(session: Session, ticks: Iterable[Tick]) -> dict[Tick, list[AnyRow]]:
    """Return every run of the ticks, by shard and attempt."""
    found: dict[Tick, list[AnyRow]] = defaultdict(list)
    for part in chunks(sorted(set(ticks)), _AT_ONCE):
        statement = select(*TICK_COLUMNS).where(is_of(part)).order_by(Run.shard_index, Run.attempt)
        for run in session.execute(statement):
            found[tick_of(run)].append(run)
    return found


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
