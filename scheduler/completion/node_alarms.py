"""Alarms about nodes of flows that failed without a run whose end would raise one.

Their jobs are gone, and whom they would tell with them, so the targets are those of the flow.
"""

from collections.abc import Iterable

from sqlalchemy.orm import Session

from warren.scheduler.alarms.events import MESSAGE_LENGTH, AlarmTargets, Failure
from warren.scheduler.alarms.targets import alarms_to, job_targets
from warren.scheduler.completion.flow_judgement import JudgedFlow
from warren.sql.alarms import alarms
from warren.sql.run_status import RunStatus


def store_node_alarms(
    session: Session, flows: Iterable[JudgedFlow], defaults: AlarmTargets, *, now_ms: int
) -> None:
    """Store an alarm for each such node and target, unless somebody asked to kill the flow."""
    failed = [flow for flow in flows if flow.untold and flow.run.kill_requested_at is None]
    if not failed:
        return
    jobs = alarms.job_targets(session, {flow.run.job_id for flow in failed})
    for flow in failed:
        run, job = flow.run, jobs.get(flow.run.job_id)
        if job is None:
            continue
        for node_id, name, reason in flow.untold:
            news = Failure(
                app=job.app,
                job=job.name,
                run_id=run.id,
                scheduled_at=run.scheduled_at,
                finished_at=now_ms,
                timezone=job.timezone or "",
                status=RunStatus.FAILED.value,
                message=f"node {name} failed: {reason}"[:MESSAGE_LENGTH],
                address="",
                attempts=run.starts + 1,
                shard="",
                log_tail="",
            )
            alarms.add(
                session,
                alarms_to(
                    job_targets(job, defaults),
                    news,
                    f"node:{node_id}",
                    now_ms=now_ms,
                    app_id=run.app_id,
                    job_id=run.job_id,
                    run_id=run.id,
                ),
            )
