"""The axes of growth, and how a run's cost is measured at each of their points.

An axis prepares one measurement for each point; they are then called in turn, repeatedly.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from sqlalchemy import func, select

from benchmarks import measures, throughput
from benchmarks.growth.laboratory import KEEP_ALL, Laboratory
from benchmarks.rates import Rate
from benchmarks.simulated import APP as SIMULATED
from benchmarks.stack import Stack
from tests.support.eventually import eventually
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.routing.routes import Route
from warren.sql.instants import at
from warren.sql.models import Run
from warren.sql.registry import presence

Measurement = Callable[[], Rate]

#: Jobs that share a load, unless their number is the axis.
JOBS = 16
#: Jobs of stored runs and runs of stored jobs, unless their number is the axis.
JOBS_OF_RUNS, RUNS_OF_JOBS = 1_000, 10_000
#: Of 30 stored days, a week is past the retention time.
KEPT_DAYS = 23
KEEP_23_DAYS = {"WARREN_RUN_RETENTION_DAYS": str(KEPT_DAYS)}
#: Measurements with one job or large params have this many times fewer runs.
FEWER = 4


@dataclass(frozen=True, slots=True)
class Axis:
    """One thing that grows: its points, and fewer of them for a quick run."""

    name: str
    what: str
    points: tuple[int, ...]
    short: tuple[int, ...]
    prepare: Callable[[Laboratory, Sequence[int]], Sequence[Measurement]]
    #: How much more a run may cost than at the first point; None if a higher cost is inevitable.
    goal: float | None = None


def jobs_stored(laboratory: Laboratory, points: Sequence[int]) -> list[Measurement]:
    """Enabled jobs that are not due for months."""
    stacks = [laboratory.stack(jobs=point, runs=RUNS_OF_JOBS) for point in points]
    return [_load(laboratory, stack) for stack in stacks]


def runs_stored(laboratory: Laboratory, points: Sequence[int]) -> list[Measurement]:
    """Finished runs of the last thirty days."""
    stacks = [laboratory.stack(jobs=JOBS_OF_RUNS, runs=point) for point in points]
    return [_load(laboratory, stack) for stack in stacks]


def jobs_that_fire(laboratory: Laboratory, points: Sequence[int]) -> list[Measurement]:
    """The same runs over more and more jobs; an executor takes at most 1,000 of one job."""
    stack, runs = laboratory.plain, laboratory.runs // FEWER
    return [partial(throughput.measure, stack, throughput.jobs(stack, n), runs) for n in points]


def executors(laboratory: Laboratory, points: Sequence[int]) -> list[Measurement]:
    """Simulated executors, whose work counts as the benchmark's own."""
    stack = laboratory.plain
    specs = [
        JobSpec(name=f"spread-{n}", app=SIMULATED, handler="noop", route=Route.ROUND)
        for n in range(JOBS)
    ]
    ids = stack.apply(specs)
    return [partial(_with_executors, stack, point, ids, laboratory.runs) for point in points]


def schedulers(laboratory: Laboratory, points: Sequence[int]) -> list[Measurement]:
    """Schedulers that share the work."""
    stacks = [laboratory.stack(schedulers=point) for point in points]
    return [_load(laboratory, stack) for stack in stacks]


def due_at_once(laboratory: Laboratory, points: Sequence[int]) -> list[Measurement]:
    """Jobs whose ticks are in the same second."""
    return [lambda point=point: measures.storm(laboratory.plain, point).rate for point in points]  # type: ignore[misc]


def params_and_logs(laboratory: Laboratory, points: Sequence[int]) -> list[Measurement]:
    """Params of this many kB, which the handler writes into its log."""
    stack, runs = laboratory.plain, laboratory.runs // FEWER
    ids = throughput.jobs(stack, JOBS)
    return [
        partial(throughput.measure, stack, ids, runs, handler="talkative", param="x" * 1_000 * kb)
        for kb in points
    ]


def clearing(laboratory: Laboratory, points: Sequence[int]) -> list[Measurement]:
    """Runs past their retention time, which a scheduler clears in the meantime."""
    stored = max(points) * 30 // 7
    keeping, clearing = (
        laboratory.stack(jobs=JOBS_OF_RUNS, runs=stored, env=env)
        for env in (KEEP_ALL, KEEP_23_DAYS)
    )
    return [
        partial(_beside_clearing, clearing, laboratory.runs)
        if point
        else _load(laboratory, keeping)
        for point in points
    ]


AXES = (
    Axis("jobs", "jobs stored", (1_000, 100_000, 1_000_000), (100, 2_000), jobs_stored, 1.1),
    Axis("runs", "runs stored", (10_000, 1_000_000, 10_000_000), (2_000, 20_000), runs_stored, 1.1),
    Axis("distinct", "jobs that fire", (1, 100, 1_000), (1, 30), jobs_that_fire),
    Axis("executors", "simulated executors", (1, 10, 50), (1, 10), executors),
    Axis("schedulers", "schedulers", (1, 2, 3), (1, 2), schedulers),
    Axis("due", "jobs due in one second", (1_000, 10_000), (30, 100), due_at_once),
    Axis("sizes", "kB of params and of log", (1, 16, 64), (1, 16), params_and_logs),
    Axis("clearing", "expired runs, cleared meanwhile", (0, 250_000), (0, 50_000), clearing),
)


def _load(laboratory: Laboratory, stack: Stack) -> Measurement:
    """Return the standard load."""
    return partial(throughput.measure, stack, throughput.jobs(stack, JOBS), laboratory.runs)


def _beside_clearing(stack: Stack, runs: int) -> Rate:
    """Measure the standard load; something is still left to clear afterwards."""
    rate = throughput.measure(stack, throughput.jobs(stack, JOBS), runs)
    oldest = stack.database.read(lambda s: s.execute(select(func.min(Run.due_second))).scalar_one())
    kept_from = at(stack.clock.now_ms()) - timedelta(days=KEPT_DAYS + 1)
    assert oldest < kept_from, "everything was cleared before the load was over"
    return rate


def _with_executors(stack: Stack, count: int, ids: Sequence[int], runs: int) -> Rate:
    with stack.simulated(count):
        eventually(lambda: _are_there(stack, count), 60.0, every=0.2)
        return throughput.measure(stack, ids, runs)


def _are_there(stack: Stack, count: int) -> bool:
    """Whether exactly this many executors are registered."""
    kind = presence.EXECUTOR
    return len(stack.database.read(lambda s: presence.listing(s, kind, SIMULATED))) == count
