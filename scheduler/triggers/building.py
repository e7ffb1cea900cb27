"""Builds triggers from rows."""

from warren.broker.messages.to_executor import Trigger
from warren.broker.messages.values import Block
from warren.scheduler.jobs.field_kinds import YesOrNo
from warren.scheduler.jobs.script_cache import Script
from warren.scheduler.triggers.messages import RoutedTrigger
from warren.sql.jobs.jobs import JobToRun
from warren.sql.runs.run_rows import PlannedRun, RoutedRun


def routed_trigger(
    run: PlannedRun | RoutedRun,
    job: JobToRun,
    *,
    app: str,
    address: str,
    boot_id: str,
    routed_at: int,
    script: Script | None = None,
    resent: bool = False,
) -> RoutedTrigger:
    """Return the trigger of a run for a boot of an executor; a script replaces the handler.

    Raises:
        ValueError: the job's row holds a value that no trigger can carry.

    """
    return RoutedTrigger(
        app=app,
        address=address,
        trigger=Trigger(
            run_id=run.id,
            job_id=run.job_id,
            boot_id=boot_id,
            kind=run.kind,
            handler=run.handler or "",
            param=run.param or "",
            attempt=run.attempt,
            shard_index=run.shard_index,
            shard_total=run.shard_total,
            scheduled_at_ms=run.scheduled_at,
            block=Block(job.block),
            concurrency=job.concurrency,
            timeout_seconds=job.timeout,
            fresh_process=YesOrNo().value(job.fresh_process),
            script_language=script.language if script else "",
            script_source=script.source if script else "",
            resent=resent,
            routed_at_ms=routed_at,
            due_at_ms=run.due_at,
            traceparent=run.traceparent or "",
        ),
    )
