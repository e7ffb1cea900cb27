"""What one limit costs the runs that take it, in turn with as many that take none."""

from collections.abc import Iterator

from benchmarks.business_day.load import Spent, measure
from benchmarks.stack import APP, Stack
from benchmarks.table import Row
from warren.scheduler.jobs.spec import JobSpec

JOBS = 16
#: How many runs may hold the limit at once, and whether 500 claims a second are wanted of it: a
#: limit of two is given back and taken again one after the other.
WIDTHS = ((1_000, ">= 500"), (64, ">= 500"), (16, ">= 500"), (2, ""))


def rows(stack: Stack, *, runs: int) -> Iterator[Row]:
    """Measure; yield the lines of the table."""
    free = _jobs(stack, "free")
    measure(stack, free, 200)  # warm up
    for at_once, goal in WIDTHS:
        name = f"wide-{at_once}"
        stack.limit(name, at_once)
        held = _jobs(stack, name, name)
        count = max(16, min(runs, at_once * 100))
        without, limited = measure(stack, free, count), measure(stack, held, count)
        what = f"claims/s on one limit of {at_once:,}, {count:,} runs of {JOBS} jobs"
        ratio = f"{_rate(limited) / _rate(without):.2f} of runs without"
        yield Row(what, f"{_rate(limited):,.0f}", ratio, goal)
        yield from limited.cpu_rows()
        yield Row("  without a limit", f"{_rate(without):,.0f}")
        yield from without.cpu_rows()


def _jobs(stack: Stack, name: str, *limits: str) -> list[int]:
    return stack.apply(
        [JobSpec(name=f"{name}-{n}", app=APP, handler="noop", limits=limits) for n in range(JOBS)]
    )


def _rate(spent: Spent) -> float:
    return spent.runs / spent.seconds
