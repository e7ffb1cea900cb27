"""Kill by run id, wherever the run is: at work, waiting, in its queue, not even sent."""

import signal
from pathlib import Path

from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from warren.sql.run_status import RunStatus


def test_kill_of_a_waiting_run_ends_it_without_a_start(fleet: Deployment, tmp_path: Path) -> None:
    release = tmp_path / "release"
    fleet.job("serial", handler="until-file", param=str(release))
    at_work = fleet.trigger("serial")
    fleet.await_start(at_work)
    waiting = fleet.trigger("serial")
    fleet.await_status(waiting, RunStatus.SENT)

    fleet.warren("runs", "kill", str(waiting))

    assert fleet.await_status(waiting, RunStatus.KILLED).message
    assert fleet.start_of(waiting) is None
    release.touch()
    fleet.await_status(at_work, RunStatus.SUCCEEDED)


def test_kill_of_a_run_that_its_executor_has_not_taken_yet_ends_it(
    fleet: Deployment, tmp_path: Path
) -> None:
    fleet.app = "frozen-app"
    executor = fleet.executor("frozen")
    fleet.await_executors(executor)
    fleet.job("undelivered", handler="until-file", param=str(tmp_path / "never"))
    executor.send(signal.SIGSTOP)
    run_id = fleet.trigger("undelivered")
    fleet.await_status(run_id, RunStatus.SENT)

    fleet.warren("runs", "kill", str(run_id))
    eventually(lambda: fleet.logged("kills_sent", str(run_id)))
    executor.send(signal.SIGCONT)

    # Trigger and kill are read from two queues, so the kill may find it waiting or at work.
    fleet.await_status(run_id, RunStatus.KILLED)
    assert len(fleet.runs("undelivered")) == 1


def test_kill_of_a_run_that_was_not_sent_cancels_it(fleet: Deployment) -> None:
    fleet.commands.pause()
    try:
        fleet.job("unsent")
        run_id = fleet.trigger("unsent")

        said = fleet.warren("runs", "kill", str(run_id))

        assert said == f"run {run_id}: cancelled before it was sent\n"
        assert fleet.status(run_id) == RunStatus.CANCELLED
    finally:
        fleet.commands.resume()


def test_kill_of_a_run_at_work_gives_its_place_to_the_next(
    fleet: Deployment, tmp_path: Path
) -> None:
    fleet.job("line", handler="until-file", param=str(tmp_path / "never"), retries=3)
    first = fleet.trigger("line")
    fleet.await_start(first)
    second = fleet.trigger("line", param=str(fleet.handlers))

    fleet.warren("runs", "kill", str(first))

    fleet.await_status(first, RunStatus.KILLED)
    fleet.await_status(second, RunStatus.SUCCEEDED)
    assert len(fleet.runs("line")) == 2  # a killed run is not tried again
    eventually(lambda: fleet.start_of(second))
