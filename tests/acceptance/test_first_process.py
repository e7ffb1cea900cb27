"""`warren` as process 1, as in our image: the kernel keeps signals without a handler from it."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.support.command import WARREN, Command
from tests.support.deployment import SECRET, Deployment
from tests.support.eventually import eventually
from tests.support.first_process import AS_FIRST, require_namespaces
from tests.support.processes import Process
from warren.broker.signing import app_key
from warren.sql.run_status import RunStatus


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    require_namespaces()


def start_first(fleet: Deployment, *arguments: str, env: dict[str, str] | None = None) -> Command:
    unshare, *options = AS_FIRST
    program = shutil.which(unshare)
    assert program is not None
    return Command(
        *options,
        str(WARREN),
        *arguments,
        folder=fleet.folder,
        env=fleet.env | (env or {}),
        program=Path(program),
    )


def first_of(command: Command) -> Process:
    return eventually(lambda: [one for one in command.tree() if one.parent == command.pid])[0]


def test_an_executor_runs_jobs_and_ends_cleanly(fleet: Deployment) -> None:
    fleet.app = "first-process"
    fleet.add_app(fleet.app)
    env = {"WARREN_SECRET": "", "WARREN_APP_SECRET": app_key(SECRET, fleet.app)}
    arguments = ("--app", fleet.app, "--address", "first", fleet.handlers)
    with start_first(fleet, "executor", *arguments, env=env) as executor:
        fleet.await_executors(executor)
        fleet.job("work", handler="noop")

        run = fleet.await_final(fleet.trigger("work"))[0]
        os.kill(first_of(executor).pid, signal.SIGTERM)

        assert executor.wait() == 0
    assert (run.status, run.address) == (RunStatus.SUCCEEDED, "first")


def test_a_short_command_ends_when_it_is_told_to(fleet: Deployment, tmp_path: Path) -> None:
    release = tmp_path / "release"
    fleet.job("awaited", handler="until-file", param=str(release))
    with start_first(fleet, "jobs", "trigger", "awaited", "--wait") as command:
        [run] = eventually(lambda: fleet.runs(status=RunStatus.RUNNING, job="awaited"))

        os.kill(first_of(command).pid, signal.SIGTERM)

        assert command.wait(60) == 128 + signal.SIGTERM
    release.touch()
    fleet.await_final(run.id)
