"""What becomes of ticks that came due while no scheduler was there, or none could send."""

import json
import signal
from collections.abc import Callable

import pytest

from tests.support.command import Command
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from warren.sql.models import Run
from warren.sql.run_status import Kind, RunStatus

LATE_MS = 5_000
EVERY_SECOND = {"schedule_kind": "CRON", "schedule_value": "* * * * * ?", "enabled": True}


def test_both_misfire_policies_after_all_schedulers_were_down(deployment: Deployment) -> None:
    first = deployment.scheduler()
    executor = deployment.executor()
    deployment.await_schedulers(first)
    deployment.await_executors(executor)
    deployment.job("warm-up")
    deployment.await_status(deployment.trigger("warm-up"), RunStatus.SUCCEEDED)
    first.send(signal.SIGTERM)
    assert first.wait() == 0

    deployment.job("careless", misfire="DO_NOTHING", **EVERY_SECOND)
    deployment.job("careful", misfire="FIRE_ONCE_NOW", **EVERY_SECOND)
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

    [caught_up] = deployment.runs("careful", kind="MISFIRE")
    assert caught_up.status == RunStatus.SUCCEEDED, caught_up.message
    [skip] = deployment.skips("careful")
    assert skip.count >= 5
    assert caught_up.scheduled_at == skip.to_at + 1_000
    ticks = [run.scheduled_at for run in deployment.runs("careful")]
    assert min(ticks) == caught_up.scheduled_at


def _by_kill(deployment: Deployment, schedulers: list[Command], wait: Callable[[], None]) -> None:
    deployment.end(schedulers)
    wait()
    deployment.await_schedulers(deployment.scheduler(), deployment.scheduler())


def _by_pause(deployment: Deployment, _: list[Command], wait: Callable[[], None]) -> None:
    deployment.warren("pause")
    wait()
    deployment.warren("resume")


@pytest.mark.parametrize(
    ("away", "reason"),
    [
        (_by_kill, "no scheduler could send it in time; policy DO_NOTHING"),
        pytest.param(
            _by_pause,
            "dispatch was paused when it was due; policy DO_NOTHING",
            marks=pytest.mark.release,
        ),
    ],
)
def test_ticks_that_were_planned_before_nobody_could_send_misfire_too(
    deployment: Deployment,
    away: Callable[[Deployment, list[Command], Callable[[], None]], None],
    reason: str,
) -> None:
    schedulers = [deployment.scheduler(), deployment.scheduler()]
    deployment.await_schedulers(*schedulers)
    deployment.await_executors(deployment.executor())
    deployment.job("careless", misfire="DO_NOTHING", **EVERY_SECOND)
    deployment.job("careful", misfire="FIRE_ONCE_NOW", **EVERY_SECOND)
    for job in ("careless", "careful"):
        eventually(lambda job=job: _succeeded(deployment, job, "CRON"), 30, every=0.1)
    ticks: list[int] = []

    def wait() -> None:
        """Wait until the last two ticks that are planned have been overdue for too long."""
        planned = deployment.runs("careless", status=RunStatus.PLANNED)
        ticks[:] = [run.scheduled_at for run in planned][-2:]
        eventually(lambda: deployment.now_ms() > ticks[-1] + LATE_MS + 1_000, 30, every=0.1)

    away(deployment, schedulers, wait)
    back_ms = deployment.now_ms()
    eventually(lambda: _fired_since(deployment, "careless", back_ms), 30, every=0.1)
    eventually(lambda: _succeeded(deployment, "careful", "MISFIRE"), 30, every=0.1)
    deployment.stop_jobs()
    deployment.await_all_final()

    skipped = _of_ticks(deployment, "careless", ticks)
    assert [run.status for run in skipped] == [RunStatus.CANCELLED] * 2
    reasons = {skip.reason for skip in deployment.skips("careless") if skip.from_at in ticks}
    assert reasons == {reason}
    made_up = _of_ticks(deployment, "careful", ticks)
    assert {run.status for run in made_up if run.kind == Kind.SCHEDULE} <= {RunStatus.CANCELLED}
    assert len(deployment.runs("careful", kind=Kind.MISFIRE)) == 1
    verdict = json.loads(deployment.warren("audit").splitlines()[-1])
    assert (verdict["sound"], verdict["late"]) == (True, 0)


def _fired_since(deployment: Deployment, job: str, since_ms: int) -> bool:
    succeeded = deployment.runs(job, status=RunStatus.SUCCEEDED)
    return any(run.due_at > since_ms for run in succeeded)


def _of_ticks(deployment: Deployment, job: str, ticks: list[int]) -> list[Run]:
    return [run for run in deployment.runs(job) if run.scheduled_at in ticks]


def _succeeded(deployment: Deployment, job: str, kind: str) -> list:
    return deployment.runs(job, kind=kind, status=RunStatus.SUCCEEDED)
