"""Measurements of a running Warren; each function checks the runs that its figures are about."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from benchmarks import cpu
from benchmarks.rates import Rate
from benchmarks.stack import APP, Stack, count_of_tick, none_open, none_unsent
from benchmarks.table import Row
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.schedules.misfire import WINDOW_MS, MisfirePolicy
from warren.sql.models import Run
from warren.sql.run_status import RunStatus

#: How long the first ticks of jobs are left out of a measurement.
SETTLING_SECONDS = 2.0
#: A storm that takes longer has gone wrong.
STORM_SECONDS = 900.0
#: How long before a storm the clocks are read.
METER_MS = 1_000
#: The planner plans so far ahead, and a little more.
PLANNER_MS = WINDOW_MS + 1_000


@dataclass(frozen=True, slots=True)
class Lateness:
    """How many milliseconds after their ticks handlers began: median and 99th percentile."""

    p50: float
    p99: float
    runs: int


@dataclass(frozen=True, slots=True)
class Storm:
    """Seconds from a common tick until all runs were sent and until all were done; their costs.

    `stored_ms`: from the tick until the row of each run had its result, by the database's clock.
    """

    sent_seconds: float
    done_seconds: float
    rate: Rate
    stored_ms: Sequence[float]

    def stored(self) -> str:
        """Return the median and the last of those times, as a line of the table has them."""
        return f"p50 {statistics.median(self.stored_ms):,.0f} · last {max(self.stored_ms):,.0f} ms"


def every_second(prefix: str, jobs: int, *, handler: str) -> list[JobSpec]:
    """Return jobs that are due at each full second once they are enabled."""
    return [
        JobSpec(
            name=f"{prefix}-{n}",
            app=APP,
            handler=handler,
            schedule_kind="CRON",
            schedule_value="* * * * * ?",
        )
        for n in range(jobs)
    ]


def lateness_at_full_seconds(stack: Stack, *, jobs: int, seconds: float) -> Lateness:
    """Let jobs tick at each full second for some time; return how late handlers began.

    The first ticks are left out, as hundreds of jobs take time to start and stop by commands.
    """
    specs = every_second("second", jobs, handler="lateness")
    ids = stack.apply(specs)
    names = [spec.name for spec in specs]
    stack.begin(names)
    from_ms = stack.clock.now_ms() + round(SETTLING_SECONDS * 1_000)
    time.sleep(seconds + SETTLING_SECONDS + 1)
    until_ms = stack.clock.now_ms() - 1_000
    stack.stop(names)
    return _lateness_of(stack, ids, from_ms, until_ms)


def lateness_spread(stack: Stack, *, per_second: int, seconds: float) -> Lateness:
    """Let one-shot jobs be due at regular intervals; return how late handlers began."""
    count = round(per_second * seconds)
    ids, from_ms = _apply_ahead(
        stack, lambda from_ms: _due_once(count, from_ms, per_second=per_second)
    )
    until_ms = from_ms + round(seconds * 1_000)
    time.sleep((until_ms + 1_000 - stack.clock.now_ms()) / 1000)
    late = _lateness_of(stack, ids, from_ms, until_ms)
    assert late.runs == count
    return late


def lateness_row(what: str, late: Lateness) -> Row:
    """Return the line of the table."""
    return Row(what, f"p50 {late.p50:.0f} · p99 {late.p99:.0f} ms", "", "p50 <= 50, p99 <= 120")


def storm(stack: Stack, jobs: int, *, process: str = "") -> Storm:
    """Let jobs be due in the same second; return how long until all were sent and done.

    They are the same jobs each time. With a `process`, they are one-time jobs of that kind.
    """

    def specs(at_ms: int) -> list[JobSpec]:
        return _due_once(jobs, at_ms, process=process) if process else _due_daily(jobs, at_ms)

    stack.note_changes()
    ids, at_ms = _apply_ahead(stack, specs)
    before = stack.count(ids)
    # To read the clocks of thousands of processes takes a core for a while: not in the storm.
    time.sleep((at_ms - METER_MS - stack.clock.now_ms()) / 1000)
    meter, read = cpu.Meter(stack.clocks()), stack.rows_read()
    time.sleep(max(0, at_ms - stack.clock.now_ms()) / 1000)
    # On a busy machine some are planned after their tick.
    stack.wait(lambda session: count_of_tick(session, at_ms) == jobs, STORM_SECONDS, every=0.1)
    sent_at = stack.wait(none_unsent, STORM_SECONDS)
    done_at = stack.wait(none_open, STORM_SECONDS)
    cpu_us, rows_read = meter.spent(jobs), (stack.rows_read() - read) / jobs
    assert stack.check(ids) == before + jobs
    rate = Rate(jobs * 1000 / (done_at - at_ms), cpu_us, rows_read)
    stored_ms = [at - at_ms for at in stack.changed_ms(ids, at_ms)]
    return Storm((sent_at - at_ms) / 1000, (done_at - at_ms) / 1000, rate, stored_ms)


def _apply_ahead(stack: Stack, specs: Callable[[int], list[JobSpec]]) -> tuple[list[int], int]:
    """Apply jobs that are due from a full second on; return their ids and that time.

    The planner has plenty of time before it. How long applying takes is estimated by applying them
    for an hour later; if the estimate was too short, it is done again with twice the time.
    """
    began = time.monotonic()
    stack.apply(specs(_full_second(stack, 3_600_000)))
    ahead_ms = round((time.monotonic() - began) * 2_000) + 2 * PLANNER_MS
    while True:
        at_ms = _full_second(stack, ahead_ms)
        ids = stack.apply(specs(at_ms))
        if stack.clock.now_ms() < at_ms - PLANNER_MS:
            return ids, at_ms
        ahead_ms *= 2


def _full_second(stack: Stack, ahead_ms: int) -> int:
    return (stack.clock.now_ms() + ahead_ms) // 1_000 * 1_000


def _due_daily(jobs: int, at_ms: int) -> list[JobSpec]:
    daily = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%-S %-M %-H * * ?")
    return [
        JobSpec(
            name=f"storm-{number}",
            app=APP,
            handler="noop",
            schedule_kind="CRON",
            schedule_value=daily,
            misfire=MisfirePolicy.FIRE_ONCE_NOW,
            enabled=True,
        )
        for number in range(jobs)
    ]


def _due_once(count: int, from_ms: int, *, per_second: int = 0, process: str = "") -> list[JobSpec]:
    """Return one-time jobs, `per_second` or all at once."""
    return [
        JobSpec(
            name=f"once{process}-{number}",
            app=APP,
            handler="noop" if process else "lateness",
            schedule_kind="AT",
            schedule_value=datetime.fromtimestamp(
                (from_ms + (number * 1_000 // per_second if per_second else 0)) / 1000, UTC
            ).isoformat(timespec="milliseconds"),
            process=process,
            misfire=MisfirePolicy.FIRE_ONCE_NOW,
            enabled=True,
        )
        for number in range(count)
    ]


def _lateness_of(stack: Stack, ids: Sequence[int], from_ms: int, until_ms: int) -> Lateness:
    stack.wait(none_open)
    stack.check(ids)
    late = [
        float(str(words))
        for tick, words, status in stack.rows(ids, Run.scheduled_at, Run.message, Run.status)
        if from_ms <= int(str(tick)) < until_ms and status == RunStatus.SUCCEEDED
    ]
    cuts = statistics.quantiles(late, n=100)
    return Lateness(p50=cuts[49], p99=cuts[98], runs=len(late))
