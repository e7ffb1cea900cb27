"""SIGTERM to an executor: what runs may end, what waits is run elsewhere; a second one hurries."""

import signal
from pathlib import Path

import pytest

from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from warren.sql.run_status import RunStatus


def test_drained_executor_ends_its_run_and_gives_the_waiting_one_to_another(
    fleet: Deployment, tmp_path: Path
) -> None:
    fleet.app = "drained-app"
    release = tmp_path / "release"
    leaving = fleet.executor("a-leaving", drain_seconds=60)
    fleet.await_executors(leaving)
    fleet.job("work", handler="until-file", param=str(release))
    at_work = fleet.trigger("work")
    fleet.await_start(at_work)
    waiting = fleet.trigger("work", param=str(fleet.handlers))
    fleet.await_status(waiting, RunStatus.SENT)
    staying = fleet.executor("b-staying")
    fleet.await_executors(staying)

    leaving.send(signal.SIGTERM)

    fleet.await_status(waiting, RunStatus.UNDELIVERED)
    again = eventually(lambda: fleet.runs(origin_id=waiting, status=RunStatus.SUCCEEDED))[0]
    assert (again.attempt, again.address) == (1, "b-staying")
    assert fleet.status(at_work) == RunStatus.RUNNING
    release.touch()
    assert leaving.wait() == 0
    assert fleet.await_final(at_work)[0].status == RunStatus.SUCCEEDED


def test_second_sigterm_ends_running_jobs_at_once(fleet: Deployment) -> None:
    fleet.app = "hurried-app"
    executor = fleet.executor("hurried", drain_seconds=600)
    fleet.await_executors(executor)
    fleet.job("hangs", handler="stubborn")
    run_id = fleet.trigger("hangs")
    fleet.await_start(run_id)

    executor.send(signal.SIGTERM)
    eventually(lambda: "draining" in fleet.warren("executors", "list"), every=0.1)
    assert executor.is_running
    executor.send(signal.SIGTERM)

    assert executor.wait(60) == 0
    cut_off = fleet.await_final(run_id)[0]
    assert cut_off.status == RunStatus.FAILED
    assert cut_off.message.startswith("stopped because its executor shut down; still running")
    assert fleet.processes_of_runs() == []


@pytest.mark.parametrize("delivery", ["AT_MOST_ONCE", "AT_LEAST_ONCE"])
def test_run_cut_off_by_a_deploy_is_tried_again_at_another_executor(
    fleet: Deployment, tmp_path: Path, delivery: str
) -> None:
    fleet.app = f"deployed-{delivery.lower().replace('_', '-')}"
    release = tmp_path / "release"
    leaving = fleet.executor(f"{fleet.app}-a", drain_seconds=0)
    fleet.await_executors(leaving)
    fleet.job(
        "work",
        handler="until-file",
        param=str(release),
        retries=2,
        delivery=delivery,
        retry_delay=1,
    )
    first = fleet.trigger("work")
    fleet.await_start(first)
    staying = fleet.executor(f"{fleet.app}-b")
    fleet.await_executors(staying)

    leaving.send(signal.SIGTERM)

    assert leaving.wait() == 0
    cut_off = fleet.await_final(first)[0]
    assert (cut_off.status, cut_off.message) == (
        RunStatus.FAILED,
        "stopped because its executor shut down",
    )
    again = eventually(lambda: fleet.runs(origin_id=first, status=RunStatus.RUNNING))[0]
    assert (again.attempt, again.address) == (1, f"{fleet.app}-b")
    assert again.retries_left == 1
    release.touch()
    fleet.await_success(first)


def test_executor_drained_from_afar_ends_by_itself_when_its_run_is_over(
    fleet: Deployment, tmp_path: Path
) -> None:
    fleet.app = "far-app"
    release = tmp_path / "release"
    leaving = fleet.executor("far-away", drain_seconds=0)
    fleet.await_executors(leaving)
    fleet.job("work", handler="until-file", param=str(release))
    at_work = fleet.trigger("work")
    fleet.await_start(at_work)

    told = fleet.warren("executors", "drain", "far-away")
    told_again = fleet.warren("executors", "drain", "far-app/far-away")

    assert told.strip() == "far-away is draining"
    assert told_again.strip() == "far-app/far-away is already draining"
    assert "draining" in fleet.warren("executors", "list")
    assert leaving.is_running
    release.touch()
    assert leaving.wait(60) == 0
    assert fleet.await_final(at_work)[0].status == RunStatus.SUCCEEDED
    eventually(lambda: "far-away" not in fleet.warren("executors", "list"), every=0.2)
