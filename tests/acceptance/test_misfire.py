"""What becomes of ticks that came due while no scheduler was there."""

import signal

from sql.run_status import RunStatus
from tests.support.deployment import Deployment
from tests.support.eventually import eventually

LATE_MS = 5_000


def test_both_misfire_policies_after_all_schedulers_were_down(deployment: Deployment) -> None:
    first = deployment.scheduler()
    executor = deployment.executor()
    deployment.await_schedulers(first)
    deployment.await_executors(executor)
    deployment.job("warm-up")
    deployment.await_status(deployment.trigger("warm-up"), RunStatus.SUCCEEDED)
    first.send(signal.SIGTERM)
    assert first.wait() == 0

    every_second = {"schedule_kind": "CRON", "schedule_conf": "* * * * * ?", "enabled": True}
    deployment.job("careless", misfire="DO_NOTHING", **every_second)
    deployment.job("careful", misfire="FIRE_ONCE_NOW", **every_second)
    started_ms = deployment.now_ms()
    eventually(lambda: deployment.now_ms() > started_ms + LATE_MS + 2_000, 20, every=0.1)
    second = deployment.scheduler()
    deployment.await_schedulers(second)
    for job in ("careless", "careful"):
        eventually(lambda job=job: _succeeded(deployment, job, "CRON"), 30, every=0.1)
    deployment.stop_jobs()
    deployment.await_all_final()

    [skip] = deployment.skips("careless")
    assert skip.count >= 6
    assert _succeeded(deployment, "careless", "MISFIRE") == []
    assert min(run.scheduled_at for run in deployment.runs("careless")) == skip.to_at + 1_000

    [caught_up] = _succeeded(deployment, "careful", "MISFIRE")
    [skip] = deployment.skips("careful")
    assert skip.count >= 5
    assert caught_up.scheduled_at == skip.to_at + 1_000
    ticks = [run.scheduled_at for run in deployment.runs("careful")]
    assert min(ticks) == caught_up.scheduled_at


def _succeeded(deployment: Deployment, job: str, kind: str) -> list:
    return deployment.runs(job, kind=kind, status=RunStatus.SUCCEEDED)
