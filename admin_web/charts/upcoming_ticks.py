"""How many ticks are due in each minute of the next hour.

A job's later ticks depend only on its next one, so they are computed once for each.
"""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from warren.scheduler.problems import Problem
from warren.scheduler.schedules.registry import read_schedule
from warren.sql.instants import HOUR_MS, MINUTE_MS
from warren.sql.jobs.due_jobs import PARKED_MS
from warren.sql.listings.next_ticks import DueJob

#: Ticks of a job that are computed exactly; further ones are spread evenly.
ONE_BY_ONE = 12


def per_minute(jobs: Iterable[DueJob], timezone: str, *, from_ms: int) -> Counter[int]:
    """Return how many ticks the jobs have in each minute of the hour from `from_ms` on.

    `timezone` is that of jobs that name none.
    """
    found: Counter[int] = Counter()
    for job in jobs:
        zone = job.timezone or timezone
        later = later_ticks(job.schedule_kind, job.schedule_value or "", zone, job.next_tick_at)
        for at_ms in (job.next_tick_at, *later):
            if from_ms <= at_ms < from_ms + HOUR_MS:
                found[(at_ms - from_ms) // MINUTE_MS] += 1
    return found


@lru_cache(maxsize=5_000)
def later_ticks(kind: str, value: str, timezone: str, next_ms: int) -> tuple[int, ...]:
    """Return the ticks of a schedule within the hour after a tick; approximate if many."""
    if next_ms >= PARKED_MS:
        return ()
    until_ms = next_ms + HOUR_MS - 1
    try:
        schedule = read_schedule(kind, value, timezone)
        first = schedule.ticks(next_ms, until_ms, next_ms, ONE_BY_ONE)
        if len(first) < ONE_BY_ONE:
            return tuple(first)
        more = schedule.count(first[-1], until_ms, next_ms)
    except Problem:
        return ()  # a broken row; the scheduler will stop the job
    pause = (until_ms - first[-1]) / (more + 1)
    return (*first, *(first[-1] + int(pause * number) for number in range(1, more + 1)))
