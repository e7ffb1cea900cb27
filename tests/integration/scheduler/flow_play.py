"""Flows without scheduler and executor: a test opens them, and says how their nodes end."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from tests.integration.scheduler.family import completion
from tests.support.cluster import APP, Cluster
from tests.support.sql_rows import put
from warren.broker.reasons import Words
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.completion.end import End
from warren.scheduler.flows.graph import parse
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.models import FlowNode, Run
from warren.sql.run_status import OPEN, RunStatus

SUCCEEDED, FAILED, SKIPPED = RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.SKIPPED


def flow(name: str, nodes: Mapping[str, Any], **fields: Any) -> JobSpec:
    return JobSpec(name=name, app=APP, flow=parse(nodes), **fields)


def job(name: str, handler: str = "noop", **fields: Any) -> JobSpec:
    return JobSpec(name=name, app=APP, handler=handler, **fields)


def nodes_of(cluster: Cluster, run_id: int) -> dict[str, FlowNode]:
    wanted = select(FlowNode).where(FlowNode.flow_run_id == run_id)
    rows = cluster.database.read(lambda session: list(session.execute(wanted).scalars()))
    return {row.node: row for row in rows}


def outcomes(cluster: Cluster, run_id: int) -> dict[str, str | None]:
    return {name: row.outcome for name, row in nodes_of(cluster, run_id).items()}


def runs_of(cluster: Cluster, run_id: int, node: str) -> list[Run]:
    """Return the runs of a node."""
    return cluster.runs(origin_id=nodes_of(cluster, run_id)[node].id)


def begun(cluster: Cluster, run_id: int) -> list[str]:
    """Return the nodes that run."""
    rows = nodes_of(cluster, run_id).values()
    return sorted(row.node for row in rows if row.begun_at and row.outcome is None)


def opened(cluster: Cluster, name: str, param: str | None = None) -> int:
    """Trigger a flow and open it; return its run's id."""
    return open_run(cluster, cluster.trigger(name, param))


def open_run(cluster: Cluster, run_id: int) -> int:
    """Open a planned run of a flow as a claim does."""
    one = completion(cluster)
    cluster.database.write(lambda session: one.carry_on(session, one.flows.open(session, [run_id])))
    return run_id


def end_node(
    cluster: Cluster,
    run_id: int,
    node: str,
    *,
    status: RunStatus = SUCCEEDED,
    result: str = "",
    message: str = "",
) -> None:
    """End the open runs of a node, each in a transaction of its own."""
    open_ids = [run.id for run in runs_of(cluster, run_id, node) if run.status in OPEN]
    assert open_ids
    for open_id in open_ids:
        end_run(cluster, open_id, status=status, result=result, message=message)


def end_run(
    cluster: Cluster,
    run_id: int,
    *,
    status: RunStatus = SUCCEEDED,
    result: str = "",
    message: Words = "",
) -> None:
    """End a run of a node as its executor would."""
    put(cluster.database, [run_id], status=RunStatus.SENT, routed_at=cluster.now_ms(), address="a")
    one = completion(cluster)
    end = End(run_id=run_id, status=status, message=message, finished_at=1_000, result=result)
    cluster.database.write(lambda session: one.end(session, [end]))


def faults(cluster: Cluster) -> list[str]:
    """Return what the audit finds."""
    report = audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC")
    return [
        f"{kind}: {fault.why}"
        for row in report.jobs
        for kind, found in (("lost", row.lost), ("doubled", row.doubled))
        for fault in found
    ]
