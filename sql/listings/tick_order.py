"""The runs of a few jobs in the order of their ticks, newest first, along the index of ticks."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, and_, or_, select, union_all
from sqlalchemy.orm import Session

from warren.sql.dialects.supported import use_index
from warren.sql.listings.newest_runs import Place, ScannedRun
from warren.sql.models import Run
from warren.sql.models.runs import BY_TICK
from warren.sql.rows import Query, query

#: A job's runs are read by tick, but may be due long after it: late retries and misfires, children
#: of long runs. So this many runs with ticks before the earliest due time are looked at too.
MAX_EARLIER_RUNS = 5_000

_TICK = (Run.scheduled_at, Run.origin_id, Run.shard_index, Run.attempt)
_NEWEST_FIRST = tuple(column.desc() for column in _TICK)


class TickOrder:
    """Queries of jobs' runs by tick, between two due times, or of one tick.

    The constructor looks up where each job's query begins.
    """

    def __init__(
        self,
        session: Session,
        job_ids: Sequence[int],
        *,
        since_ms: int | None,
        until_ms: int | None,
        tick_at: int | None = None,
    ) -> None:
        self._tick_at = tick_at
        self._since_ms = since_ms
        self._until_ms = until_ms
        self._first_ticks = {} if since_ms is None else _first_ticks(session, job_ids, since_ms)

    def of(self, job_id: int, before: Place | None = None) -> Query:
        """Return a query of a job's runs with their ticks, from a position in all jobs' runs on."""
        statement = (
            use_index(query(ScannedRun, Run).add_columns(*_TICK), Run, BY_TICK)
            .where(Run.job_id == job_id, *_before(before, job_id))
            .order_by(*_NEWEST_FIRST)
        )
        if self._tick_at is not None:
            statement = statement.where(Run.scheduled_at == self._tick_at)
        if self._since_ms is not None:
            first_tick = self._first_ticks.get(job_id, 0)
            statement = statement.where(
                Run.scheduled_at >= first_tick, Run.due_at >= self._since_ms
            )
        if self._until_ms is not None:
            statement = statement.where(Run.scheduled_at < self._until_ms)
        return statement


def _first_ticks(session: Session, job_ids: Sequence[int], since_ms: int) -> dict[int, int]:
    """Return, for each job, the first tick whose runs are looked at."""
    earlier = (
        use_index(select(Run.job_id, Run.scheduled_at), Run, BY_TICK)
        .where(Run.scheduled_at < since_ms)
        .order_by(*_NEWEST_FIRST)
        .offset(MAX_EARLIER_RUNS)
        .limit(1)
    )
    firsts = (select(earlier.where(Run.job_id == job_id).subquery()) for job_id in job_ids)
    return dict(session.execute(union_all(*firsts)).all())


def _before(place: Place | None, job_id: int) -> list[ColumnElement[bool]]:
    """Return the conditions on a job's runs before a position, which is a tick and then a job.

    There are none for a position of another order.
    """
    if place is None or len(place) != len(_TICK) + 1:
        return []
    *tick, last_job = place
    same = [column == value for column, value in zip(_TICK, tick, strict=True)]
    earlier = [
        and_(*same[:number], column < value)
        for number, (column, value) in enumerate(zip(_TICK, tick, strict=True))
    ]
    if job_id < last_job:
        earlier.append(and_(*same))
    # Only the first condition can be the start of an index range.
    return [Run.scheduled_at <= tick[0], or_(*earlier)]
