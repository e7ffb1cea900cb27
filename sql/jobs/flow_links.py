"""Which jobs are nodes of which flows: a row of `warren_flow_job` for each.

The graph of a flow names its jobs; these rows say which ones it meant when it was saved. They are
written under the lock that also keeps children from forming circles.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from warren.sql.batch import chunks
from warren.sql.models import FlowJob, Job


def set_nodes(session: Session, nodes: Mapping[int, Collection[int]]) -> None:
    """Replace the jobs that are nodes of these flows."""
    for chunk in chunks(sorted(nodes)):
        session.execute(delete(FlowJob).where(FlowJob.flow_id.in_(chunk)))
    rows = [
        {"flow_id": flow_id, "job_id": job_id}
        for flow_id, job_ids in nodes.items()
        for job_id in sorted(set(job_ids))
    ]
    for part in chunks(rows):
        session.execute(insert(FlowJob), part)


def nodes_of(session: Session, flow_ids: Iterable[int]) -> dict[int, set[int]]:
    by_flow: dict[int, set[int]] = defaultdict(set)
    for chunk in chunks(sorted(set(flow_ids))):
        rows = select(FlowJob.flow_id, FlowJob.job_id).where(FlowJob.flow_id.in_(chunk))
        for flow_id, job_id in session.execute(rows):
            by_flow[flow_id].add(job_id)
    return by_flow


def all_flows(session: Session) -> set[int]:
    """Return all jobs that have nodes."""
    return set(session.execute(select(FlowJob.flow_id).distinct()).scalars())


def flows_with(session: Session, job_ids: Iterable[int]) -> dict[int, set[int]]:
    """Return the flows that have these jobs as nodes, by job."""
    by_job: dict[int, set[int]] = defaultdict(set)
    for chunk in chunks(sorted(set(job_ids))):
        rows = select(FlowJob.job_id, FlowJob.flow_id).where(FlowJob.job_id.in_(chunk))
        for job_id, flow_id in session.execute(rows):
            by_job[job_id].add(flow_id)
    return by_job


def flows_among(session: Session, job_ids: Iterable[int]) -> set[int]:
    return {
        job_id
        for chunk in chunks(sorted(set(job_ids)))
        for job_id in session.execute(
            select(Job.id).where(Job.id.in_(chunk), Job.flow.is_not(None))
        ).scalars()
    }
