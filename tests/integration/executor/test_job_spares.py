"""Processes forked in advance: they hold nothing of any job, and take one job's runs only."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import Process, alive, descendants
from tests.support.slot_harness import SlotHarness
from warren.broker.messages import Outcome, ScriptLanguage
from warren.executor.fork_server.confinement import Confinement, JobLimits

SOURCE = r"""
import os, resource, signal, time

opened = open(__file__)

def note_start():
    print("init in", os.getpid())

@job("pid", init=note_start)
def pid(context):
    return os.getpid()

@job("pid.twin")
def pid_twin(context):
    return os.getpid()

@job("files")
def files(context):
    places = [f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd")]
    return sorted(os.readlink(one).partition(":")[0] for one in places if os.path.lexists(one))

@job("standing")
def standing(context):
    return repr((os.getsid(0) == os.getpgrp() == os.getpid(),
                 open("/proc/self/comm").read().strip(),
                 resource.getrlimit(resource.RLIMIT_NOFILE)[0],
                 signal.pthread_sigmask(signal.SIG_BLOCK, ())))

@job("stubborn")
def stubborn(context):
    if os.fork() == 0:
        time.sleep(600)
    _pathlib.Path(__file__).with_name("begun").touch()
    while True:
        try:
            time.sleep(600)
        except JobStopped:
            pass
"""


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SlotHarness]:
    harness = SlotHarness(
        tmp_path,
        SOURCE,
        spare_count=2,
        script_folder=tmp_path / "scripts",
        script_languages=[ScriptLanguage.SHELL],
        confinement=Confinement(limits=JobLimits(open_files=200)),
    ).open()
    yield harness
    harness.close()


def spares_of(harness: SlotHarness) -> list[Process]:
    return [p for p in descendants(harness.zygote.pid) if p.name == "warren-spare"]


def all_spares(harness: SlotHarness) -> list[Process]:
    """Wait until there are as many as there should be; return them."""
    return harness.turn(lambda: spares if len(spares := spares_of(harness)) == 2 else [])


def test_run_gets_a_process_that_was_there_before_it(harness: SlotHarness) -> None:
    spares = {spare.pid for spare in all_spares(harness)}

    first = harness.run("pid")
    again = harness.run("pid")

    assert int(first.message) in spares
    assert again.message == first.message
    assert f"init in {first.message}" in harness.log_of(first.run_id)


def test_spare_that_was_used_is_another_jobs_never_and_is_replaced(harness: SlotHarness) -> None:
    all_spares(harness)

    pids = {harness.run("pid", job_id=n).message for n in range(1, 4)}

    assert len(pids) == 3
    assert not {str(spare.pid) for spare in all_spares(harness)} & pids


def test_spare_becomes_what_a_process_forked_for_its_job_is(harness: SlotHarness) -> None:
    all_spares(harness)

    from_spare = harness.run("standing").message
    files = harness.run("files", job_id=2).message

    assert from_spare == repr((True, "warren-job", 200, set()))
    assert "socket" in files
    assert files.count("begin-notes") == 1


def test_script_runs_in_a_spare(harness: SlotHarness) -> None:
    spares = {spare.pid for spare in all_spares(harness)}

    finished = harness.run(
        "", script_language=ScriptLanguage.SHELL, script_source="echo pid $$; ls /proc/self/fd"
    )

    assert finished.outcome is Outcome.SUCCEEDED
    lines = harness.log_of(finished.run_id).split()
    assert int(lines[1]) in spares
    assert lines[2:] == ["0", "1", "2", "3"]  # 3 is the folder that ls reads


def test_timeout_ends_the_whole_tree_of_a_run_in_a_spare(harness: SlotHarness) -> None:
    all_spares(harness)

    run_id = harness.start("stubborn")
    harness.turn((harness.folder / "begun").exists)
    tree = descendants(harness.zygote.pid)
    harness.slots.close(0.2)
    finished = harness.wait(run_id)

    assert finished.outcome is Outcome.FAILED
    harness.turn(lambda: not any(alive(process.pid) for process in tree))


def test_killed_spare_is_replaced_and_is_nobodys_run(harness: SlotHarness) -> None:
    victims = all_spares(harness)

    for spare in victims:
        os.kill(spare.pid, signal.SIGKILL)
    finished = harness.run("pid")

    assert finished.outcome is Outcome.SUCCEEDED
    assert not {spare.pid for spare in all_spares(harness)} & {spare.pid for spare in victims}
    assert list(harness.finished) == [finished.run_id]


def test_executor_whose_spares_die_one_after_the_other_has_a_problem_while_they_do(
    harness: SlotHarness,
) -> None:
    def kill_them() -> bool:
        for spare in spares_of(harness):
            with contextlib.suppress(ProcessLookupError):
                os.kill(spare.pid, signal.SIGKILL)
        return harness.slots.lacks_spares

    before = harness.slots.lacks_spares
    harness.turn(kill_them)
    all_spares(harness)
    harness.loop.skip(70)

    assert (before, harness.slots.lacks_spares) == (False, False)


def test_run_of_a_spare_that_dies_before_it_takes_it_starts_in_another_process(
    harness: SlotHarness,
) -> None:
    victims = all_spares(harness)
    for spare in victims:
        os.kill(spare.pid, signal.SIGSTOP)  # it cannot read what it gets

    run_id = harness.start("pid")
    harness.turn(lambda: run_id in harness.started)
    for spare in victims:
        os.kill(spare.pid, signal.SIGKILL)
    finished = harness.wait(run_id)

    assert finished.outcome is Outcome.SUCCEEDED
    assert int(finished.message) not in {spare.pid for spare in victims}


def test_stopped_spare_is_ended_with_its_run(harness: SlotHarness) -> None:
    for spare in all_spares(harness):
        os.kill(spare.pid, signal.SIGSTOP)

    run_id = harness.start("pid")
    harness.turn(lambda: run_id in harness.started)
    harness.slots.stop(run_id, "enough")

    assert harness.wait(run_id).outcome is Outcome.KILLED


def test_spares_die_with_their_zygote_and_the_next_one_has_its_own(harness: SlotHarness) -> None:
    before = {spare.pid for spare in all_spares(harness)}

    os.kill(harness.zygote.pid, signal.SIGKILL)
    harness.turn(lambda: harness.ready_count == 1)

    assert not {spare.pid for spare in all_spares(harness)} & before
    assert harness.run("pid").outcome is Outcome.SUCCEEDED


def test_spares_that_are_not_wanted_any_more_end(harness: SlotHarness) -> None:
    all_spares(harness)

    harness.slots._supervisor.keep_spares(0)

    harness.turn(lambda: not spares_of(harness))
