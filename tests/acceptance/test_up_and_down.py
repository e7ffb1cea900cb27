"""`warren up` as a newcomer has it: quick to work, alone in its folder, gone without a trace."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import recording_handlers
from tests.support.command import Command, run_warren
from tests.support.eventually import eventually
from tests.support.invariants import assert_sound_tallies, read_runs, read_starts
from tests.support.processes import Process, processes_with_env
from tests.support.processor_time import seconds_of
from warren.sql.engine import Database
from warren.sql.models import Run
from warren.sql.run_status import FINAL, RunStatus

MARK = "TEST_UP_MARK"
#: It takes less than 5 s, except on a machine that is busy with other things. Some jobs here would
#: go on for ten minutes.
STOPS_SECONDS = 60
#: Processor time in which its first job has run; 2 s is usual.
STARTS_SECONDS = 15
JOBS = """
apps:
  - {name: home, title: Home}
jobs:
  - {name: ticking, app: home, handler: noop, schedule: {every: 1}, route: ROUND, enabled: true}
  - {name: hangs, app: home, handler: stubborn}
"""


class Home:
    """A folder with handlers and a job file, and what `warren up` makes of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.starts_file = folder / "starts.jsonl"
        self._env = {MARK: folder.name + str(time.monotonic_ns()), "WARREN_TIMEZONE": "UTC"}
        self._commands: list[Command] = []
        (folder / "jobs.yaml").write_text(JOBS)
        (folder / "handlers.py").write_text(Path(recording_handlers.__file__).read_text())

    def up(self) -> Command:
        arguments = ("up", "--jobs", "handlers.py", "--apply", "jobs.yaml")
        command = Command(*arguments, folder=self.folder, env=self._env, cold=True)  # with its mark
        self._commands.append(command)
        return command

    def warren(self, *arguments: str) -> str:
        done = run_warren(*arguments, folder=self.folder, env=self._env)
        assert done.returncode == 0, f"warren {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def runs(self, **where: Any) -> list[Run]:
        if not (self.folder / ".warren" / "warren.db").exists():
            return []
        database = Database(f"sqlite:///{self.folder / '.warren' / 'warren.db'}", pool_size=1)
        try:
            found = read_runs(database)
        finally:
            database.close()
        return [run for run in found if all(getattr(run, k) == v for k, v in where.items())]

    def trigger(self, job: str) -> int:
        """Trigger a job and wait for its handler's first line."""
        run_id: int = json.loads(self.warren("jobs", "trigger", job, "--json"))["id"]
        eventually(lambda: run_id in {start["run"] for start in read_starts(self.starts_file)})
        return run_id

    def trigger_second(self, job: str) -> int:
        """Trigger a job whose lane is taken, and wait until its executor has the trigger."""
        run_id: int = json.loads(self.warren("jobs", "trigger", job, "--json"))["id"]
        eventually(lambda: self.runs(id=run_id, status=RunStatus.SENT), every=0.05)
        return run_id

    def kill_all_open(self, handler: str) -> None:
        """Kill runs of a handler until none is open."""

        def none_is_open() -> bool:
            still = [r for r in self.runs(handler=handler) if r.status not in FINAL]
            for run in still:
                run_warren("runs", "kill", str(run.id), folder=self.folder, env=self._env)
            return not still

        eventually(none_is_open, every=0.2)

    def processes(self) -> list[Process]:
        return processes_with_env(MARK, self._env[MARK])

    def assert_sound(self) -> None:
        """Stop the schedule of a running `warren up`, and require the invariants."""
        self.warren("jobs", "stop", "ticking")
        database = Database(f"sqlite:///{self.folder / '.warren' / 'warren.db'}", pool_size=1)
        try:
            eventually(lambda: assert_sound_tallies(database, self.starts_file) is None, every=0.1)
        finally:
            database.close()
        self.warren("audit")

    def close(self) -> None:
        for command in self._commands:
            command.close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    home.close()


def test_up_works_at_once_alone_and_ends_at_ctrl_c_whatever_its_jobs_do(home: Home) -> None:
    first = home.up()
    first.wait_for("Warren is up")
    eventually(lambda: home.runs(status=RunStatus.SUCCEEDED), every=0.05)
    took = seconds_of(process.pid for process in home.processes())
    assert took < STARTS_SECONDS

    second = home.up()
    assert second.wait() == 1
    [line] = second.text().splitlines()
    assert line.startswith("error: another `warren up` is using ")

    stubborn = home.trigger("hangs")
    waiting = home.trigger_second("hangs")
    hidden = eventually(lambda: len(home.processes()) > 8 and home.processes())
    first.send(signal.SIGINT)
    assert first.wait(STOPS_SECONDS) == 0
    # multiprocessing's own resource tracker ends some milliseconds after its parent.
    eventually(lambda: not home.processes())
    # One whose memory is gone shows no environment any more, and may still be on its way out.
    eventually(lambda: not [process for process in hidden if process.is_alive])
    assert [run.status for run in home.runs(id=stubborn)] == [RunStatus.FAILED]
    assert home.runs(id=waiting)[0].status != RunStatus.RUNNING

    third = home.up()
    third.wait_for("Warren is up")
    known = {run.id for run in home.runs()}
    eventually(
        lambda: [r for r in home.runs(status=RunStatus.SUCCEEDED) if r.id not in known], every=0.05
    )
    assert set(known) <= {run.id for run in home.runs()}
    home.kill_all_open("stubborn")
    home.assert_sound()


def test_sigkill_of_up_leaves_no_process_and_the_next_start_settles_everything(home: Home) -> None:
    first = home.up()
    first.wait_for("Warren is up")
    eventually(lambda: home.runs(status=RunStatus.SUCCEEDED), every=0.05)
    stubborn = home.trigger("hangs")
    waiting = home.trigger_second("hangs")
    eventually(lambda: len(home.processes()) > 8)

    first.kill()

    eventually(lambda: home.processes() == [])
    second = home.up()
    second.wait_for("Warren is up")
    eventually(lambda: home.runs(id=stubborn)[0].status == RunStatus.LOST, every=0.05)
    eventually(lambda: home.runs(id=waiting)[0].status == RunStatus.UNDELIVERED, every=0.05)
    [again] = eventually(lambda: home.runs(origin_id=waiting, attempt=1))
    eventually(lambda: again.id in {start["run"] for start in read_starts(home.starts_file)})
    home.kill_all_open("stubborn")
    home.assert_sound()
