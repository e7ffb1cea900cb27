"""When a job fires next, for display; the planner does not use this."""

from warren.scheduler.problems import Problem
from warren.scheduler.schedules.registry import read_schedule
from warren.sql.jobs.parked import PARKED_MS
from warren.sql.listings.recent import ListedJob
from warren.sql.models import Job


def next_fires(job: ListedJob | Job, *, now_ms: int, count: int, timezone: str) -> list[int]:
    """Return the next ticks in epoch milliseconds; for a stopped job, as if it were started now.

    A fixed delay has one at most: the end of a run sets the next one. Raises `Problem` when the
    schedule cannot be read.
    """
    schedule = read_schedule(job.schedule_kind, job.schedule_value, job.timezone or timezone)
    anchor = job.next_tick_at if job.is_enabled else 0
    if schedule.waits_for_completion:
        return [] if is_waiting(job) else [anchor or now_ms]
    return schedule.ticks(now_ms, PARKED_MS, anchor or now_ms, count)


def first_fires(kind: str, value: str, *, now_ms: int, count: int, timezone: str) -> list[int]:
    """Return the ticks of a schedule if it were started now; raises `Problem` likewise.

    A fixed delay has only the first: it fires at once.
    """
    schedule = read_schedule(kind, value, timezone)
    if schedule.waits_for_completion:
        return [now_ms]
    watermark, first = schedule.start(now_ms)
    return schedule.ticks(watermark, PARKED_MS, first or now_ms, count)


def is_waiting(job: ListedJob | Job) -> bool:
    """Whether the end of a run will set a job's next tick."""
    return bool(job.is_enabled and job.next_tick_at == PARKED_MS)


def next_fire(job: ListedJob | Job, *, now_ms: int, timezone: str) -> int | None:
    """Return an enabled job's next tick; None if it is stopped or has none."""
    if not job.is_enabled:
        return None
    try:
        found = next_fires(job, now_ms=now_ms, count=1, timezone=timezone)
    except Problem:
        # The schedule was broken in the database: the scheduler will stop the job.
        return None
    return found[0] if found else None
