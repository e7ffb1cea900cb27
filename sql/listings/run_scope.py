"""Searches for the runs of one backfill, or of the nodes of one run of a flow.

No index has either, but both are runs of a few jobs, and those of a flow have its due time.
"""

from collections.abc import Collection
from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from warren.sql.errors import LookupFailure, NotFound
from warren.sql.listings import backfills
from warren.sql.listings.run_search import RunSearch
from warren.sql.models import FlowNode, Run

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
    """Return a search along the jobs that the runs of a backfill or flow belong to.

    Args:
        session: reads the backfill, or the flow's run.
        wanted: a search; one for neither is returned as it is.
        app_ids: the only apps that exist; None = all.
        job_ids: the only jobs that exist; None = all of these apps.
        most_jobs: with more jobs than these, all runs since the flow's due time are searched.

    Raises:
        NotFound: there is no such backfill or run.

    """
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


def _of_jobs(wanted: RunSearch, job_ids: Collection[int], most_jobs: int) -> RunSearch:
    if wanted.job_id is not None or wanted.job_ids is not None or len(job_ids) > most_jobs:
        return wanted
    return replace(wanted, job_ids=sorted(job_ids))
