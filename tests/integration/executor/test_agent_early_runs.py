"""The whole executor with job processes that are handed several runs at once."""

import errno
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.agents import AgentCase
from tests.support.eventually import eventually
from warren.broker.messages import Block, Finished, Kill, NotStarted, Outcome, Started
from warren.executor import begin_notes
from warren.executor.boot_context import Limits
from warren.executor.handlers.hooks import JobCode
from warren.executor.journal.file import HandedOver
from warren.executor.processes.interface import SlotOptions
from warren.executor.processes.slots import Slots
from warren.executor.run_logs import RunLogs

SOURCE = """
import os, time
from warren import job

HERE = os.path.dirname(__file__)

@job("demo.wait")
def wait(context):
    with open(os.path.join(HERE, "begun"), "a") as file:
        file.write(f"{context.run_id} ")
    while context.param and not os.path.exists(os.path.join(HERE, context.param)):
        time.sleep(0.005)
"""

#: Run 1 makes the process, 2 lets the others wait, 3 is the head of what is handed over at once.
FIRST, BLOCKER, HEAD, SECOND, THIRD = 1, 2, 3, 4, 5


class Line:
    """One job whose process has HEAD, and SECOND and THIRD early; `params` are files they await.

    If `is_mixed`, each run is of a job of its own, and their handler's processes serve all of them.
    """

    def __init__(self, folder: Path, *, is_mixed: bool = False) -> None:
        self._folder = folder
        self._is_mixed = is_mixed
        (folder / "handlers_of_test.py").write_text(SOURCE)
        # No machine is too slow for ten minutes.
        slot_count = 1 if is_mixed else 2
        options = SlotOptions(count=slot_count, grace_seconds=1, batch_seconds=600)
        code = JobCode(sources=(str(folder / "handlers_of_test.py"),))
        slots = partial(Slots, code, RunLogs(folder / "logs"), options)
        self.case = AgentCase(folder, make_slots=slots)
        self.case.limits = Limits(slots=slot_count, grace_seconds=1, drain_seconds=0.2)
        self.desk = self.case.desk

    def form(self, *, head: str = "head", second: str = "") -> None:
        self.case.boot()
        self.send(FIRST)
        self.desk.expect(FIRST, Finished)
        self.send(BLOCKER, "blocker")
        eventually(lambda: self.begun()[-1] == BLOCKER)
        for run_id, param in ((HEAD, head), (SECOND, second), (THIRD, "")):
            self.send(run_id, param)
        self.case.settle()  # taken, and reserved
        self.release("blocker")
        eventually(lambda: HandedOver(run_ids=(HEAD, SECOND, THIRD)) in self.case.records())
        eventually(lambda: HEAD in self.begun())

    def send(self, run_id: int, param: str = "", **fields: object) -> None:
        if self._is_mixed:
            fields = {"job_id": run_id, "process": "handler"} | fields
        fields = {"handler": "demo.wait", "param": param, "job_id": 7} | fields
        self.desk.send_trigger(run_id, **fields)

    def release(self, name: str) -> None:
        (self._folder / name).touch()

    def begun(self) -> list[int]:
        file = self._folder / "begun"
        return [int(run_id) for run_id in file.read_text().split()] if file.exists() else [0]

    def outcome(self, run_id: int) -> Outcome:
        found: Finished = self.desk.expect(run_id, Finished)
        return found.outcome

    def reboot_from_here(self, folder: Path) -> None:
        """Let the executor come back as if it had been killed at this moment."""
        frozen = self.case.freeze_journal(folder / "frozen")
        self.case.boot(state_dir=frozen)


@pytest.fixture(params=[False, True], ids=["one job", "one handler"])
def line(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Line]:
    line = Line(tmp_path, is_mixed=request.param)
    yield line
    for name in ("blocker", "head", "second"):
        line.release(name)
    line.case.close()


def test_runs_of_a_job_are_handed_over_at_once_and_reported_one_by_one(line: Line) -> None:
    line.form()

    line.release("head")

    assert [line.outcome(one) for one in (HEAD, SECOND, THIRD)] == [Outcome.SUCCEEDED] * 3
    assert line.begun() == [FIRST, BLOCKER, HEAD, SECOND, THIRD]


def test_killed_run_that_was_assigned_early_never_begins(line: Line) -> None:
    line.form()

    line.desk.command(Kill(run_id=SECOND, reason="not needed"))

    assert line.outcome(SECOND) is Outcome.KILLED
    line.release("head")
    assert line.outcome(THIRD) is Outcome.SUCCEEDED
    assert line.begun() == [FIRST, BLOCKER, HEAD, THIRD]


