"""Builds triggers from rows: of a run that is routed now, and of one that was routed before."""

from collections.abc import Mapping, Sequence

import structlog

from broker.messages.to_executor import Trigger
from broker.messages.values import Block
from scheduler.dispatch.trigger_messages import RoutedTrigger
from scheduler.jobs.field_kinds import YesOrNo
from scheduler.jobs.script_cache import Script
from sql.jobs.jobs import JobToRun
from sql.runs.run_rows import PlannedRun, RoutedRun

log = structlog.get_logger()


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
            traceparent=run.traceparent or "",
        ),
    )


def triggers_again(
    rows: Sequence[RoutedRun],
    jobs: Mapping[int, JobToRun],
    apps: Mapping[int, str],
    scripts: Mapping[int, Script | None],
) -> list[RoutedTrigger]:
    """Return the triggers of runs that were already routed, to the same address and boot.

    A run is left out if its job was deleted meanwhile, or no longer fits into a trigger.
    """
    again = (_trigger_again(row, jobs, apps, scripts) for row in rows)
    return [routed for routed in again if routed is not None]


def _trigger_again(
    row: RoutedRun,
    jobs: Mapping[int, JobToRun],
    apps: Mapping[int, str],
    scripts: Mapping[int, Script | None],
) -> RoutedTrigger | None:
    if row.job_id not in jobs or row.app_id not in apps:
        return None
    script = None if row.script_version is None else scripts.get(row.script_version)
    if script is None and row.script_version is not None:
        return None
    try:
        return routed_trigger(
            row,
            jobs[row.job_id],
            app=apps[row.app_id],
            address=row.address,
            boot_id=row.boot_id,
            routed_at=row.routed_at,
            script=script,
            resent=True,
        )
    except ValueError as error:
        log.warning("trigger_not_made", run_id=row.id, job_id=row.job_id, error=str(error))
        return None
