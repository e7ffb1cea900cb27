"""What follows the end of a run, as a pure decision: another attempt, or nothing."""

from dataclasses import dataclass

from sql.rows import AnyRow
from sql.run_status import Kind, RunStatus
from sql.runs import NewRun

#: Seconds before each renewed delivery of a trigger that provably never started; when they are
#: used up, the next one counts as a failed attempt.
REDELIVERY_SECONDS = (0, 1, 2, 4, 8)

_RETRIED = frozenset({RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.UNDELIVERED})


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a run ended: the status it takes, and whether it provably never reached a process.

    `address` and `boot_id`, where given, are who says so; the run must have been routed there.
    `only_from` and `routed_at`, where given, are what was seen of the row when this was concluded;
    it ends only if that still holds, as somebody may have sent the run meanwhile.
    `pause_seconds` is how long a retry waits at least, whatever the job says.
    """

    run_id: int
    status: RunStatus
    message: str
    finished_at: int
    started_at: int | None = None
    log_tail: str | None = None
    never_started: bool = False
    address: str | None = None
    boot_id: str | None = None
    only_from: RunStatus | None = None
    routed_at: int | None = None
    pause_seconds: float = 0.0


def next_attempt(run: AnyRow, job: AnyRow | None, end: End, *, now_ms: int) -> NewRun | None:
    """Return the attempt that follows, None when the run's end is the end of its tick.

    A job that was deleted, or stopped by a person, starts nothing more by itself; a run that
    somebody asked to kill is not tried again.
    """
    if job is None or run.kill_requested_at is not None or was_stopped(run, job):
        return None
    if end.status is RunStatus.UNDELIVERED and end.never_started:
        if run.redeliveries < len(REDELIVERY_SECONDS):
            return _redelivery(run, now_ms)
        return _retry(run, job, end, now_ms)
    if end.status in _RETRIED:
        return _retry(run, job, end, now_ms)
    if end.status is RunStatus.LOST and job.delivery == "AT_LEAST_ONCE":
        return _retry(run, job, end, now_ms)
    return None


def was_stopped(run: AnyRow, job: AnyRow) -> bool:
    """Whether a person stopped the job whose schedule caused this run.

    A job that stopped by itself, because its schedule ended, has a reason and still retries.
    """
    return run.origin_id == 0 and job.trigger_status == 0 and job.stop_reason is None


def _redelivery(run: AnyRow, now_ms: int) -> NewRun:
    delay_ms = REDELIVERY_SECONDS[run.redeliveries] * 1000
    return _again(
        run,
        due_at=now_ms + delay_ms,
        retries_left=run.executor_fail_retry_count,
        redeliveries=run.redeliveries + 1,
    )


def _retry(run: AnyRow, job: AnyRow, end: End, now_ms: int) -> NewRun | None:
    if run.executor_fail_retry_count <= 0:
        return None
    return _again(
        run,
        due_at=now_ms + int(max(job.retry_delay, end.pause_seconds) * 1000),
        retries_left=run.executor_fail_retry_count - 1,
        redeliveries=0,
    )


def _again(run: AnyRow, *, due_at: int, retries_left: int, redeliveries: int) -> NewRun:
    return NewRun(
        job_group=run.job_group,
        job_id=run.job_id,
        handler=run.executor_handler,
        param=run.executor_param,
        kind=Kind.RETRY,
        scheduled_at=run.scheduled_at,
        due_at=due_at,
        retries_left=retries_left,
        origin_id=run.origin_id,
        shard_index=run.shard_index,
        shard_total=run.shard_total,
        attempt=run.attempt + 1,
        redeliveries=redeliveries,
        wanted_addresses=run.wanted_addresses,
        glue_id=run.glue_id,
    )
