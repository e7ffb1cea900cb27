"""Measures how quickly a chain of children finishes."""

import statistics

from benchmarks.stack import APP, Stack, none_open
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.models import Run


def measure(stack: Stack, length: int, times: int) -> float:
    """Return the seconds from a trigger to the last job's end; the median of several times."""
    specs = [
        JobSpec(
            name=f"chain-{number}",
            app=APP,
            handler="noop",
            children=() if number == length else (f"chain-{number + 1}",),
        )
        for number in range(1, length + 1)
    ]
    jobs = stack.apply(specs)
    taken = [_seconds(stack, jobs) for _ in range(times)]
    assert stack.check(jobs) == length * times
    return statistics.median(taken)


def _seconds(stack: Stack, jobs: list[int]) -> float:
    """Trigger the first job; return the seconds until the last one has ended."""
    due_at = stack.clock.now_ms()
    stack.plan(jobs[:1], 1, due_at=due_at)
    stack.wait(none_open)
    ended_at = max(int(str(at)) for (at,) in stack.rows(jobs[-1:], Run.finished_at))
    return (ended_at - due_at) / 1000
