"""Backfills: which have work, rows to lock, the runs of their due times, and lists of them."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from sqlalchemy import ColumnElement, Select, and_, delete, exists, func, or_, select
from sqlalchemy.orm import Session

from warren.sql.batch import chunks, modify
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.models import App, Backfill, Job, Purge, Run
from warren.sql.models.job_tables import BackfillState
from warren.sql.rows import fetch, query
from warren.sql.run_status import OPEN, Kind
from warren.sql.runs.run_rows import RunFacts

#: The backfills whose due times are to be planned, or whose open runs are waited for.
HAS_WORK: ColumnElement[bool] = and_(
    Backfill.ended_at.is_(None),
    or_(Backfill.state != BackfillState.PAUSED, Backfill.open_ticks != "[]"),
)


def with_work(session: Session) -> dict[int, int]:
    """Return the job of each backfill that has work, by id, the oldest first."""
    wanted = select(Backfill.id, Backfill.job_id).where(HAS_WORK).order_by(Backfill.id)
    return dict(session.execute(wanted).all())


def claim(session: Session, backfill_id: int) -> Backfill | None:
    """Lock and return a backfill that has work; None if it has none, or others hold it."""
    wanted = select(Backfill).where(Backfill.id == backfill_id, HAS_WORK)
    return session.execute(wanted.with_for_update(skip_locked=True)).scalar_one_or_none()


def lock(session: Session, backfill_id: int) -> Backfill | None:
    """Lock and return a backfill; None if there is none."""
    wanted = select(Backfill).where(Backfill.id == backfill_id)
    fresh = wanted.with_for_update().execution_options(populate_existing=True)
    return session.execute(fresh).scalar_one_or_none()


def read(session: Session, backfill_id: int) -> Backfill | None:
    """Return a backfill as stored now; None if there is none."""
    return session.get(Backfill, backfill_id, populate_existing=True)


def lock_of_job(session: Session, job_id: int) -> Sequence[Backfill]:
    """Lock and return the backfills of a job that are open or paused."""
    wanted = select(Backfill).where(
        Backfill.job_id == job_id,
        Backfill.state.in_([BackfillState.OPEN, BackfillState.PAUSED]),
    )
    return session.execute(wanted.order_by(Backfill.id).with_for_update()).scalars().all()


def by_key(session: Session, job_id: int, key: str) -> Backfill | None:
    wanted = select(Backfill).where(Backfill.job_id == job_id, Backfill.key == key)
    return session.execute(wanted).scalar_one_or_none()


def of_jobs(session: Session, job_id: int | None) -> Sequence[Backfill]:
    """Return all backfills, or those of one job, the oldest first."""
    wanted = select(Backfill).order_by(Backfill.id)
    if job_id is not None:
        wanted = wanted.where(Backfill.job_id == job_id)
    return session.execute(wanted.execution_options(populate_existing=True)).scalars().all()


def runs_at(session: Session, job_id: int, ticks: Iterable[int]) -> dict[int, list[RunFacts]]:
    """Return the runs of a job at these due times, each shard's newest last."""
    by_tick: dict[int, list[RunFacts]] = defaultdict(list)
    in_order = query(RunFacts, Run).order_by(Run.shard_index, Run.origin_id, Run.attempt)
    for chunk in chunks(ticks):
        at_these = in_order.where(Run.job_id == job_id, Run.scheduled_at.in_(chunk))
        for run in fetch(session, RunFacts, at_these):
            by_tick[run.scheduled_at].append(run)
    return by_tick


def open_runs(session: Session, backfill: Backfill) -> list[int]:
    """Return the ids of a backfill's open runs, without locks."""
    return [
        run_id
        for chunk in chunks(json.loads(backfill.open_ticks))
        for run_id in session.execute(
            select(Run.id).where(
                Run.job_id == backfill.job_id,
                Run.scheduled_at.in_(chunk),
                Run.backfill_id == backfill.id,
                Run.status.in_(OPEN),
            )
        ).scalars()
    ]


def runs_about(session: Session, job_id: int, days: Sequence[date]) -> dict[date, list[RunFacts]]:
    """Return the runs of a job by date, from the first to the last day; newest of a shard last."""
    by_date: dict[date, list[RunFacts]] = defaultdict(list)
    in_order = query(RunFacts, Run).order_by(Run.shard_index, Run.origin_id, Run.attempt)
    about = in_order.where(Run.job_id == job_id, Run.run_date.between(min(days), max(days)))
    for run in fetch(session, RunFacts, about):
        if run.run_date is not None:
            by_date[run.run_date].append(run)
    return by_date


