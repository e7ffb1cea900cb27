"""Lists of runs for command line, API and console, newest first.

Runs of a backfill or flow have no index, but they are runs of a few jobs, and those of a flow have
its due time.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from sqlalchemy import bindparam, func, null, or_, select
from sqlalchemy.orm import Session

from warren.sql.dialects.supported import of as dialect_of
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.listings import run_messages
from warren.sql.listings.run_search import RunSearch
from warren.sql.models import FlowNode, Run
from warren.sql.rows import Query, fetch, fetch_plain
from warren.sql.run_status import IN_FLIGHT
from warren.sql.runs import backfills
from warren.sql.runs.run_rows import DetailedRun

#: The most jobs of which each is searched along its ticks; with more, all runs are searched.
MAX_JOBS = 100


def along_jobs(
    session: Session,
    wanted: RunSearch,
    *,
    app_ids: Collection[int] | None,
    job_ids: Collection[int] | None = None,
    most_jobs: int = MAX_JOBS,
) -> RunSearch:
    """Return a search along the jobs that the runs of a backfill, flow or tick belong to.

    Args:
        session: reads the backfill or the run.
        wanted: a search; one for none of them is returned as it is.
        app_ids: the only apps that exist; None = all.
        job_ids: the only jobs that exist; None = all of these apps.
        most_jobs: with more jobs than these, all runs since the flow's due time are searched.

    Raises:
        NotFound: there is no such backfill or run.

    """
    if wanted.tick_of is not None:
        wanted = _of_tick(session, wanted, wanted.tick_of, app_ids, job_ids)
    if wanted.backfill_id is not None:
        listed = backfills.show(session, wanted.backfill_id, app_ids=app_ids, job_ids=job_ids)
        wanted = _of_jobs(wanted, {listed.backfill.job_id}, most_jobs)
    if wanted.flow_run_id is not None:
        tick_ms = _tick_of(session, wanted.flow_run_id, app_ids)
        nodes = select(FlowNode.job_id).where(FlowNode.flow_run_id == wanted.flow_run_id)
        wanted = _of_jobs(wanted, set(session.execute(nodes.distinct()).scalars()), most_jobs)
        if wanted.job_id is None and wanted.job_ids is None:
            return replace(wanted, since_ms=max(wanted.since_ms or 0, tick_ms))
        return replace(wanted, tick_at=tick_ms)
    return wanted


def _tick_of(session: Session, run_id: int, app_ids: Collection[int] | None) -> int:
    columns = select(Run.scheduled_at, Run.app_id).where(Run.id == run_id)
    row = session.execute(columns).one_or_none()
    if row is None or (app_ids is not None and row.app_id not in app_ids):
        raise NotFound(LookupFailure.NO_RUN, id=run_id)
    return int(row.scheduled_at)


def _of_tick(
    session: Session,
    wanted: RunSearch,
    run_id: int,
    app_ids: Collection[int] | None,
    job_ids: Collection[int] | None,
) -> RunSearch:
    of = run(session, run_id, app_ids)
    if job_ids is not None and of.job_id not in job_ids:
        raise NotFound(LookupFailure.NO_RUN, id=run_id)
    if wanted.job_id not in {None, of.job_id}:
        return replace(wanted, job_id=None, job_ids=[])
    run_ids = frozenset(session.execute(select(Run.id).where(*_same_tick(of))).scalars())
    return replace(wanted, job_id=of.job_id, tick_at=of.scheduled_at, run_ids=run_ids)


def _of_jobs(wanted: RunSearch, job_ids: Collection[int], most_jobs: int) -> RunSearch:
    if wanted.job_id is not None or wanted.job_ids is not None or len(job_ids) > most_jobs:
        return wanted
    return replace(wanted, job_ids=sorted(job_ids))


#: The most runs of a tick that are listed, and the most bytes of their texts.
MAX_TICK_RUNS, MAX_TICK_BYTES = 1_000, 4_000_000


def run(session: Session, run_id: int, app_ids: Collection[int] | None = None) -> DetailedRun:
    """Return one run of the given apps; None = all apps.

    Raises:
        NotFound: there is no such run, or it belongs to another app.

    """
    if app_ids is None:
        runs = fetch_plain(session, DetailedRun, _one_run(), {"its_id": run_id})
    else:
        wanted = {"its_id": run_id, "its_apps": sorted(app_ids)}
        runs = fetch_plain(session, DetailedRun, _one_run_of_apps(), wanted)
    if not runs:
        raise NotFound(LookupFailure.NO_RUN, id=run_id)
    return runs[0]


def by_ids(session: Session, run_ids: Sequence[int]) -> list[DetailedRun]:
    """Return a few runs in the given order, without the ends of their logs.

    Deleted ones are left out.
    """
    wanted = run_messages.details(log_tail=null()).where(Run.id.in_(run_ids))
    runs = fetch(session, DetailedRun, wanted) if run_ids else []
    by_id = {run.id: run for run in runs}
    return [by_id[run_id] for run_id in run_ids if run_id in by_id]


def count_in_flight(session: Session) -> int:
    """Return the number of runs in flight."""
    return session.execute(
        select(func.count()).select_from(Run).where(Run.status.in_(IN_FLIGHT))
    ).scalar_one()


def last_of_tick(
    session: Session,
    of: DetailedRun,
    *,
    most: int = MAX_TICK_RUNS,
    most_bytes: int = MAX_TICK_BYTES,
) -> list[DetailedRun]:
    """Return a run's tick, re-runs included, in order, without the ends of the logs, up to a limit.

    Of a larger tick, these are the last attempts whose texts fit in `most_bytes`, at least one.
    """
    length = dialect_of(session).byte_length
    sizes = (
        select(
            Run.id,
            length(Run.param)
            + length(Run.message)
            + length(Run.trigger_message)
            + length(Run.result),
        )
        .where(*_same_tick(of))
        .order_by(Run.origin_id.desc(), Run.attempt.desc(), Run.shard_index)
        .limit(most)
    )
    run_ids = list(_fitting(session.execute(sizes), most_bytes))
    return sorted(
        by_ids(session, run_ids), key=lambda run: (run.shard_index, run.origin_id, run.attempt)
    )


def has_runs(session: Session, job_id: int, app_ids: Collection[int] | None) -> bool:
    """Return whether the last run of a job belongs to the given apps; the job may be deleted."""
    newest = (
        select(Run.app_id)
        .where(Run.job_id == job_id)
        .order_by(
            Run.scheduled_at.desc(),
            Run.origin_id.desc(),
            Run.shard_index.desc(),
            Run.attempt.desc(),
        )
        .limit(1)
    )
    app_id = session.execute(newest).scalar_one_or_none()
    return app_id is not None and (app_ids is None or app_id in app_ids)


def _fitting(sizes: Iterable[tuple[int, int]], most_bytes: int) -> Iterator[int]:
    """Yield ids while their sizes fit; always the first."""
    left = most_bytes
    for number, (run_id, size) in enumerate(sizes):
        left -= size
        if number and left < 0:
            return
        yield run_id


# Built once, because each call of the API executes them: SQLAlchemy has to look closely at a
# statement that is new, even if it equals one that it has seen.
@cache
def _one_run() -> Query:
    return run_messages.details().where(Run.id == bindparam("its_id"))


@cache
def _one_run_of_apps() -> Query:
    return _one_run().where(Run.app_id.in_(bindparam("its_apps", expanding=True)))


def _same_tick(of: DetailedRun) -> tuple[Any, ...]:
    same_time = (Run.job_id == of.job_id, Run.scheduled_at == of.scheduled_at)
    if of.rerun_of is not None:
        return same_time
    return *same_time, or_(Run.origin_id == of.origin_id, Run.rerun_of.is_not(None))
