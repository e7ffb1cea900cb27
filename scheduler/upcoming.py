"""When a job fires next, for people to look at; the planner has its own way."""

from scheduler.schedule import Schedule
from sql.models import Job
from sql.parked import PARKED_MS
from sql.rows import AnyRow


def next_fires(job: AnyRow | Job, *, now_ms: int, count: int, timezone: str) -> list[int]:
    """Return the next ticks in epoch milliseconds; of a stopped job, as if it were started now.

    A fixed delay has one at most: the end of a run sets the next one. Raises `ValueError` when the
    schedule cannot be read.
    """
    schedule = Schedule.parse(job.schedule_type, job.schedule_conf or "", job.timezone or timezone)
    anchor = job.trigger_next_time if job.trigger_status else 0
    if schedule.waits_for_completion:
        return [] if is_waiting(job) else [anchor or now_ms]
    return _walk(schedule, now_ms, anchor or now_ms, count)


def first_fires(kind: str, conf: str, *, now_ms: int, count: int, timezone: str) -> list[int]:
    """Return the ticks of a schedule that would be started now; raises `ValueError` likewise.

    Of a fixed delay there is the first: it fires at once.
    """
    schedule = Schedule.parse(kind, conf, timezone)
    if schedule.waits_for_completion:
        return [now_ms]
    # A fixed rate begins on a whole second, one period after the start.
    return _walk(schedule, now_ms, -(-now_ms // 1000) * 1000, count)


def is_waiting(job: AnyRow | Job) -> bool:
    """Whether the end of a run is to set a job's next tick."""
    return bool(job.trigger_status and job.trigger_next_time == PARKED_MS)


def next_fire(job: AnyRow | Job, *, now_ms: int, timezone: str) -> int | None:
    """Return an enabled job's next tick; None when it is stopped or has none."""
    if not job.trigger_status:
        return None
    try:
        found = next_fires(job, now_ms=now_ms, count=1, timezone=timezone)
    except ValueError:
        # A schedule that somebody broke in the database: the scheduler will stop the job.
        return None
    return found[0] if found else None


def _walk(schedule: Schedule, now_ms: int, anchor_ms: int, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        tick = schedule.next_after(found[-1] if found else now_ms, anchor_ms)
        if tick is None:
            break
        found.append(tick)
    return found
