"""Measures how quickly broadcasts to many executors finish."""

import statistics
import time
from dataclasses import dataclass

from benchmarks import simulated
from benchmarks.stack import Stack, none_open
from tests.support.eventually import eventually
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.routing.routes import Route
from warren.sql.models import Run

#: How many times a single broadcast is measured.
TIMES = 5


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Shards per second of many simultaneous broadcasts, and the seconds one alone takes."""

    shards_per_second: float
    alone_seconds: float


def measure(stack: Stack, executors: int, ticks: int) -> Broadcast:
    """Measure broadcasts from their due time until the rows of all shards are final."""
    name, route = "broadcast", Route.SHARDING_BROADCAST
    with stack.simulated(executors):
        [job] = stack.apply([JobSpec(name=name, app=simulated.APP, handler="noop", route=route)])
        eventually(lambda: _shards(stack, job, 1)[0] == executors, 60, every=0.5)
        alone = [_shards(stack, job, 1)[1] for _ in range(TIMES)]
        count, seconds = _shards(stack, job, ticks)
        assert count == executors * ticks
        stack.check([job])
    return Broadcast(count / seconds, statistics.median(alone))


def _shards(stack: Stack, job: int, ticks: int) -> tuple[int, float]:
    """Let this many ticks be due in one second; return the number of shards and the seconds."""
    before = len(stack.rows([job], Run.id))
    due_at = stack.clock.now_ms() + 1_000
    stack.plan([job], ticks, due_at=due_at)
    time.sleep(max(0, due_at - stack.clock.now_ms()) / 1000)
    final_at = stack.wait(none_open)
    return len(stack.rows([job], Run.id)) - before, (final_at - due_at) / 1000
