"""Stores alarms of failed ticks, in the transaction that ends their last attempt."""

from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from warren.scheduler.alarms.events import MESSAGE_LENGTH, TAIL_LENGTH, Failure
from warren.scheduler.alarms.policy import NOBODY, AlarmTargets
from warren.scheduler.alarms.targets import alarms_to, job_targets
from warren.scheduler.completion.end import End
from warren.sql.alarms import alarms, recipients
from warren.sql.alarms.alarms import NewAlarm, RunAlarm
from warren.sql.alarms.recipients import JobRecipients
from warren.sql.run_status import FAILURES
from warren.sql.runs.run_rows import FailedRun, LockedRun


def keep(
    session: Session,
    last: Sequence[tuple[LockedRun, End]],
    failures: Mapping[int, FailedRun],
    defaults: AlarmTargets,
    *,
    now_ms: int,
) -> None:
    """Store an alarm for each target of each failed tick, one for all shards of a tick.

    `last` are runs, as read before, with their ends, that are not retried; `failures` are the
    failed attempts before them. A run about which nobody is alerted is marked so. A run that
    somebody asked to kill raises no alarm.
    """
    failed = [
        (run, end)
        for run, end in last
        if (end.status in FAILURES or run.id in failures) and run.kill_requested_at is None
    ]
    if not failed:
        return
    jobs = recipients.job_targets(session, {run.job_id for run, _ in failed})
    kept: list[NewAlarm] = []
    unheard: list[int] = []
    for run, end in failed:
        job = jobs.get(run.job_id)
        targets = NOBODY if job is None else job_targets(job, defaults)
        if job is None or not targets:
            unheard.append(run.id)
        else:
            kept += alarms_to(
                targets,
                _news(run, end, failures.get(run.id), job),
                f"tick:{run.job_id}:{run.scheduled_at}:{run.origin_id}",
                now_ms=now_ms,
                app_id=run.app_id,
                job_id=run.job_id,
                run_id=run.id,
            )
    alarms.add(session, kept)
    alarms.mark_runs(session, unheard, RunAlarm.NOBODY_TO_TELL)


def _news(run: LockedRun, end: End, failure: FailedRun | None, job: JobRecipients) -> Failure:
    return Failure(
        app=job.app,
        job=job.name,
        run_id=run.id,
        scheduled_at=run.scheduled_at,
        finished_at=end.finished_at,
        timezone=job.timezone or "",
        status=end.status.value,
        message=_message(end, failure)[:MESSAGE_LENGTH],
        address=run.address or "",
        attempts=run.attempt + 1,
        shard=f"{run.shard_index}/{run.shard_total}" if run.shard_total > 1 else "",
        log_tail=(end.log_tail or (failure and failure.log_tail) or "")[-TAIL_LENGTH:],
    )


def _message(end: End, failure: FailedRun | None) -> str:
    if failure is None:
        return str(end.message)
    before = f"attempt {failure.attempt + 1} {failure.status}: {failure.message or ''}"
    return f"{end.message}; {before}"
