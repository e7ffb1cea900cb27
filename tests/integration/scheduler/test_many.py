"""Several schedulers share what is due, and a scheduler with nothing to do does little."""

import time

import pytest
from sqlalchemy import event

from scheduler.job_spec import JobSpec
from sql.run_status import RunStatus
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.one_instant import start_all
from tests.support.oracle import assert_sound

JOBS = 1_000


def test_two_schedulers_share_a_thousand_jobs_due_in_one_second(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.dispatcher.BATCH", 100)
    nodes = [cluster.scheduler(), cluster.scheduler()]
    cluster.executor("one", slots=50)
    cluster.executor("two", slots=50)
    cluster.wait_online("one", "two")
    cluster.apply(
        *(
            JobSpec(name=f"job{number}", app=APP, handler="noop", route="RANDOM")
            for number in range(JOBS)
        )
    )

    at_ms = start_all(cluster.database, now_ms=cluster.now_ms(), in_seconds=3)
    eventually(lambda: len(cluster.runs(status=RunStatus.SUCCEEDED)) == JOBS, 60, 0.2)

    runs = cluster.runs()
    assert len(runs) == JOBS
    assert {run.scheduled_at for run in runs} == {at_ms}
    routers = {run.routed_by for run in runs}
    if cluster.database.is_sqlite:  # whose lock of the whole file often goes to the same one
        assert routers <= {node.name for node in nodes}
    else:
        assert routers == {node.name for node in nodes}
    assert {run.executor_address for run in runs} == {"one", "two"}
    assert_sound(cluster)


@on_memory
def test_an_idle_scheduler_asks_the_database_little(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("executor.heartbeat.BEAT_SECONDS", 5.0)
    cluster.scheduler()
    cluster.executor()
    cluster.wait_online()
    cluster.job("later", schedule_kind="CRON", schedule_conf="0 0 0 1 1 ?", enabled=True)
    statements = []
    event.listen(
        cluster.database.engine,
        "before_cursor_execute",
        lambda *values: statements.append(values[2]),
    )
    began = time.monotonic()
    # Beside other work the same instructions take more time: what is always there counts.
    cpu_percents = [_cpu_percent_of_four_seconds() for _ in range(3)]

    per_second = len(statements) / (time.monotonic() - began)
    assert per_second <= 40, statements[-40:]  # with BEGINs, which are half of it
    assert min(cpu_percents) < 4, cpu_percents


def _cpu_percent_of_four_seconds() -> float:
    began, used = time.monotonic(), time.process_time()
    eventually(lambda: time.monotonic() - began > 4, 5, 0.5)
    return 100 * (time.process_time() - used) / (time.monotonic() - began)
