"""Schedulers store what they count, in numbers that all of them share and that never fall."""

from collections.abc import Iterator

import pytest

from tests.support.cluster import APP, Cluster, on_memory
from tests.support.fake_executor import FakeExecutor
from tests.support.faults import MortalDatabase
from tests.support.stored_rows import Rows
from warren.scheduler.metrics import CHOOSE_MS, SEARCH_MS, Ended, MetricsRecorder, RunMetrics
from warren.sql import metrics
from warren.sql.alarms import watches
from warren.sql.engine import Database
from warren.sql.errors import DatabaseUnavailable
from warren.sql.metrics import ABOVE, LATENESS_BOUNDS_MS, SUM, Counted
from warren.sql.run_status import RunStatus

NOW = 1_800_000_000_000


@pytest.fixture
def rows(any_schema_url: str) -> Iterator[Rows]:
    rows = Rows(any_schema_url)
    yield rows
    rows.database.close()


def numbers(database: Database, name: Counted, app: str = "reports") -> dict[str, int]:
    stored = database.read(metrics.of_apps)
    return {row.label: row.number for row in stored if (row.name, row.app) == (name, app)}


def successes(database: Database, *job_ids: int) -> list[int]:
    stored = database.read(lambda session: metrics.last_successes(session, job_ids))
    return [row.succeeded_at for row in stored]


class Scheduler:
    """What counts in one scheduler, and what stores it."""

    def __init__(self, database: Database, *, jobs_limit: int = 10) -> None:
        self.metrics = RunMetrics()
        self.recorder = MetricsRecorder(database, self.metrics, jobs_limit=jobs_limit)

    def end(
        self, app_id: int, job_id: int = 1, *, status: str = "SUCCEEDED", at: int = NOW
    ) -> None:
        self.metrics.add([Ended(app_id, job_id, RunStatus(status), at - 70, at - 20, at)])


def test_schedulers_add_to_the_same_numbers(rows: Rows) -> None:
    app_id = rows.app()
    one, two = Scheduler(rows.database), Scheduler(rows.database)
    for scheduler in (one, two):
        scheduler.end(app_id)
        scheduler.end(app_id, status="FAILED")
        scheduler.metrics.skip({app_id: 3})

    one.recorder.run_round(NOW)
    two.recorder.run_round(NOW)
    one.recorder.run_round(NOW + 5_000)  # nothing is added twice

    assert numbers(rows.database, Counted.RUNS) == {"SUCCEEDED": 2, "FAILED": 2}
    assert numbers(rows.database, Counted.DURATION) == {"100": 4, "sum": 80}
    assert numbers(rows.database, Counted.LATENESS) == {"50": 4, "sum": 200}
    assert numbers(rows.database, Counted.SKIPS) == {"": 6}


def test_what_the_database_did_not_take_is_stored_later(rows: Rows) -> None:
    app_id, mortal = rows.app(), MortalDatabase(rows.database)
    scheduler = Scheduler(mortal)
    scheduler.recorder.run_round(NOW)
    scheduler.end(app_id)
    mortal.die()
    with pytest.raises(DatabaseUnavailable):
        scheduler.recorder.run_round(NOW + 5_000)
    scheduler.end(app_id)
    mortal.is_dead = False

    scheduler.recorder.run_round(NOW + 10_000)

    assert numbers(rows.database, Counted.RUNS) == {"SUCCEEDED": 2}


def test_the_last_success_is_kept_and_never_falls(rows: Rows) -> None:
    job_id = rows.job("nightly", is_enabled=1)
    one, two = Scheduler(rows.database), Scheduler(rows.database)
    for scheduler in (one, two):
        scheduler.recorder.run_round(NOW)  # chooses the job
    one.end(rows.app(), job_id, at=NOW + 2_000)
    two.end(rows.app(), job_id, at=NOW + 1_000)

    one.recorder.run_round(NOW + 5_000)
    two.recorder.run_round(NOW + 5_000)

    assert successes(rows.database, job_id) == [NOW + 2_000]