def test_killed_run_that_its_process_went_on_with_ends_and_the_next_one_starts(line: Line) -> None:
    line.form(head="", second="second")
    line.desk.expect(SECOND, Started)

    line.desk.command(Kill(run_id=SECOND, reason="too long"))

    assert line.outcome(SECOND) is Outcome.KILLED
    assert line.outcome(THIRD) is Outcome.SUCCEEDED
    assert line.begun() == [FIRST, BLOCKER, HEAD, SECOND, THIRD]


@pytest.mark.parametrize("line", [False], indirect=True)
def test_covering_run_ends_the_head_and_what_was_assigned_early(line: Line) -> None:
    line.form()

    line.send(6, block=Block.COVER_EARLY, scheduled_at_ms=2_000_000_000_000)

    assert [line.outcome(one) for one in (HEAD, SECOND, THIRD)] == [Outcome.KILLED] * 3
    assert line.outcome(6) is Outcome.SUCCEEDED
    assert line.begun() == [FIRST, BLOCKER, HEAD, 6]


@pytest.mark.parametrize("line", [True], indirect=True)
def test_covering_run_ends_what_was_assigned_early_of_its_own_job_alone(line: Line) -> None:
    line.form()

    line.send(6, job_id=SECOND, block=Block.COVER_EARLY, scheduled_at_ms=2_000_000_000_000)

    assert line.outcome(SECOND) is Outcome.KILLED
    line.release("head")
    assert [line.outcome(one) for one in (HEAD, THIRD, 6)] == [Outcome.SUCCEEDED] * 3
    assert SECOND not in line.begun()


@pytest.mark.parametrize("line", [True], indirect=True)
def test_run_of_a_job_that_may_run_several_times_at_once_is_not_assigned_early(line: Line) -> None:
    line.case.boot()
    line.send(FIRST, "blocker")
    eventually(lambda: FIRST in line.begun())
    line.send(HEAD)
    line.send(SECOND, concurrency=2)
    line.send(THIRD)
    line.case.settle()

    line.release("blocker")

    assert [line.outcome(one) for one in (HEAD, SECOND, THIRD)] == [Outcome.SUCCEEDED] * 3
    assert not [one for one in line.case.records() if isinstance(one, HandedOver)]


def test_draining_returns_what_was_assigned_early(line: Line) -> None:
    line.form()

    line.case.executors[0].stop()

    assert line.case.executors[0].join(60)
    line.desk.expect(SECOND, NotStarted)
    line.desk.expect(THIRD, NotStarted)
    assert line.begun() == [FIRST, BLOCKER, HEAD]


def test_draining_returns_no_run_that_its_process_may_have_begun(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    line.form()
    monkeypatch.setattr(begin_notes, "withdraw", refuse)
    monkeypatch.setattr(begin_notes, "begun", refuse)

    line.case.executors[0].stop()

    assert line.case.executors[0].join(60)
    assert [line.outcome(one) for one in (HEAD, SECOND, THIRD)] == [Outcome.FAILED] * 3
    assert not line.desk.of(NotStarted)


def test_run_that_had_not_begun_after_all_is_returned_when_its_process_is_gone(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    line.form()
    monkeypatch.setattr(begin_notes, "withdraw", refuse)

    line.case.executors[0].stop()

    assert line.case.executors[0].join(60)
    assert line.outcome(HEAD) is Outcome.FAILED
    line.desk.expect(SECOND, NotStarted)
    line.desk.expect(THIRD, NotStarted)
    assert line.begun() == [FIRST, BLOCKER, HEAD]


def test_run_is_not_reported_as_started_before_its_process_has_noted_it(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    line.form(second="second")
    asked: list[int] = []

    def stalled(file: int) -> int:
        asked.append(file)
        return HEAD

    with monkeypatch.context() as patch:
        patch.setattr(begin_notes, "begun", stalled)
        line.release("head")
        assert line.outcome(HEAD) is Outcome.SUCCEEDED
        eventually(lambda: len(asked) >= 2)
        assert SECOND not in {started.run_id for started in line.desk.of(Started)}

    line.desk.expect(SECOND, Started)


def refuse(*_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_executor_killed_during_the_head_tells_that_the_others_never_started(
    line: Line, tmp_path: Path
) -> None:
    line.form()

    line.reboot_from_here(tmp_path)

    assert line.outcome(HEAD) is Outcome.LOST
    line.desk.expect(SECOND, NotStarted)
    line.desk.expect(THIRD, NotStarted)


def test_executor_killed_during_a_run_assigned_early_tells_that_this_one_is_lost(
    line: Line, tmp_path: Path
) -> None:
    line.form(head="", second="second")
    eventually(lambda: SECOND in line.begun())

    line.reboot_from_here(tmp_path)

    assert line.outcome(SECOND) is Outcome.LOST
    line.desk.expect(THIRD, NotStarted)
