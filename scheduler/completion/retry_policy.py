"""Whether another attempt follows the end of a run: a pure decision."""

from bisect import bisect_left

from warren.scheduler.completion.end import End
from warren.scheduler.flows.graph import NodeRetry
from warren.scheduler.jobs.stop_reasons import is_by_person
from warren.scheduler.schedules.registry import WAITING_KINDS
from warren.sql.jobs.job_rows import JobToRun
from warren.sql.models.job_tables import Backoff, DeliveryGuarantee
from warren.sql.run_status import RunStatus
from warren.sql.runs.planning import NewRun
from warren.sql.runs.run_rows import LockedRun, PlannedRun

#: Seconds before each redelivery of a trigger that provably never started; after the last, the run
#: counts as a failed attempt.
REDELIVERY_SECONDS = (0, 1, 2, 4, 8)

#: Seconds before the next try after a refused retry: the cause is probably still there.
REFUSED_SECONDS = 1.0

#: The longest wait of an exponential backoff for jobs that name none, and a bound for its exponent.
MAX_WAIT_SECONDS = 86_400
MAX_DOUBLINGS = 30

#: Ends that are not failures by themselves; after a failed attempt the tick has still failed.
NO_FAILURE = frozenset({RunStatus.REFUSED, RunStatus.KILLED})
#: Ends of runs that no process has begun.
_NEVER_STARTED = frozenset({RunStatus.REFUSED, RunStatus.UNDELIVERED})
_RETRIED = frozenset({RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.UNDELIVERED})


def next_attempt(
    run: LockedRun,
    job: JobToRun | None,
    end: End,
    *,
    now_ms: int,
    chance: float,
    has_failed: bool = False,
) -> NewRun | None:
    """Return the next attempt; None if there is none.

    `chance`, from 0 to 1, places it within the job's jitter.

    A job that was deleted, or stopped by a person, has no further attempts. A run that a user asked
    to kill is not retried, nor one whose handler says a retry is useless; a refused one only if an
    earlier attempt `has_failed`.
    """
    if not end.may_retry or job is None or not _may_run_again(run, job):
        return None
    if end.status is RunStatus.UNDELIVERED and end.never_started:
        again = _redelivery(run, end, now_ms)
        return again or _retry(run, job, end, now_ms=now_ms, chance=chance)
    is_retried = (
        end.status in _RETRIED
        or (end.status is RunStatus.LOST and job.delivery == DeliveryGuarantee.AT_LEAST_ONCE)
        or (end.status is RunStatus.REFUSED and has_failed)
    )
    return _retry(run, job, end, now_ms=now_ms, chance=chance) if is_retried else None


def late_redelivery(
    run: LockedRun, job: JobToRun | None, end: End, *, now_ms: int
) -> NewRun | None:
    """Return the same attempt again, of a LOST run that never started; it never uses a retry.

    A schedule that counts from the end of its runs has gone on from the loss, so its runs are not
    repeated: two of them could overlap.
    """
    if job is None or not _may_run_again(run, job):
        return None
    if run.origin_id == 0 and job.schedule_kind in WAITING_KINDS:
        return None
    return _redelivery(run, end, now_ms)


def _may_run_again(run: LockedRun, job: JobToRun) -> bool:
    return run.kill_requested_at is None and not was_stopped(run, job)


def with_node_retry(job: JobToRun, retry: NodeRetry) -> JobToRun:
    """Return a job with the retry settings of a flow's node."""
    return job._replace(
        retry_delay=job.retry_delay if retry.delay is None else retry.delay,
        retry_backoff=retry.backoff or job.retry_backoff,
        retry_most=job.retry_most if retry.most is None else retry.most,
        retry_jitter=job.retry_jitter if retry.jitter is None else round(retry.jitter * 100),
    )


def was_stopped(run: LockedRun | PlannedRun, job: JobToRun) -> bool:
    """Whether a person stopped the job whose schedule caused this run.

    A job that stopped by itself, because its schedule ended, has a reason and still retries.
    """
    return run.origin_id == 0 and job.is_enabled == 0 and is_by_person(job)


def is_withdrawn(run: LockedRun, job: JobToRun | None, end: End) -> bool:
    """Whether a run never started because its job was stopped; it raises no alarm."""
    return job is not None and end.never_started and was_stopped(run, job)


def _redelivery(run: LockedRun, end: End, now_ms: int) -> NewRun | None:
    """Return the same attempt again, later each time; None after the last redelivery."""
    step = max(run.redeliveries, bisect_left(REDELIVERY_SECONDS, end.least_wait_seconds))
    if step >= len(REDELIVERY_SECONDS):
        return None
    return NewRun.again(
        run,
        due_at=now_ms + REDELIVERY_SECONDS[step] * 1000,
        retries_left=run.retries_left,
        starts=run.starts,
        redeliveries=step + 1,
    )


def _retry(run: LockedRun, job: JobToRun, end: End, *, now_ms: int, chance: float) -> NewRun | None:
    if run.retries_left <= 0:
        return None
    starts = run.starts + _may_have_started(end)
    least = REFUSED_SECONDS if end.status is RunStatus.REFUSED else end.least_wait_seconds
    asked = end.retry_seconds
    wait = max(wait_seconds(job, starts, chance) if asked is None else asked, least)
    return NewRun.again(
        run, due_at=now_ms + int(wait * 1000), retries_left=run.retries_left - 1, starts=starts
    )


def wait_seconds(job: JobToRun, starts: int, chance: float) -> float:
    """Return the wait before the next attempt; `starts` is how many attempts may have started.

    With an exponential backoff it doubles with each start. Jitter only shortens it, so `most`
    holds, and spreads runs that failed together.
    """
    wait = float(job.retry_delay)
    if job.retry_backoff == Backoff.EXPONENTIAL:
        wait *= 2 ** min(max(starts - 1, 0), MAX_DOUBLINGS)
        wait = min(wait, max(job.retry_most or MAX_WAIT_SECONDS, job.retry_delay))
    return wait * (1 - job.retry_jitter / 100 * chance)


def _may_have_started(end: End) -> bool:
    return not end.never_started and end.status not in _NEVER_STARTED
