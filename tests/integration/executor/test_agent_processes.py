"""The whole executor with real job processes, on a broker in memory."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.agents import AgentCase
from tests.support.eventually import eventually
from warren.broker.messages import Finished, Kill, Outcome, ReadLog, Started
from warren.executor.boot_context import Limits
from warren.executor.errors import ExecutorError
from warren.executor.handlers.handler_registry import HandlersError
from warren.executor.handlers.hooks import JobCode
from warren.executor.processes.interface import SlotOptions
from warren.executor.processes.slots import Slots
from warren.executor.run_logs import RunLogs

SOURCE = """
import time
from warren import job

@job("demo.echo")
def echo(context):
    print("hello from", context.run_id)
    return context.param

@job("demo.sleep")
def sleep(context):
    print("asleep", flush=True)
    time.sleep(float(context.param))
"""


def make_case(folder: Path, source: str = SOURCE, count: int = 2) -> AgentCase:
    file = folder / "handlers_of_test.py"
    file.write_text(source)
    options = SlotOptions(count=count, grace_seconds=1)
    code = JobCode(sources=(str(file),))
    slots = partial(Slots, code, RunLogs(folder / "logs"), options)
    case = AgentCase(folder, make_slots=slots)
    case.limits = Limits(slots=count, grace_seconds=1, drain_seconds=0.2)
    return case


@pytest.fixture
def case(tmp_path: Path) -> Iterator[AgentCase]:
    case = make_case(tmp_path)
    case.boot()
    yield case
    case.close()


def test_handler_runs_in_a_process_and_its_result_is_called_back(case: AgentCase) -> None:
    case.desk.send_trigger(1, param="its message")

    finished = case.desk.expect(1, Finished)
    assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, "its message")
    assert finished.log_tail == "hello from 1\n"
    assert 0 < finished.started_at_ms <= finished.finished_at_ms


def test_log_of_a_run_can_be_asked_for(case: AgentCase) -> None:
    case.desk.send_trigger(1, scheduled_at_ms=0)
    case.desk.expect(1, Finished)

    chunk = case.desk.ask(ReadLog, run_id=1, scheduled_day="1970-01-01", from_line=1)

    assert (chunk.text, chunk.is_end) == ("hello from 1", True)


def test_long_run_is_reported_started_and_ends_killed(case: AgentCase) -> None:
    case.desk.send_trigger(1, handler="demo.sleep", param="60")
    case.desk.expect(1, Started)

    case.desk.command(Kill(run_id=1, reason="killed by ann"))

    finished = case.desk.expect(1, Finished)
    assert finished.outcome is Outcome.KILLED
    assert "killed by ann" in finished.message


def test_drain_ends_what_runs_and_says_goodbye(case: AgentCase) -> None:
    case.desk.send_trigger(1, handler="demo.sleep", param="60")
    case.desk.expect(1, Started)

    case.executors[0].stop()

    assert case.executors[0].join(30)
    assert case.desk.expect(1, Finished).outcome is Outcome.FAILED
    assert case.executors[0].exit_status == 0


def test_hundred_runs_share_two_processes_and_none_is_lost_or_doubled(case: AgentCase) -> None:
    for run_id in range(1, 101):
        case.desk.send_trigger(run_id, param=str(run_id))

    eventually(lambda: sum(isinstance(r, Finished) for r in case.desk.reports) >= 100, 60)

    finals = [report for report in case.desk.reports if isinstance(report, Finished)]
    assert sorted(int(final.message) for final in finals) == list(range(1, 101))


def test_handlers_that_cannot_be_loaded_stop_the_start(tmp_path: Path) -> None:
    case = make_case(tmp_path, source="raise RuntimeError('no such database')")

    with pytest.raises(HandlersError, match="no such database"):
        case.make().start()
    case.close()


def test_state_folder_is_free_again_after_a_start_that_failed(tmp_path: Path) -> None:
    case = make_case(tmp_path, source="raise RuntimeError('broken')")
    with pytest.raises((ExecutorError, HandlersError)):
        case.make().start()

    (tmp_path / "handlers_of_test.py").write_text(SOURCE)
    case.boot()

    case.desk.send_trigger(1, param="well again")
    assert case.desk.expect(1, Finished).message == "well again"
    case.close()
