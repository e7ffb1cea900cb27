"""Queries of the ledger page: jobs, why due times were skipped, and which ticks have ended."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from sqlalchemy import and_, bindparam, func, or_, select
from sqlalchemy.orm import Session, aliased

from warren.sql.batch import chunks
from warren.sql.dialects.supported import of
from warren.sql.explanation import Explanation
from warren.sql.jobs import job_names
from warren.sql.jobs.job_names import NamedJob
from warren.sql.models import App, Job, Run, SkippedTicks
from warren.sql.rows import contains, fetch, fetch_plain, query
from warren.sql.run_status import OPEN
from warren.sql.runs.run_rows import TickRun

_Asked = aliased(Run)
# Built once, because the first use of an alias is not thread-safe.
_SAME_TICK = and_(
    Run.job_id == _Asked.job_id,
    Run.scheduled_at == _Asked.scheduled_at,
    # A tick includes the re-runs of its due time; a re-run includes all runs of its due time.
    or_(Run.origin_id == _Asked.origin_id, Run.rerun_of.is_not(None), _Asked.rerun_of.is_not(None)),
)


#: Built once, because each answer of the API about a run executes it.
_OF_RUN = (
    query(TickRun, Run)
    .join(_Asked, _SAME_TICK)
    .where(_Asked.id == bindparam("its_id"))
    .order_by(Run.shard_index, Run.origin_id, Run.attempt)
)


def of_run(session: Session, run_id: int) -> list[TickRun]:
    """Return all runs of a run's tick by shard, origin and attempt; empty if it was deleted."""
    return fetch_plain(session, TickRun, _OF_RUN, {"its_id": run_id})


def over(session: Session, run_ids: Collection[int]) -> set[int]:
    """Return the runs whose tick has ended, and those that were deleted.

    A retry is planned in the transaction that ends the run before it, so there is no gap between
    attempts.
    """
    ended = set(run_ids)
    for chunk in chunks(run_ids):
        open_ticks = (
            select(_Asked.id)
            .join(Run, _SAME_TICK)
            .where(_Asked.id.in_(chunk), Run.status.in_(OPEN))
            .distinct()
        )
        ended.difference_update(session.execute(open_ticks).scalars())
    return ended


#: The most skips of a job whose times are listed, the latest ones.
MAX_NAMED_SKIPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFilter:
    """Which jobs to list, after the id `after_id`; `name` is a part of the name, None = any."""

    app_ids: Collection[int] | None
    job_ids: Collection[int] | None = None
    app: str | None = None
    name: str | None = None
    after_id: int = 0
    limit: int = 20


def jobs(session: Session, wanted: LedgerFilter) -> list[NamedJob]:
    """Return jobs sorted by id."""
    statement = (
        job_names.of_jobs().where(Job.id > wanted.after_id).order_by(Job.id).limit(wanted.limit)
    )
    if wanted.app_ids is not None:
        statement = statement.where(Job.app_id.in_(wanted.app_ids))
    if wanted.job_ids is not None:
        statement = statement.where(Job.id.in_(wanted.job_ids))
    if wanted.app:
        statement = statement.where(App.name == wanted.app)
    if wanted.name:
        statement = statement.where(contains(session, Job.name, wanted.name))
    return fetch(session, NamedJob, statement)


#: How many due times were skipped for one reason, and the latest ones, as (first, last).
SkippedFor: TypeAlias = tuple[int, list[tuple[int, int]]]


def skip_reasons(
    session: Session, job_id: int, bounds: tuple[int, int]
) -> dict[Explanation, SkippedFor]:
    """Return a job's skipped due times in (after, until], by reason.

    A range of skipped ticks counts where it begins.
    """
    of_job = (
        SkippedTicks.job_id == job_id,
        SkippedTicks.from_at > bounds[0],
        SkippedTicks.from_at <= bounds[1],
    )
    rows = session.execute(
        select(
            SkippedTicks.reason, func.max(SkippedTicks.why), of(session).sum_of(SkippedTicks.count)
        )
        .where(*of_job)
        .group_by(SkippedTicks.reason)
        .order_by(SkippedTicks.reason)
    )
    counts = {Explanation(text, why): count for text, why, count in rows}
    latest: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for reason, first, last in session.execute(
        select(SkippedTicks.reason, SkippedTicks.from_at, SkippedTicks.to_at)
        .where(*of_job)
        .order_by(SkippedTicks.from_at.desc())
        .limit(MAX_NAMED_SKIPS)
    ):
        latest[reason].append((first, last))
    return {reason: (number, latest[reason.text]) for reason, number in counts.items()}
