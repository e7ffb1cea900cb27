"""Alarms about the nodes of flows that failed.

Those whom the flow tells hear of a failed node at once, in the alarm of the flow's tick, of which
each target gets one. They do not while the failure may be mended: if a node runs after it, the
node's own job tells it; if the flow has a retry left, that of the last one tells.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec
from sqlalchemy.orm import Session

from warren.scheduler.alarms.events import MESSAGE_LENGTH, AlarmTargets, Failure
from warren.scheduler.alarms.targets import alarms_to, job_targets
from warren.scheduler.completion.flow_judgement import JudgedFlow
from warren.scheduler.flows.graph import Graph, NodeRetry
from warren.sql.alarms import alarms
from warren.sql.alarms.alarms import JobRecipients, NewAlarm
from warren.sql.run_status import RunStatus
from warren.sql.runs.flow_nodes import RunningFlow


@dataclass(frozen=True, slots=True)
class NodeOfFlow:
    """A node of a flow's run."""

    flow: RunningFlow
    graph: Graph
    name: str

    @property
    def retry(self) -> NodeRetry:
        """What it says about retries."""
        return self.graph.nodes[self.name].retry

    @property
    def fails_flow(self) -> bool:
        """Whether its failure is that of the flow, as nothing may mend it in this run."""
        return self.flow.kill_requested_at is None and not self.graph.is_handled(self.name)


class _Flow(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def app_id(self) -> int: ...
    @property
    def job_id(self) -> int: ...
    @property
    def scheduled_at(self) -> int: ...
    @property
    def origin_id(self) -> int: ...
    @property
    def starts(self) -> int: ...


def without(targets: AlarmTargets, told: AlarmTargets) -> AlarmTargets:
    """Return those of the targets that are not told anyway."""
    emails = tuple(email for email in targets.emails if email not in told.emails)
    is_told = targets.webhook == told.webhook
    return replace(targets, emails=emails, webhook="" if is_told else targets.webhook)


def flow_alarms(
    flow: _Flow,
    job: JobRecipients,
    news: Failure,
    defaults: AlarmTargets,
    *,
    now_ms: int,
    key: str = "",
) -> list[NewAlarm]:
    """Return the alarms of a flow about a node; `news` has what is known of its failure.

    With a `key` they are about the node alone, and the flow may raise its own.
    """
    of_flow = msgspec.structs.replace(news, app=job.app, job=job.name, timezone=job.timezone or "")
    return alarms_to(
        job_targets(job, defaults),
        msgspec.structs.replace(of_flow, run_id=flow.id, attempts=flow.starts + 1, shard=""),
        key or f"tick:{flow.job_id}:{flow.scheduled_at}:{flow.origin_id}",
        now_ms=now_ms,
        app_id=flow.app_id,
        job_id=flow.job_id,
        run_id=flow.id,
    )


def store_node_alarms(
    session: Session, flows: Iterable[JudgedFlow], defaults: AlarmTargets, *, now_ms: int
) -> None:
    """Store the alarms about nodes that failed without a run whose end would raise one.

    Their jobs are gone, and whom they would tell with them. None if the flow is to be killed.
    """
    failed = [flow for flow in flows if flow.untold and flow.run.kill_requested_at is None]
    if not failed:
        return
    jobs = alarms.job_targets(session, {flow.run.job_id for flow in failed})
    for flow in failed:
        run, job = flow.run, jobs.get(flow.run.job_id)
        if job is None:
            continue
        for node_id, name, reason in flow.untold:
            is_handled = flow.graph.is_handled(name)
            if run.retries_left and not is_handled:
                continue
            news = Failure(
                app="",
                job="",
                run_id=run.id,
                scheduled_at=run.scheduled_at,
                finished_at=now_ms,
                timezone="",
                status=RunStatus.FAILED.value,
                message=node_message(name, reason),
                address="",
                attempts=0,
                shard="",
                log_tail="",
            )
            key = f"node:{node_id}" if is_handled else ""
            alarms.add(session, flow_alarms(run, job, news, defaults, now_ms=now_ms, key=key))


def node_message(name: str, reason: str) -> str:
    """Return what an alarm of a flow says about a node."""
    return f"node {name} failed: {reason}"[:MESSAGE_LENGTH]
