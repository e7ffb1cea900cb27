"""Records of skipped due times, as people read them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, ScalarSelect, and_, func, or_, select, union_all
from sqlalchemy.orm import Session

from warren.sql.models import App, Job, Run, SkippedTicks
from warren.sql.rows import Query, fetch, query
from warren.sql.run_status import RunStatus


class SkipLine(NamedTuple):
    """Skipped due times of a job: `number` of them from `from_at` to `to_at`, and why.

    Backfills have made good `made_good` of them since, the last by run `made_good_by`.
    """

    id: int
    job_id: int
    job: str | None
    app: str | None
    timezone: str | None
    from_at: int
    to_at: int
    number: int
    reason: str
    why: str | None
    recorded_at: int
    made_good: int = 0
    made_good_by: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipFilter:
    """Which skips to list: None = all. `since_ms` and `until_ms` are due times.

    `before` is where an earlier page ended: the last due time and the id of its last skip.
    """

    app_ids: Collection[int] | None = None
    job_ids: Collection[int] | None = None
    job_id: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    before: tuple[int, int] | None = None
    limit: int = 50


def lines(session: Session, wanted: SkipFilter) -> list[SkipLine]:
    """Return skips, the latest due time first; of a deleted job, `job` and `app` are None."""
    statement = (
        _query().order_by(SkippedTicks.to_at.desc(), SkippedTicks.id.desc()).limit(wanted.limit)
    )
    if wanted.app_ids is not None:
        statement = statement.where(Job.app_id.in_(wanted.app_ids))
    if wanted.job_ids is not None:
        statement = statement.where(SkippedTicks.job_id.in_(wanted.job_ids))
    if wanted.job_id is not None:
        statement = statement.where(SkippedTicks.job_id == wanted.job_id)
    if wanted.since_ms is not None:
        statement = statement.where(SkippedTicks.to_at >= wanted.since_ms)
    if wanted.until_ms is not None:
        statement = statement.where(SkippedTicks.from_at < wanted.until_ms)
    if wanted.before is not None:
        last_at, last_id = wanted.before
        is_same = and_(SkippedTicks.to_at == last_at, SkippedTicks.id < last_id)
        statement = statement.where(or_(SkippedTicks.to_at < last_at, is_same))
    return fetch(session, SkipLine, statement)


def of_jobs(
    session: Session, job_ids: Sequence[int], *, from_ms: int, until_ms: int, limit: int
) -> list[SkipLine]:
    """Return the latest skips of a few jobs in a span of due times, up to `limit` of each job."""
    if not job_ids:
        return []
    by_job = [
        _query()
        .where(SkippedTicks.job_id == job_id, SkippedTicks.from_at < until_ms)
        .where(SkippedTicks.to_at >= from_ms)
        .order_by(SkippedTicks.from_at.desc())
        .limit(limit)
        .subquery()
        for job_id in job_ids
    ]
    return fetch(session, SkipLine, union_all(*(select(skips) for skips in by_job)))  # type: ignore[arg-type]


def spans_of(session: Session, job_id: int, skip_ids: Collection[int]) -> list[tuple[int, int]]:
    """Return the first and last due time of each of these records that is of this job."""
    columns = select(SkippedTicks.from_at, SkippedTicks.to_at)
    wanted = columns.where(SkippedTicks.id.in_(sorted(skip_ids)), SkippedTicks.job_id == job_id)
    return [(first, last) for first, last in session.execute(wanted)]


def _made_good(column: ColumnElement[int]) -> ScalarSelect[int]:
    """Return a value of the runs of backfills that have succeeded for skipped due times."""
    good = select(column).where(
        Run.job_id == SkippedTicks.job_id,
        Run.scheduled_at.between(SkippedTicks.from_at, SkippedTicks.to_at),
        Run.backfill_id.is_not(None),
        Run.status == RunStatus.SUCCEEDED,
    )
    return good.correlate(SkippedTicks).scalar_subquery()


def _query() -> Query:
    named: dict[str, Any] = {"job": Job.name, "app": App.name, "timezone": Job.timezone}
    named |= {"made_good": _made_good(func.count(Run.scheduled_at.distinct()))}
    named |= {"made_good_by": _made_good(func.max(Run.id))}
    skips = query(SkipLine, SkippedTicks, number=SkippedTicks.count, **named)
    return skips.outerjoin(Job, Job.id == SkippedTicks.job_id).outerjoin(App, App.id == Job.app_id)
