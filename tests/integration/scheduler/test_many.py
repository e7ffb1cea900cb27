"""Several schedulers share what is due, and a scheduler with nothing to do does little."""

import time
from datetime import UTC, datetime

import pytest
from sqlalchemy import event, insert, update
from sqlalchemy.orm import Session

from scheduler.job_spec import JobSpec
from sql.models import History, Job
from sql.run_status import RunStatus
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
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

    at_ms = _start_all(cluster, in_seconds=8)
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


def _start_all(cluster: Cluster, *, in_seconds: int) -> int:
    """Start all jobs at once, as starting them one by one would, for one instant; return it."""
    now_ms = cluster.now_ms()
    at_ms = (now_ms // 1_000 + in_seconds) * 1_000
    schedule = {
        "schedule_type": "AT",
        "schedule_conf": datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(),
    }
    known = {"timezone": "UTC", "misfire_strategy": "DO_NOTHING", "changed_by": "test"}
    change = known | schedule | {"changed_at": now_ms, "watermark": now_ms, "anchor": at_ms}
    started = {"trigger_status": 1, "trigger_last_time": now_ms, "trigger_next_time": at_ms}
    job_ids = [job.id for job in cluster.jobs()]

    def unit(session: Session) -> None:
        rows = [change | {"job_id": job_id, "enabled": 1} for job_id in job_ids]
        session.execute(insert(History), rows)
        session.execute(update(Job).values(**schedule, **started))

    cluster.database.write(unit)
    return at_ms


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
    began, used = time.monotonic(), time.process_time()

    eventually(lambda: time.monotonic() - began > 4, 5, 0.5)

    per_second = len(statements) / (time.monotonic() - began)
    cpu_percent = 100 * (time.process_time() - used) / (time.monotonic() - began)
    assert per_second <= 40, statements[-40:]  # with BEGINs, which are half of it
    # A thread that goes round and round without a pause takes most of a core; others' load, some.
    assert cpu_percent < 12