def first_runs(session: Session, job_id: int, backfill_id: int) -> list[RunFacts]:
    """Return the first run (shard 0, attempt 0) of each due time that a backfill has planned."""
    wanted = query(RunFacts, Run).where(
        Run.job_id == job_id,
        Run.origin_id == backfill_id,
        Run.shard_index == 0,
        Run.attempt == 0,
    )
    return fetch(session, RunFacts, wanted.order_by(Run.scheduled_at))


def strays(
    session: Session, jobs: tuple[int, int], *, after_ms: int, until_ms: int
) -> list[RunFacts]:
    """Return the first runs of due times whose backfill, of jobs in this range, is unknown."""
    wanted = query(RunFacts, Run).where(
        Run.job_id.between(*jobs),
        Run.scheduled_at > after_ms,
        Run.scheduled_at <= until_ms,
        Run.kind == Kind.BACKFILL,
        Run.shard_index == 0,
        ~exists().where(Backfill.id == Run.origin_id, Backfill.job_id == Run.job_id),
    )
    return fetch(session, RunFacts, wanted.order_by(Run.scheduled_at))


def purged_until(session: Session, backfill: Backfill) -> int:
    """Return the last due time of which runs may have been deleted since a backfill was made."""
    last = session.execute(
        select(func.max(Purge.to_at)).where(
            Purge.job_id == backfill.job_id, Purge.purged_at >= backfill.made_at
        )
    )
    return last.scalar_one() or 0


def forget(session: Session, *, before_ms: int) -> None:
    """Delete the backfills that ended before an instant and whose runs are all deleted."""
    has_runs = exists().where(Run.job_id == Backfill.job_id, Run.backfill_id == Backfill.id)
    modify(session, delete(Backfill).where(Backfill.ended_at < before_ms, ~has_runs))


class ListedBackfill(NamedTuple):
    """A backfill with the names of its job and app, None if the job was deleted."""

    backfill: Backfill
    job: str | None
    app: str | None
    timezone: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillFilter:
    """Which backfills to list; None = all. `is_going`: those that are open or paused."""

    app_ids: Collection[int] | None = None
    job_ids: Collection[int] | None = None
    job_id: int | None = None
    is_going: bool = False
    before_id: int | None = None
    limit: int = 50


def listing(session: Session, wanted: BackfillFilter) -> list[ListedBackfill]:
    """Return backfills, the newest first."""
    statement = _visible(wanted.app_ids, wanted.job_ids).order_by(Backfill.id.desc())
    if wanted.job_id is not None:
        statement = statement.where(Backfill.job_id == wanted.job_id)
    if wanted.is_going:
        statement = statement.where(Backfill.state.in_([BackfillState.OPEN, BackfillState.PAUSED]))
    if wanted.before_id is not None:
        statement = statement.where(Backfill.id < wanted.before_id)
    return [ListedBackfill(*row) for row in session.execute(statement.limit(wanted.limit))]


def show(
    session: Session,
    backfill_id: int,
    *,
    app_ids: Collection[int] | None = None,
    job_ids: Collection[int] | None = None,
) -> ListedBackfill:
    """Return a backfill.

    Raises:
        NotFound: there is none that may be seen.

    """
    wanted = _visible(app_ids, job_ids).where(Backfill.id == backfill_id)
    row = session.execute(wanted).one_or_none()
    if row is None:
        raise NotFound(LookupFailure.NO_BACKFILL, id=backfill_id)
    return ListedBackfill(*row)


def _visible(
    app_ids: Collection[int] | None, job_ids: Collection[int] | None
) -> Select[Backfill, str | None, str | None, str | None]:
    rows = (
        select(Backfill, Job.name, App.name, Job.timezone)
        .outerjoin(Job, Job.id == Backfill.job_id)
        .outerjoin(App, App.id == Job.app_id)
    )
    if app_ids is not None:
        rows = rows.where(Job.app_id.in_(app_ids))
    if job_ids is not None:
        rows = rows.where(Backfill.job_id.in_(job_ids))
    return rows
