"""What calendars and backfills cost, without scheduler and executor: on MariaDB, in this process.

MariaDB's own processor time is told with that of this process.
"""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks import schedule_ticks
from benchmarks.servers import Servers
from benchmarks.table import Row
from tests.support.acting import acting
from tests.support.cluster import APP, Cluster
from tests.support.sql_rows import put
from warren.broker.memory import MemoryBroker
from warren.scheduler.backfills.draft import BackfillRequest
from warren.scheduler.calendars.calendar_spec import CalendarSpec
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.schedules.options import ScheduleOptions
from warren.sql.engine import Database
from warren.sql.run_status import RunStatus
from warren.sql.schema import migration

#: How many due times of the measured backfill are open at once.
AT_ONCE = 3


@dataclass(frozen=True, slots=True)
class _Cost:
    """Seconds on the wall, and processor seconds here and of the database."""

    wall: float
    own: float
    database: float

    def words(self) -> str:
        return f"CPU {self.own * 1000:,.0f} ms, mariadbd {self.database * 1000:,.0f} ms"


def tick_rows() -> Iterator[Row]:
    """Measure the next tick with all options; yield the lines of the table."""
    for kind, value, found in schedule_ticks.measure():
        what = f"next tick, all options, {kind} {value}: median"
        yield Row(what, f"{found.median:.0f} us", f"p90 {found.p90:.0f} us", "<= 50 us")


def rows(own: Servers, *, jobs: int, ticks: int, times: int) -> Iterator[Row]:
    """Measure; yield the lines of the table."""
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as folder:
        database = Database(own.database.create_database())
        migration.upgrade(database)
        cluster = Cluster(Path(folder), database, MemoryBroker().transport)
        try:
            cluster.add_app(APP)
            yield from _calendar_rows(own, cluster, jobs, times)
            yield from _refill_rows(own, cluster, ticks)
        finally:
            cluster.close()


def _calendar_rows(own: Servers, cluster: Cluster, jobs: int, times: int) -> Iterator[Row]:
    """Change a calendar so that the next due time of every job moves."""
    today = datetime.now(UTC).date()
    commands = acting(cluster.database, who="bench")

    def change(off: int) -> None:
        days = {today + timedelta(days=day): "off" for day in range(1, 1 + off)}
        until = today + timedelta(days=400)
        spec = CalendarSpec(name="bench", days=days, until=until)
        commands.calendars.apply("bench", commands.calendars.resolved(spec))

    change(0)
    options = ScheduleOptions.of({"calendar": "bench", "window": "06:00-22:00", "jitter": "2m"})
    specs = [
        JobSpec(
            name=f"daily-{n}",
            app=APP,
            handler="noop",
            schedule_kind="CRON",
            schedule_value=f"{n % 60} {n // 60 % 60} 20 * * ?",
            schedule_options=options,
            timezone="UTC",
            enabled=True,
        )
        for n in range(jobs)
    ]
    commands.job_files.apply([], specs, dry_run=False, prune=False)
    costs = [_cost(own, lambda turn=turn: change(3 + turn)) for turn in range(times)]  # type: ignore[misc]
    best = min(costs, key=lambda cost: cost.wall)
    what = f"a changed calendar: {jobs:,} jobs planned again after"
    yield Row(what, f"{best.wall:.2f} s", best.words(), "<= 1 s")


def _refill_rows(own: Servers, cluster: Cluster, ticks: int) -> Iterator[Row]:
    """End the open runs of a backfill and let it plan the next ones, until it is done."""
    commands = acting(cluster.database, who="bench")
    spec = JobSpec(
        name="filled",
        app=APP,
        handler="noop",
        schedule_kind="CRON",
        schedule_value="0 30 18 * * ?",
        timezone="UTC",
    )
    job_id = commands.jobs.create(spec)
    today = datetime.now(UTC).date()
    request = BackfillRequest(
        from_date=today - timedelta(days=ticks), to_date=today - timedelta(days=1), at_once=AT_ONCE
    )
    commands.backfills.make(job_id, request)
    node = cluster.new_scheduler()
    try:
        costs = []
        for _ in range(ticks // AT_ONCE):
            costs.append(_cost(own, lambda: node.roles.refill.run_round(cluster.now_ms())))
            open_ids = [run.id for run in cluster.runs(job_id=job_id, status=RunStatus.PLANNED)]
            assert len(open_ids) == AT_ONCE
            put(cluster.database, open_ids, status=RunStatus.SUCCEEDED)
    finally:
        node.close()
    walls = sorted(cost.wall * 1000 for cost in costs)
    p95 = walls[len(walls) * 95 // 100]
    each = _Cost(
        0.0, *(statistics.mean(getattr(c, of) for c in costs) for of in ("own", "database"))
    )
    what = f"refill of a backfill of {ticks} due times, {AT_ONCE} at once: p95"
    median = f"median {statistics.median(walls):.0f} ms, mean {each.words()}"
    yield Row(what, f"{p95:.0f} ms", median, "<= 50 ms")


def _cost(own: Servers, work: Callable[[], object]) -> _Cost:
    clock = own.measured.processor_seconds
    database, began, spent = clock(), time.perf_counter(), time.process_time()
    work()
    return _Cost(time.perf_counter() - began, time.process_time() - spent, clock() - database)
