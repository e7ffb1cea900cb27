"""The load of executors from their heartbeats, one row per minute and executor."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from warren.sql.batch import insert_or_ignore, modify
from warren.sql.models import ExecutorLoad
from warren.sql.rows import fetch, query

#: Rows deleted by one statement.
CHUNK = 5_000


class LoadPoint(NamedTuple):
    """The last load reported within a minute; `executor_id` is the id of a registration."""

    executor_id: int
    minute_at: int
    slots: int
    running: int
    waiting: int
    cpu_percent: int
    memory_percent: int


def keep(session: Session, points: Iterable[LoadPoint]) -> None:
    """Store points, except those whose minute another scheduler has already stored."""
    rows = [point._asdict() for point in points]
    if rows:
        insert_or_ignore(session, ExecutorLoad, rows, key="executor_id")


def since(session: Session, executor_ids: Collection[int], since_ms: int) -> list[LoadPoint]:
    """Return the points of executors since an instant, sorted by executor and time."""
    if not executor_ids:
        return []
    wanted = (
        query(LoadPoint, ExecutorLoad)
        .where(ExecutorLoad.executor_id.in_(list(executor_ids)), ExecutorLoad.minute_at >= since_ms)
        .order_by(ExecutorLoad.executor_id, ExecutorLoad.minute_at)
    )
    return fetch(session, LoadPoint, wanted)


def forget(session: Session, *, before_ms: int) -> bool:
    """Delete a chunk of the points before an instant; return False if there was none."""
    oldest = (
        select(ExecutorLoad.minute_at)
        .where(ExecutorLoad.minute_at < before_ms)
        .order_by(ExecutorLoad.minute_at)
    )
    # Find the last minute of the chunk first, because MySQL allows no LIMIT inside IN.
    minutes = session.execute(oldest.limit(CHUNK)).scalars().all()
    if not minutes:
        return False
    chunk = delete(ExecutorLoad).where(ExecutorLoad.minute_at <= minutes[-1])
    return modify(session, chunk) > 0
