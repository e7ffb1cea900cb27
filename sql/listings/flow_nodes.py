"""The nodes of a flow's run as lists show them: how each ended, its job, and its runs."""

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from warren.sql.batch import chunks
from warren.sql.models import FlowNode, Job, Run, ScriptVersion
from warren.sql.models.job_tables import FLOW_TYPE
from warren.sql.rows import fetch, query


class NodeLine(NamedTuple):
    """A node of a flow's run; `kept_run_id` is the flow's run in which a KEPT one was over."""

    id: int
    node: str
    job_id: int
    outcome: str | None
    kept_outcome: str | None
    kept_run_id: int | None
    shards: int | None
    begun_at: int | None
    ended_at: int | None
    reason: str | None
    why: str | None


class RunGroup(NamedTuple):
    """The runs of a node that have the same status; `last_id` is the highest id among them."""

    node_id: int
    status: str
    runs: int
    last_id: int
    attempt: int
    started_at: int | None


class FlowPlace(NamedTuple):
    """Where a node's run belongs: the flow's run, the name of the flow, and of the node."""

    run_id: int
    flow_run_id: int
    flow: str | None
    node: str | None


def graph_source(session: Session, version_id: int) -> str | None:
    """Return the graph that a version of type FLOW holds; None if there is no such version."""
    source = select(ScriptVersion.source).where(
        ScriptVersion.id == version_id, ScriptVersion.script_type == FLOW_TYPE
    )
    return session.execute(source).scalar_one_or_none()


def lines(session: Session, flow_run_id: int) -> list[NodeLine]:
    """Return the nodes of a flow's run, in the order in which they began."""
    kept = aliased(FlowNode)
    kept_in = select(kept.flow_run_id).where(kept.id == FlowNode.kept_of).scalar_subquery()
    nodes = (
        query(NodeLine, FlowNode, kept_run_id=kept_in)
        .where(FlowNode.flow_run_id == flow_run_id)
        .order_by(FlowNode.begun_at.is_(None), FlowNode.begun_at, FlowNode.id)
    )
    return fetch(session, NodeLine, nodes)


def run_groups(
    session: Session, flow_run_id: int, scheduled_at: int, job_ids: Collection[int]
) -> list[RunGroup]:
    """Return the runs of all nodes of a flow's run, along the unique key of ticks."""
    groups: list[RunGroup] = []
    for chunk in chunks(sorted(set(job_ids))):
        grouped = (
            query(
                RunGroup,
                Run,
                node_id=Run.origin_id,
                runs=func.count(),
                last_id=func.max(Run.id),
                attempt=func.max(Run.attempt),
                started_at=func.min(Run.started_at),
            )
            .where(
                Run.job_id.in_(chunk),
                Run.scheduled_at == scheduled_at,
                Run.flow_run_id == flow_run_id,
            )
            .group_by(Run.origin_id, Run.status)
        )
        groups += fetch(session, RunGroup, grouped)
    return groups


def places(
    session: Session, run_ids: Collection[int], app_ids: Collection[int] | None
) -> dict[int, FlowPlace]:
    """Return where the runs of nodes among these belong, by the run's id.

    Flows in other apps than these are left out; None = all apps.
    """
    flow_run = aliased(Run)
    belonging = (
        query(FlowPlace, Run, run_id=Run.id, flow=Job.name, node=FlowNode.node)
        .join(flow_run, flow_run.id == Run.flow_run_id)
        .outerjoin(Job, Job.id == flow_run.job_id)
        .outerjoin(FlowNode, FlowNode.id == Run.origin_id)
        .where(Run.id.in_(run_ids))
    )
    if app_ids is not None:
        belonging = belonging.where(flow_run.app_id.in_(app_ids))
    return {place.run_id: place for place in fetch(session, FlowPlace, belonging)}
