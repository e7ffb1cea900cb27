"""The next ticks of enabled jobs, read along the index of next ticks, at most MAX_JOBS jobs."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from warren.sql.dialects.supported import use_index
from warren.sql.instants import MINUTE_MS
from warren.sql.jobs.job_rows import ScheduledJob
from warren.sql.models import App, Job
from warren.sql.models.job_tables import BY_NEXT_TICK
from warren.sql.rows import fetch, query

MAX_JOBS = 5_000


@dataclass(frozen=True, slots=True)
class FirstDue:
    """The ids of the jobs that are due first; `seen_until_ms` as in `NextTicks`."""

    job_ids: Sequence[int]
    seen_until_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTicks:
    """The jobs that are due first, and the number of jobs due in each minute from now.

    `seen_until_ms`: jobs due later were not examined; None = all were.
    """

    first: list[ScheduledJob]
    per_minute: dict[int, int]
    seen_until_ms: int | None

    @property
    def total(self) -> int:
        """Return the number of jobs due, up to `seen_until_ms`."""
        return sum(self.per_minute.values())


def read(
    session: Session, app_ids: Collection[int] | None, *, from_ms: int, to_ms: int, limit: int
) -> NextTicks:
    """Return the jobs whose next tick is in [from, to]; the `limit` first ones with their names."""
    rows = session.execute(_due(from_ms, to_ms)).all()
    mine = [(job_id, at) for job_id, app_id, at in rows if app_ids is None or app_id in app_ids]
    return NextTicks(
        first=_named(session, [job_id for job_id, _ in mine[:limit]]),
        per_minute=Counter((at - from_ms) // MINUTE_MS for _, at in mine),
        seen_until_ms=rows[-1][2] if len(rows) == MAX_JOBS else None,
    )


def first_due(
    session: Session, app_ids: Collection[int] | None, *, from_ms: int, to_ms: int, limit: int
) -> FirstDue:
    """Return the first jobs whose next tick is in [from, to]."""
    due = _due(from_ms, to_ms).subquery()
    first = select(due.c.id).order_by(due.c.next_tick_at, due.c.id).limit(limit)
    if app_ids is not None:
        first = first.where(due.c.app_id.in_(app_ids))
    examined, last = session.execute(select(func.count(), func.max(due.c.next_tick_at))).one()
    return FirstDue(
        job_ids=session.execute(first).scalars().all(),
        seen_until_ms=last if examined == MAX_JOBS else None,
    )


def _due(from_ms: int, to_ms: int) -> Select[int, int, int]:
    due = (
        select(Job.id, Job.app_id, Job.next_tick_at)
        .where(
            Job.is_enabled == 1,
            Job.next_tick_at >= from_ms,
            Job.next_tick_at <= to_ms,
        )
        .order_by(Job.next_tick_at)
        .limit(MAX_JOBS)
    )
    return use_index(due, Job, BY_NEXT_TICK)


def _named(session: Session, job_ids: list[int]) -> list[ScheduledJob]:
    named = (
        query(ScheduledJob, Job, app=App.name)
        .join(App, App.id == Job.app_id)
        .where(Job.id.in_(job_ids))
        .order_by(Job.next_tick_at, Job.id)
    )
    return fetch(session, ScheduledJob, named) if job_ids else []
