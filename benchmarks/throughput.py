"""Measures runs per second from planned to final, with one scheduler and one executor."""

import time
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks import cpu
from benchmarks.rates import Rate
from benchmarks.stack import APP, Stack, none_open
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.models import Run
from warren.sql.run_status import OPEN

#: Time allowed for planning each run before all are due; on an idle machine it takes half of it.
PLANNING_MS_PER_RUN = 0.6
PLANNING_MS_PER_KB = 0.1
#: Seconds between two polls while many runs are open, and how many are few; then every 10 ms.
POLL_SECONDS = 0.1
FEW = 200


def jobs(stack: Stack, count: int, *, process: str = "") -> list[int]:
    """Return the ids of this many jobs whose handler does nothing."""
    prefix = process or "noop"
    return stack.apply(
        [
            JobSpec(name=f"{prefix}-{n}", app=APP, handler="noop", process=process)
            for n in range(count)
        ]
    )


def measure(
    stack: Stack, job_ids: Sequence[int], runs: int, *, handler: str = "noop", param: str = ""
) -> Rate:
    """Return planned runs per second, from their due time until all rows are final."""
    before = stack.count(job_ids)
    planning_ms = (PLANNING_MS_PER_RUN + PLANNING_MS_PER_KB * len(param) / 1_000) * runs
    due_at = stack.clock.now_ms() + 2_000 + round(planning_ms)
    stack.plan(job_ids, runs, due_at=due_at, handler=handler, param=param)
    assert stack.clock.now_ms() < due_at, "planning took longer than expected"
    time.sleep((due_at - stack.clock.now_ms()) / 1000)
    meter, read = cpu.Meter(stack.clocks()), stack.rows_read()
    stack.wait(_few_open, every=POLL_SECONDS)
    final_at = stack.wait(none_open)
    cpu_us, rows_read = meter.spent(runs), (stack.rows_read() - read) / runs
    assert stack.check(job_ids) == before + runs
    return Rate(runs * 1000 / (final_at - due_at), cpu_us, rows_read)


def _few_open(session: Session) -> bool:
    """Whether only few runs are still open."""
    some = select(Run.id).where(Run.status.in_(OPEN)).limit(FEW)
    return len(session.execute(some).all()) < FEW
