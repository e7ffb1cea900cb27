"""What becomes of ticks that came due while no scheduler was there, or none could send."""

import json
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.command import Command
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from warren.sql.run_status import Kind, RunStatus

LATE_MS = 5_000
EVERY_SECOND = {"schedule_kind": "CRON", "schedule_value": "* * * * * ?", "enabled": True}


def once_at(at_ms: int) -> dict[str, Any]:
    """The fields of a job that is due daily in this second, and not over 5 s later."""
    at = datetime.fromtimestamp(at_ms // 1_000, UTC)
    cron = f"{at.second} {at.minute} {at.hour} * * ?"
    daily = {"schedule_kind": "CRON", "schedule_value": cron, "timezone": "UTC"}
    return {**daily, "enabled": True, "late_limit": 5}


def test_what_becomes_of_ticks_after_all_schedulers_were_down(deployment: Deployment) -> None:
    first = deployment.scheduler()
    executor = deployment.executor()
    deployment.await_schedulers(first)
    deployment.await_executors(executor)
    deployment.job("warm-up")
    deployment.await_status(deployment.trigger("warm-up"), RunStatus.SUCCEEDED)
    first.send(signal.SIGTERM)
    assert first.wait() == 0

    deployment.job("each", **EVERY_SECOND)
    tick = (deployment.now_ms() // 1_000 + 5) * 1_000  # later than the jobs are made
    deployment.job("careless", misfire="DO_NOTHING", **once_at(tick))
    deployment.job("careful", misfire="FIRE_ONCE_NOW", **once_at(tick))
    deployment.job("patient", **once_at(tick) | {"late_limit": 60})
    eventually(lambda: deployment.now_ms() > tick + LATE_MS + 500, every=0.1)
    second = deployment.scheduler()
    deployment.await_schedulers(second)
    for job, kind in (("each", "CRON"), ("patient", "CRON"), ("careful", "MISFIRE")):
        eventually(lambda job=job, kind=kind: _succeeded(deployment, job, kind), every=0.1)
    deployment.stop_jobs()
    deployment.await_all_final()

    [skip] = deployment.skips("each")
    assert skip.count >= 6
    assert _succeeded(deployment, "each", "MISFIRE") == []
    assert min(run.scheduled_at for run in deployment.runs("each")) == skip.to_at + 1_000

    assert [(one.from_at, one.count) for one in deployment.skips("careless")] == [(tick, 1)]
    assert deployment.runs("careless") == []
    assert [run.scheduled_at for run in deployment.runs("careful")] == [tick]
    assert [run.scheduled_at for run in deployment.runs("patient")] == [tick]


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
        (_by_kill, "no scheduler could send it in time; its job skips what it missed"),
        pytest.param(
            _by_pause,
            "dispatch was paused when it was due; its job skips what it missed",
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
    tick = (deployment.now_ms() // 1_000 + 6) * 1_000
    deployment.job("careless", misfire="DO_NOTHING", **once_at(tick))
    deployment.job("careful", misfire="FIRE_ONCE_NOW", **once_at(tick))
    for job in ("careless", "careful"):
        eventually(lambda job=job: deployment.runs(job, status=RunStatus.PLANNED), every=0.1)

    away(
        deployment,
        schedulers,
        lambda: eventually(lambda: deployment.now_ms() > tick + LATE_MS + 1_000, every=0.1),
    )
    eventually(lambda: deployment.skips("careless"), every=0.1)
    eventually(lambda: _succeeded(deployment, "careful", "MISFIRE"), every=0.1)
    deployment.stop_jobs()
    deployment.await_all_final()

    [skipped] = deployment.runs("careless")
    assert (skipped.scheduled_at, skipped.status) == (tick, RunStatus.CANCELLED)
    assert [(skip.from_at, skip.reason) for skip in deployment.skips("careless")] == [
        (tick, reason)
    ]
    assert [run.kind for run in deployment.runs("careful")] == [Kind.MISFIRE]
    verdict = json.loads(deployment.warren("audit").splitlines()[-1])
    assert (verdict["sound"], verdict["late"]) == (True, 0)


def _succeeded(deployment: Deployment, job: str, kind: str) -> list:
    return deployment.runs(job, kind=kind, status=RunStatus.SUCCEEDED)
