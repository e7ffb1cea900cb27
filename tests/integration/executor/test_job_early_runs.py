"""A job process is handed several runs at once: each is answered, and none begins unseen."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.slot_harness import SlotHarness
from warren.broker.messages import Outcome

SOURCE = """
import os, signal, threading, time

HERE = os.path.dirname(__file__)

@job("does")
def does(context):
    with open(os.path.join(HERE, "begun"), "a") as file:
        file.write(f"{context.run_id} ")
    if context.param == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if context.param == "wait":
        while not os.path.exists(os.path.join(HERE, "go")):
            time.sleep(0.005)
    if context.param == "sleep":
        time.sleep(60)
    if context.param == "thread":
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    if context.param == "junk":
        for file in range(3, 256):
            try:
                os.write(file, b"junk")
            except OSError:
                pass
    if context.param == "spoil":
        for file in range(3, 256):
            try:
                os.pwrite(file, bytes([1]) * 64, 0)
            except OSError:
                pass
        os.kill(os.getpid(), signal.SIGKILL)
    if context.param == "close":
        os.closerange(3, 10_000)
    print(context.run_id)
    return str(os.getpid())
"""

#: So long that no machine is too slow.
LONG = 600.0


@pytest.fixture
def job(tmp_path: Path) -> Iterator[SlotHarness]:
    harness = SlotHarness(tmp_path, SOURCE, batch_seconds=LONG).open()
    assert harness.run("does").outcome is Outcome.SUCCEEDED  # its process idles from now on
    yield harness
    harness.close()


def begun(job: SlotHarness) -> list[int]:
    return [int(run_id) for run_id in job.note("begun").split()][1:]


def is_free(job: SlotHarness, run_id: int) -> bool:
    """Whether another executor may have this run."""
    return job.slots.recall(run_id) and run_id not in job.slots.running


def test_one_process_goes_through_all_runs_and_answers_each(job: SlotHarness) -> None:
    ids = job.start_batch("does", [""] * 8)

    ends = [job.wait(run_id) for run_id in ids]

    assert [end.outcome for end in ends] == [Outcome.SUCCEEDED] * 8
    assert len({end.message for end in ends}) == 1
    assert begun(job) == ids == list(job.started)[1:]
    assert [job.log_of(run_id) for run_id in ids] == [f"{run_id}\n" for run_id in ids]
    assert job.slots.free == 2


def test_run_assigned_early_counts_as_running_only_once_it_is_reached(job: SlotHarness) -> None:
    head, follower = job.start_batch("does", ["wait", ""])
    job.turn(lambda: begun(job) == [head])

    assert list(job.slots.running) == [head]
    assert job.slots.free == 1

    job.folder.joinpath("go").touch()
    assert job.wait(follower).outcome is Outcome.SUCCEEDED


def test_run_taken_back_in_time_never_begins_and_its_process_serves_on(job: SlotHarness) -> None:
    head, second, third = job.start_batch("does", ["wait", "", ""])
    job.turn(lambda: begun(job) == [head])

    assert job.slots.recall(third)
    job.folder.joinpath("go").touch()

    pid = job.wait(head).message
    assert job.run("does").message == pid
    assert {second, third}.isdisjoint(begun(job))
    assert {second, third}.isdisjoint(job.finished)
    assert job.returned == []


def test_runs_of_other_jobs_do_not_wait_long_behind_one_that_takes_its_time(
    tmp_path: Path,
) -> None:
    harness = SlotHarness(tmp_path, SOURCE, batch_seconds=LONG).open()
    harness.run("does", process="handler")
    head, *others = [
        harness.trigger("does", param, job_id=job_id, process="handler")
        for job_id, param in enumerate(["wait", "", ""], 1)
    ]
    harness.slots.start(head, *others)
    harness.turn(lambda: begun(harness) == [head.run_id])
    harness.turn_for(0.05)
    assert harness.handed_back == []

    harness.loop.skip(2 * LONG + 1)
    harness.turn(lambda: harness.handed_back)

    assert harness.handed_back == [other.run_id for other in reversed(others)]
    owner = harness.slots.owner_of(head)
    assert owner is not None
    assert harness.slots.batch_size(owner) == 1
    harness.slots.start(*others)
    assert harness.wait(others[0].run_id).outcome is Outcome.SUCCEEDED
    assert harness.slots.batch_size(owner) > 1
    harness.folder.joinpath("go").touch()
    assert harness.wait(head.run_id).outcome is Outcome.SUCCEEDED
    harness.close()


def test_killed_run_takes_nothing_along_of_what_was_assigned_early(job: SlotHarness) -> None:
    head, second, third = job.start_batch("does", ["", "sleep", ""])
    job.turn(lambda: begun(job) == [head, second])
    job.turn(lambda: second in job.started)

    job.slots.stop(second, "enough")

    assert job.wait(second).outcome is Outcome.KILLED
    assert job.wait(head).outcome is Outcome.SUCCEEDED
    assert begun(job) == [head, second]
    assert third not in job.finished
    assert job.slots.recall(third)


def test_kill_of_a_run_that_has_ended_unheard_hits_no_other(job: SlotHarness) -> None:
    head, second = job.start_batch("does", ["", "wait"])
    while begun(job) != [head, second]:
        pass  # the loop does not turn: the executor has not heard of the first one's end

    assert not job.slots.stop(head, "too late")

    assert job.finished[head].outcome is Outcome.SUCCEEDED
    job.folder.joinpath("go").touch()
    assert job.wait(second).outcome is Outcome.SUCCEEDED


def test_process_that_dies_leaves_what_it_had_not_begun_to_others(job: SlotHarness) -> None:
    head, second, third, fourth = job.start_batch("does", ["", "die", "", ""])

    assert job.wait(head).outcome is Outcome.SUCCEEDED
    assert job.wait(second).outcome is Outcome.FAILED
    assert "SIGKILL" in job.finished[second].message

    assert begun(job) == [head, second]
    assert {third, fourth}.isdisjoint(job.finished)
    assert job.slots.recall(third)
    assert job.slots.free == 2


def test_process_that_dies_in_its_first_run_does_not_make_it_start_again(job: SlotHarness) -> None:
    head, _ = job.start_batch("does", ["die", ""])

    assert job.wait(head).outcome is Outcome.FAILED

    assert begun(job) == [head]


def test_timeout_is_counted_from_a_runs_own_start(job: SlotHarness) -> None:
    head, second, third = job.start_batch("does", ["wait", "sleep", ""], timeout_seconds=60)
    job.turn(lambda: begun(job) == [head])
    job.loop.skip(40)
    job.folder.joinpath("go").touch()
    job.turn(lambda: second in job.started)

    job.loop.skip(40)
    job.turn_for(0.05)
    assert second not in job.finished
    job.loop.skip(20)

    assert job.wait(second).outcome is Outcome.TIMED_OUT
    assert job.wait(head).outcome is Outcome.SUCCEEDED
    assert third not in job.finished


def test_process_that_must_exit_leaves_the_rest(job: SlotHarness) -> None:
    head, second = job.start_batch("does", ["thread", ""])

    assert job.wait(head).outcome is Outcome.SUCCEEDED

    assert begun(job) == [head]
    assert job.slots.recall(second)


@pytest.mark.parametrize("param", ["junk", "close"])
def test_handler_that_spoils_its_files_spoils_no_other_run(job: SlotHarness, param: str) -> None:
    head, second = job.start_batch("does", [param, ""])

    assert job.wait(head).outcome is Outcome.FAILED

    assert begun(job) in ([head], [head, second])
    job.turn(lambda: second in job.finished or is_free(job, second))
    # The process may have noted the second run and have been ended before the handler was called.
    assert second in job.finished or second not in begun(job)


def test_what_may_have_begun_behind_a_spoilt_note_starts_nowhere_else(job: SlotHarness) -> None:
    ids = job.start_batch("does", ["spoil", ""])

    assert [job.wait(run_id).outcome for run_id in ids] == [Outcome.FAILED] * 2

    assert begun(job) == ids[:1]


def test_dead_zygote_leaves_what_had_not_begun(job: SlotHarness) -> None:
    head, second = job.start_batch("does", ["sleep", ""])
    job.turn(lambda: begun(job) == [head])

    os.kill(job.zygote.pid, signal.SIGKILL)

    assert job.wait(head).outcome is Outcome.FAILED
    assert begun(job) == [head]
    assert second not in job.finished
    assert job.slots.recall(second)


def test_after_its_time_a_process_leaves_the_rest(tmp_path: Path) -> None:
    harness = SlotHarness(tmp_path, SOURCE, batch_seconds=1e-9).open()
    harness.run("does")

    head, second, third = harness.start_batch("does", ["", "", ""])
    assert harness.wait(head).outcome is Outcome.SUCCEEDED
    harness.turn(lambda: harness.returned == [second])

    assert begun(harness) == [head]
    assert third not in harness.finished
    assert harness.run("does").outcome is Outcome.SUCCEEDED
    harness.close()


def test_last_run_of_a_process_comes_alone(tmp_path: Path) -> None:
    harness = SlotHarness(tmp_path, SOURCE, batch_seconds=LONG, runs_per_process=4).open()
    first = harness.run("does").message

    ids = harness.start_batch("does", [""] * 4)
    ends = [harness.wait(run_id).message for run_id in ids[:2]]

    assert ends == [first, first]
    assert begun(harness) == ids[:2]
    assert harness.run("does").message == first
    assert harness.run("does").message != first
    harness.close()
