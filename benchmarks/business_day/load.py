"""Lets a load of runs go at once; measures seconds until the last end, and processor time."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select

from benchmarks import cpu
from benchmarks.stack import Stack, none_open
from benchmarks.table import Row
from warren.sql.models import Run

#: How long before they are due runs are planned, and how much longer for each run.
AHEAD_MS = 2_000
PLANNING_MS_PER_RUN = 0.6


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds on the wall from the due time until the last end, and processor seconds by process.

    `runs` have ended meanwhile, those of nodes included.
    """

    seconds: float
    cpu_seconds: Mapping[str, float]
    runs: int

    def rows(self, what: str, goal: str = "", ratio: str = "") -> Iterator[Row]:
        """Yield the lines of the table."""
        yield Row(what, f"{self.seconds:.2f} s", ratio, goal)
        yield from self.cpu_rows()

    def cpu_rows(self) -> Iterator[Row]:
        """Yield the lines of processor time."""
        total = sum(self.cpu_seconds.values())
        each = f"{total * 1e6 / self.runs:,.0f} us a run, {self.runs:,} runs"
        by_process = ", ".join(f"{name} {spent:.2f}" for name, spent in self.cpu_seconds.items())
        yield Row("  CPU", f"{total:.2f} s", each)
        yield Row(f"    {by_process}")


def measure(stack: Stack, job_ids: Sequence[int], count: int) -> Spent:
    """Let so many runs of jobs be due at once; return what they cost until all is over."""
    before = _count(stack)
    due_at = stack.clock.now_ms() + AHEAD_MS + round(PLANNING_MS_PER_RUN * count)
    stack.plan(job_ids, count, due_at=due_at)
    assert stack.clock.now_ms() < due_at, "planning took longer than expected"
    time.sleep((due_at - stack.clock.now_ms()) / 1000)
    meter = cpu.Meter(stack.clocks())
    stack.wait(none_open, every=0.05)
    runs = _count(stack) - before
    spent = {name: us / 1e6 for name, us in meter.spent(1).items()}
    stack.check(job_ids)
    return Spent((_last_end(stack) - due_at) / 1000, spent, runs)


def _count(stack: Stack) -> int:
    counted = select(func.count()).select_from(Run)
    return int(stack.database.read(lambda session: session.execute(counted).scalar_one()))


def _last_end(stack: Stack) -> int:
    last = select(func.max(Run.finished_at))
    return int(stack.database.read(lambda session: session.execute(last).scalar_one()))