def test_runs_at_times_to_come_hide_no_success(rows: Rows) -> None:
    """10,000 reminders of a job are more than what is read of its newest runs."""
    job_id = rows.job("remind", is_enabled=1)
    done = rows.run(job_id, NOW - 1_000, status="SUCCEEDED")
    rows.set_run(done, finished_at=NOW - 500)
    for hours in range(1, 4):
        rows.run(job_id, NOW + hours * 3_600_000)

    found = rows.database.read(
        lambda s: metrics.last_successes_in_runs(s, [job_id], now_ms=NOW, most=2)
    )
    last = rows.database.read(lambda s: watches.last_success(s, job_id, now_ms=NOW, most=2))
    judged = rows.database.read(lambda s: watches.runs_after(s, job_id, 0, now_ms=NOW, most=2))

    assert (found, last) == ({job_id: NOW - 500}, NOW - 500)
    assert [run.scheduled_at for run in judged] == [NOW - 1_000]


def test_only_chosen_jobs_have_a_last_success_so_that_no_run_costs_a_row(rows: Rows) -> None:
    first, second = (rows.job(name, is_enabled=1) for name in ("first", "second"))
    scheduler = Scheduler(rows.database, jobs_limit=1)
    scheduler.recorder.run_round(NOW)
    scheduler.end(rows.app(), first)
    scheduler.end(rows.app(), second)

    scheduler.recorder.run_round(NOW + 5_000)

    assert successes(rows.database, first) == [NOW]
    assert successes(rows.database, second) == []


def test_a_success_that_a_killed_scheduler_had_counted_is_found_in_its_runs(rows: Rows) -> None:
    job_id = rows.job("nightly", is_enabled=1)
    scheduler = Scheduler(rows.database)
    scheduler.recorder.run_round(NOW)
    rows.run(job_id, NOW + 1_000, status="SUCCEEDED", finished_at=NOW + 3_000)
    rows.run(job_id, NOW + 2_000, status="FAILED", finished_at=NOW + 4_000)

    scheduler.recorder.run_round(NOW + SEARCH_MS)
    Scheduler(rows.database).recorder.run_round(NOW + 5_000)

    assert successes(rows.database, job_id) == [NOW + 3_000]


def test_a_job_that_is_enabled_later_gets_its_last_success_too(rows: Rows) -> None:
    scheduler = Scheduler(rows.database)
    scheduler.recorder.run_round(NOW)
    job_id = rows.job("late", is_enabled=1)
    rows.run(job_id, NOW, status="SUCCEEDED", finished_at=NOW + 3_000)

    scheduler.recorder.run_round(NOW + CHOOSE_MS)

    assert successes(rows.database, job_id) == [NOW + 3_000]


@on_memory
def test_a_plain_success_is_counted_with_its_lateness_and_its_row_is_not_read(
    cluster: Cluster,
) -> None:
    node = cluster.scheduler()
    desk = FakeExecutor(cluster).join()
    cluster.job("work")
    run_id = cluster.trigger("work")
    [trigger] = desk.take()
    cluster.wait_status(run_id, RunStatus.SENT)
    due_at = cluster.run(run_id).due_at
    facts = {"started_at_ms": due_at + 400, "finished_at_ms": due_at + 400}

    desk.report(
        desk.finished(run_id, alone_of_job=trigger.job_id, due_at_ms=trigger.due_at_ms, **facts)
    )
    cluster.wait_final(run_id)
    node.stop()
    cluster.schedulers.remove(node)

    assert trigger.due_at_ms == due_at
    assert numbers(cluster.database, Counted.RUNS, APP) == {"SUCCEEDED": 1}
    [bound] = numbers(cluster.database, Counted.LATENESS, APP).keys() - {SUM}
    assert bound in {ABOVE, *map(str, LATENESS_BOUNDS_MS)}


@on_memory
def test_what_a_person_cancels_is_counted_in_the_same_transaction(cluster: Cluster) -> None:
    cluster.job("work")
    run_id, other = cluster.trigger("work"), cluster.trigger("work")

    cluster.commands().kill(run_id)
    assert numbers(cluster.database, Counted.RUNS, APP) == {"CANCELLED": 1}

    cluster.commands().delete("work")
    assert cluster.run(other).status == RunStatus.CANCELLED
    assert numbers(cluster.database, Counted.RUNS, APP) == {"CANCELLED": 2}
