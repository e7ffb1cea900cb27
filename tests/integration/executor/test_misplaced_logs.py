"""A run that puts something else where its log belongs harms its own log, and nothing else."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.slot_harness import DAY, SlotHarness
from warren.broker.messages import Finished, Outcome, ScriptLanguage
from warren.executor.processes.slots import SWEEP_SECONDS
from warren.executor.run_logs import notes_path

SOURCE = r"""
import os
from pathlib import Path

def put(thing, path):
    if thing == "fifo":
        os.mkfifo(path)
    elif thing == "used fifo":
        os.mkfifo(path)
        os.open(path, os.O_RDWR)
    elif thing == "folder":
        os.mkdir(path)
    elif thing == "device":
        os.symlink("/dev/zero", path)

@job("print")
def print_it(context):
    print(context.param)
    return "done"

@job("replaces")
def replaces(context):
    thing, _, text = context.param.partition(":")
    path = os.readlink("/proc/self/fd/1")
    if text:
        print(text)
    os.unlink(path)
    put(thing, path)
    return "done"

@job("replaces.and.dies")
def replaces_and_dies(context):
    replaces(context)
    os._exit(3)
"""

#: Each ends only when it is stopped.
NOTES_ARE_A_FIFO = """
log=$(readlink /proc/$$/fd/2)
mkfifo ${log%.log}.times
while :; do echo line; sleep 0.1; done
"""
LOG_IS_A_FIFO = """
log=$(readlink /proc/$$/fd/2)
rm $log
mkfifo $log
while :; do echo line; sleep 0.1; done
"""
THINGS = ["fifo", "used fifo", "folder", "device"]
MISSING = "(its log is missing: Not a regular file)"


@pytest.fixture
def make_floor(tmp_path: Path) -> Iterator[Callable[..., SlotHarness]]:
    floors: list[SlotHarness] = []

    def make(**options: object) -> SlotHarness:
        chosen = {"script_folder": tmp_path / "scripts", "script_languages": list(ScriptLanguage)}
        floors.append(SlotHarness(tmp_path, SOURCE, **(chosen | options)).open())
        return floors[-1]

    yield make
    for harness in floors:
        harness.close()


@pytest.fixture
def harness(make_floor: Callable[..., SlotHarness]) -> SlotHarness:
    return make_floor(count=1)


def run_script(harness: SlotHarness, source: str, **fields: float) -> int:
    return harness.start("", script_language="shell", script_source=source, **fields)


def time_out(harness: SlotHarness, source: str, is_ready: Callable[[int], object]) -> Finished:
    """Run a script, and let some sweeps and then its minute pass once it `is_ready`."""
    run_id = run_script(harness, source, timeout_seconds=60)
    harness.turn(lambda: is_ready(run_id))
    for _ in range(3):
        harness.loop.skip(SWEEP_SECONDS)
        harness.turn_for(0.01)
    harness.loop.skip(60)
    return harness.wait(run_id)


def test_script_whose_times_would_go_into_a_fifo_ends_at_its_timeout(harness: SlotHarness) -> None:
    finished = time_out(
        harness, NOTES_ARE_A_FIFO, lambda run_id: harness.log_of(run_id).count("\n") >= 2
    )

    assert (finished.outcome, finished.message) == (Outcome.TIMED_OUT, "timed out after 60 s")
    assert finished.log_tail.startswith("line\nline\n")
    assert harness.logs.read(finished.run_id, DAY, 1).text.startswith("line\nline")
    assert harness.run("print", "next").log_tail == "next\n"


def test_script_that_replaces_its_log_by_a_fifo_ends_at_its_timeout(harness: SlotHarness) -> None:
    finished = time_out(harness, LOG_IS_A_FIFO, lambda run_id: harness.log_path(run_id).is_fifo())

    assert finished.outcome is Outcome.TIMED_OUT
    assert finished.message == f"timed out after 60 s {MISSING}"
    assert harness.logs.read(finished.run_id, DAY, 1).text == ""
    assert harness.run("print", "next").log_tail == "next\n"


def test_script_that_replaces_its_log_can_be_killed(harness: SlotHarness) -> None:
    run_id = run_script(harness, LOG_IS_A_FIFO)
    harness.turn(harness.log_path(run_id).is_fifo)
    harness.turn_for(2 * SWEEP_SECONDS)

    harness.slots.stop(run_id, "killed by ops")

    finished = harness.wait(run_id)
    assert (finished.outcome, finished.message) == (Outcome.KILLED, f"killed by ops {MISSING}")


@pytest.mark.parametrize("text", ["", ":text"])
@pytest.mark.parametrize("thing", THINGS)
def test_handler_that_replaces_its_log_has_its_own_result_and_no_log(
    harness: SlotHarness, thing: str, text: str
) -> None:
    finished = harness.run("replaces", thing + text)

    assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, f"done {MISSING}")
    assert harness.logs.read(finished.run_id, DAY, 1).text == ""
    assert harness.logs.read(finished.run_id, DAY, 1, at_end=True).text == ""
    assert harness.logs.search(finished.run_id, DAY, "text", 1).lines == ()


@pytest.mark.parametrize("text", ["", ":text"])
@pytest.mark.parametrize("thing", THINGS)
def test_next_run_of_the_process_has_a_log_of_its_own(
    harness: SlotHarness, thing: str, text: str
) -> None:
    harness.run("replaces", thing + text)

    finished = harness.run("print", "next", job_id=7)
    harness.run("replaces", thing)
    last = harness.run("print", "last", process="fresh")

    assert (finished.message, harness.log_of(finished.run_id)) == ("done", "next\n")
    assert (last.message, harness.log_of(last.run_id)) == ("done", "last\n")


@pytest.mark.parametrize("thing", THINGS)
def test_handler_that_replaces_its_log_and_dies_is_told_as_dead(
    harness: SlotHarness, thing: str
) -> None:
    finished = harness.run("replaces.and.dies", f"{thing}:text")

    assert finished.outcome is Outcome.FAILED
    assert finished.message == f"ended with exit code 3 without a result {MISSING}"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
@pytest.mark.parametrize("is_script", [True, False])
def test_what_waits_where_a_log_will_be_is_not_written_to(
    harness: SlotHarness, make: Callable[[Path], None], *, is_script: bool
) -> None:
    harness.log_path(1).parent.mkdir(parents=True)
    make(harness.log_path(1))

    run_id = run_script(harness, "echo x") if is_script else harness.start("print", "x")

    finished = harness.wait(run_id)
    assert finished.outcome is Outcome.SUCCEEDED
    assert "(its log is missing: " in finished.message


def test_process_that_ends_does_not_wait_for_what_became_of_its_last_log(
    make_floor: Callable[..., SlotHarness],
) -> None:
    harness = make_floor(idle_seconds=0.1)

    run_id = harness.run("replaces", "fifo:text").run_id
    harness.turn(lambda: not harness.job_processes(), 5)

    assert harness.log_path(run_id).is_fifo()


def test_old_days_are_deleted_whatever_jobs_have_put_there(harness: SlotHarness) -> None:
    paths = [harness.log_path(harness.run("replaces", thing).run_id) for thing in THINGS]
    os.mkfifo(notes_path(str(harness.log_path(99))))

    assert harness.logs.clean(1) == 1
    assert not any(os.path.lexists(path) for path in paths)
