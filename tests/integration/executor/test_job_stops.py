"""Kill and timeout end a run with everything that it started, and say how."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.messages import Outcome
from executor import process
from tests.support.eventually import eventually
from tests.support.job_floor import JobFloor, processes_holding

SOURCE = '''
import asyncio, atexit, ctypes, os, signal, subprocess, sys, threading, time

HERE = os.path.dirname(__file__)

def note(name, text):
    with open(os.path.join(HERE, name), "a") as file:
        file.write(text + "\\n")

@job("sleep")
def sleep(context):
    note("begun", context.param)
    time.sleep(60)

@job("quick")
def quick(context):
    return "done"

@job("cleans")
def cleans(context):
    try:
        note("begun", "")
        time.sleep(60)
    except JobStopped:
        note("cleaned", "yes")
        raise

@job("gives.in")
def gives_in(context):
    try:
        time.sleep(60)
    except JobStopped:
        return "I was nearly done"

@job("except.exception")
def except_exception(context):
    while True:
        try:
            time.sleep(60)
        except Exception:
            pass

@job("async.cleans")
async def async_cleans(context):
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        note("cleaned", "async")
        raise

@job("stubborn")
def stubborn(context):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note("begun", "")
    time.sleep(60)

@job("swallows")
def swallows(context):
    while True:
        try:
            time.sleep(60)
        except JobStopped:
            note("swallowed", "one")

@job("busy.in.c")
def busy_in_c(context):
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):
        ctypes.CDLL(None).pthread_mutex_lock(mutex)

@job("stopped")
def stopped(context):
    os.kill(os.getpid(), signal.SIGSTOP)

def hold():
    """Open a file that all descendants inherit, whatever they do to their environment."""
    return os.dup(os.open(os.path.join(HERE, "held"), os.O_RDWR | os.O_CREAT))

def far_away(held):
    """Start processes in other sessions, double-forked, one of them a shell, all stubborn."""
    for program in (None, ["sh", "-c", "trap '' TERM; sleep 60 & wait; sleep 60"]):
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if os.fork() == 0:
                if program:
                    os.set_inheritable(held, True)
                    os.execvp(program[0], program)
                time.sleep(60)
            os._exit(0)

@job("family")
def family(context):
    if context.param == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    held = hold()
    far_away(held)
    subprocess.Popen(["sleep", "60"], start_new_session=True, env={}, pass_fds=[held])
    time.sleep(0.2)
    note("begun", "")
    while not os.path.exists(os.path.join(HERE, "seen")):
        time.sleep(0.01)
    if context.param == "returns":
        return "done"
    if context.param == "dies":
        os._exit(3)
    time.sleep(60)

@job("hangs.in.thread")
def hangs_in_thread(context):
    threading.Thread(target=time.sleep, args=(60,)).start()
    return "done"

@job("hangs.at.exit")
def hangs_at_exit(context):
    atexit.register(time.sleep, 60)
    return "done"

@job("runs.atexit")
def runs_atexit(context):
    atexit.register(print, "goodbye")
    return "done"

@job("dies.at.exit")
def dies_at_exit(context):
    atexit.register(os.kill, os.getpid(), signal.SIGSEGV)
    return "done"

@job("slow.init", init=lambda: time.sleep(60))
def slow_init(context):
    return "never"

@job("slow.destroy", destroy=lambda: time.sleep(60))
def slow_destroy(context):
    return "done"

@job("ignores.but.returns")
def ignores_but_returns(context):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(0.3)

@job("terminates.at.once")
def terminates_at_once(context):
    import multiprocessing
    worker = multiprocessing.Process(target=time.sleep, args=(60,))
    worker.start()
    worker.terminate()
    worker.join()
    return worker.exitcode

@job("forks.all.the.time")
def forks_all_the_time(context):
    note("begun", "")
    while True:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)

@job("floods")
def floods(context):
    """Fork in the job's group and beyond it, as fast as it goes."""
    note("begun", "")
    hold()
    while True:
        if os.fork() == 0:
            os.setsid() if os.getpid() % 2 else None
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(60)
        time.sleep(0.002)
'''


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[JobFloor]:
    floor = JobFloor(tmp_path, SOURCE, count=2).open()
    yield floor
    floor.close()


def test_timeout_is_told_with_its_length(floor: JobFloor) -> None:
    before = time.monotonic()

    finished = floor.run("sleep", timeout_seconds=0.2)

    assert (finished.outcome, finished.message) == (Outcome.TIMED_OUT, "timed out after 0.2 s")
    assert time.monotonic() - before < 2
    assert "JobStopped" in finished.log_tail


def test_run_within_its_timeout_is_left_alone(floor: JobFloor) -> None:
    for _ in range(3):
        assert floor.run("quick", timeout_seconds=0.5).outcome is Outcome.SUCCEEDED
    floor.turn_for(0.7)

    assert floor.run("quick", timeout_seconds=0.5).outcome is Outcome.SUCCEEDED


def test_kill_is_told_with_its_reason(floor: JobFloor) -> None:
    run_id = floor.start("sleep")
    floor.turn(lambda: floor.note("begun"))

    assert floor.slots.stop(run_id, "killed by ann")

    finished = floor.wait(run_id)
    assert (finished.outcome, finished.message) == (Outcome.KILLED, "killed by ann")


def test_kill_of_a_run_that_is_not_here_says_so(floor: JobFloor) -> None:
    finished = floor.run("quick")

    assert floor.slots.stop(finished.run_id, "too late") is False
    assert floor.slots.stop(12345, "never was") is False


def test_second_kill_changes_nothing(floor: JobFloor) -> None:
    run_id = floor.start("stubborn")
    floor.turn(lambda: floor.note("begun"))

    assert floor.slots.stop(run_id, "first")
    assert floor.slots.stop(run_id, "second")

    assert floor.wait(run_id).message.startswith("first; did not end on SIGTERM within 0.5 s")


def test_kill_right_after_the_start_ends_the_run(floor: JobFloor) -> None:
    for _ in range(10):
        run_id = floor.start("sleep", fresh_process=True)
        floor.slots.stop(run_id, "at once")

        finished = floor.wait(run_id, 0.45)
        assert (finished.outcome, finished.message) == (Outcome.KILLED, "at once")


def test_kill_at_any_moment_of_a_birth_ends_the_run_without_force(floor: JobFloor) -> None:
    for delay in range(12):
        run_id = floor.start("sleep", fresh_process=True)
        floor.turn_for(delay / 1000)
        floor.slots.stop(run_id, "early")

        assert floor.wait(run_id).message == "early"


def test_kill_of_a_run_that_waits_for_a_process_ends_it_at_once(tmp_path: Path) -> None:
    floor = JobFloor(tmp_path, SOURCE, count=1, grace_seconds=3).open()
    floor.run("slow.destroy")
    run_id = floor.start("sleep")

    floor.slots.stop(run_id, "still waiting")

    finished = floor.wait(run_id, 1)
    assert (finished.outcome, finished.message) == (Outcome.KILLED, "still waiting")
    assert finished.started_at_ms == 0
    assert run_id not in floor.started
    assert floor.run("quick").outcome is Outcome.SUCCEEDED
    floor.close()


def test_kill_of_a_reused_process_ends_the_run(floor: JobFloor) -> None:
    floor.run("sleep", timeout_seconds=0.1)
    floor.run("quick")
    run_id = floor.start("cleans")
    floor.turn(lambda: floor.note("begun"))
    floor.slots.stop(run_id, "killed")

    assert floor.wait(run_id).outcome is Outcome.KILLED


def test_kill_during_init_ends_the_run(floor: JobFloor) -> None:
    finished = floor.run("slow.init", timeout_seconds=0.2)

    assert (finished.outcome, finished.message) == (Outcome.TIMED_OUT, "timed out after 0.2 s")


def test_stopped_handler_can_clean_up(floor: JobFloor) -> None:
    finished = floor.run("cleans", timeout_seconds=0.2)

    assert finished.outcome is Outcome.TIMED_OUT
    assert floor.note("cleaned") == "yes\n"


def test_handler_that_gives_in_is_timed_out_all_the_same(floor: JobFloor) -> None:
    finished = floor.run("gives.in", timeout_seconds=0.2)

    assert (finished.outcome, finished.message) == (Outcome.TIMED_OUT, "timed out after 0.2 s")


def test_except_exception_does_not_hold_a_stop_up(floor: JobFloor) -> None:
    finished = floor.run("except.exception", timeout_seconds=0.2)

    assert finished.message == "timed out after 0.2 s"


def test_async_handler_is_cancelled(floor: JobFloor) -> None:
    finished = floor.run("async.cleans", timeout_seconds=0.2)

    assert finished.message == "timed out after 0.2 s"
    assert floor.note("cleaned") == "async\n"


@pytest.mark.parametrize("handler", ["stubborn", "swallows", "busy.in.c"])
def test_run_that_does_not_end_on_sigterm_is_killed(floor: JobFloor, handler: str) -> None:
    before = time.monotonic()

    finished = floor.run(handler, timeout_seconds=0.3)

    assert finished.outcome is Outcome.TIMED_OUT
    assert finished.message == (
        "timed out after 0.3 s; did not end on SIGTERM within 0.5 s, killed with SIGKILL"
    )
    assert 0.8 <= time.monotonic() - before < 0.8 + 1


def test_cleaning_up_is_disturbed_once_only(floor: JobFloor) -> None:
    floor.run("swallows", timeout_seconds=0.3)

    assert floor.note("swallowed") == "one\n"


def test_stopped_process_is_continued_to_end(floor: JobFloor) -> None:
    finished = floor.run("stopped", timeout_seconds=0.3)

    assert finished.outcome is Outcome.TIMED_OUT
    assert "SIGKILL" not in finished.message


@pytest.mark.parametrize(
    ("param", "outcome"),
    [
        ("stubborn", Outcome.TIMED_OUT),
        ("", Outcome.TIMED_OUT),
        ("returns", Outcome.SUCCEEDED),
        ("dies", Outcome.FAILED),
    ],
)
def test_nothing_that_a_run_started_outlives_it(
    floor: JobFloor, param: str, outcome: Outcome
) -> None:
    run_id = floor.start("family", param, timeout_seconds=2)
    floor.turn(lambda: floor.note("begun"))
    before = processes_holding(floor.folder / "held")
    (floor.folder / "seen").touch()

    finished = floor.wait(run_id)

    assert len(before) >= 4, "the family was there"
    assert processes_holding(floor.folder / "held") == []
    assert finished.outcome is outcome


def test_processes_of_other_runs_are_spared(floor: JobFloor) -> None:
    bystander = floor.start("cleans")
    floor.turn(lambda: floor.note("begun"))

    (floor.folder / "seen").touch()
    floor.run("family", "dies")

    assert bystander not in floor.finished
    floor.slots.stop(bystander, "enough")
    assert floor.wait(bystander).message == "enough"


def test_flood_of_processes_ends_with_its_run(floor: JobFloor) -> None:
    finished = floor.run("floods", timeout_seconds=0.5)

    assert finished.outcome is Outcome.TIMED_OUT
    assert "could not be killed" not in finished.message
    assert processes_holding(floor.folder / "held") == []


@pytest.mark.parametrize("handler", ["hangs.in.thread", "hangs.at.exit"])
def test_result_stands_when_the_process_hangs_at_exit(floor: JobFloor, handler: str) -> None:
    finished = floor.run(handler, fresh_process=True)

    assert finished.outcome is Outcome.SUCCEEDED
    assert finished.message == "done (hung at exit, killed)"


def test_timeout_covers_the_time_until_exit(floor: JobFloor) -> None:
    finished = floor.run("hangs.at.exit", fresh_process=True, timeout_seconds=0.3)

    assert finished.outcome is Outcome.TIMED_OUT
    assert finished.message == (
        "timed out after 0.3 s; its handler had returned, its process hung at exit and was killed"
    )


def test_atexit_functions_are_called(floor: JobFloor) -> None:
    finished = floor.run("runs.atexit", fresh_process=True)

    assert finished.message == "done"
    assert finished.log_tail == "goodbye\n"


def test_result_stands_when_the_process_crashes_at_exit(floor: JobFloor) -> None:
    finished = floor.run("dies.at.exit", fresh_process=True)

    assert finished.outcome is Outcome.SUCCEEDED
    assert finished.message == "done (SIGSEGV (signal 11) at its exit)"


def test_destroy_that_hangs_is_killed_and_its_slot_comes_back(tmp_path: Path) -> None:
    floor = JobFloor(tmp_path, SOURCE, count=1).open()
    floor.run("slow.destroy")

    assert floor.run("quick").outcome is Outcome.SUCCEEDED
    floor.close()


def test_job_process_killed_from_outside_while_idle_harms_no_run(floor: JobFloor) -> None:
    floor.run("quick")
    (idle,) = floor.job_processes()

    signal.pidfd_send_signal(_pidfd(idle.pid), signal.SIGKILL)
    floor.turn(lambda: not floor.job_processes())
    floor.turn_for(0.05)

    assert floor.run("quick").outcome is Outcome.SUCCEEDED


def test_closing_kills_what_runs_and_leaves_no_process(tmp_path: Path) -> None:
    floor = JobFloor(tmp_path, SOURCE, count=3).open()
    floor.run("quick")
    stubborn, family = floor.start("stubborn"), floor.start("family")
    floor.turn(lambda: floor.note("begun").count("\n") == 2)
    zygote = floor.zygote

    floor.close()

    assert floor.finished[stubborn].message.startswith("the executor is stopping; did not end")
    assert floor.finished[family].outcome is Outcome.KILLED
    assert not zygote.is_alive
    assert processes_holding(floor.folder / "held") == []


def _pidfd(pid: int) -> int:
    return os.pidfd_open(pid)


def test_kill_leaves_its_slot_to_others(floor: JobFloor) -> None:
    for _ in range(3):
        run_ids = [floor.start("sleep"), floor.start("cleans")]
        floor.turn_for(0.05)
        for run_id in run_ids:
            floor.slots.stop(run_id, "enough")
            floor.wait(run_id)

    assert floor.slots.free == 2


def test_handler_that_ignores_sigterm_but_returns_was_not_killed(floor: JobFloor) -> None:
    finished = floor.run("ignores.but.returns", timeout_seconds=0.1)

    assert (finished.outcome, finished.message) == (Outcome.TIMED_OUT, "timed out after 0.1 s")


def test_run_given_to_a_process_that_just_died_is_given_to_another(floor: JobFloor) -> None:
    for _ in range(10):
        floor.run("quick")
        for idle in floor.job_processes():
            signal.pidfd_send_signal(os.pidfd_open(idle.pid), signal.SIGKILL)
        finished = floor.run("quick")

        assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, "done")


def test_process_that_cannot_be_killed_does_not_hold_its_run_open(
    floor: JobFloor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "STUCK_SECONDS", 0.3)
    run_id = floor.start("stubborn", timeout_seconds=0.2)
    floor.turn(lambda: floor.note("begun"))
    (stuck,) = floor.job_processes()
    os.kill(floor.zygote.pid, signal.SIGSTOP)  # nobody there to kill it

    finished = floor.wait(run_id)

    assert finished.outcome is Outcome.TIMED_OUT
    assert finished.message.endswith(f"(could not be killed: stubborn (pid {stuck.pid}))")
    os.kill(floor.zygote.pid, signal.SIGCONT)
    assert floor.run("quick").outcome is Outcome.SUCCEEDED
    eventually(lambda: not stuck.is_alive)


def test_worker_that_is_terminated_at_once_ends(floor: JobFloor) -> None:
    for _ in range(5):
        assert floor.run("terminates.at.once").message == "-15"


def test_sigterm_during_a_fork_is_not_lost(floor: JobFloor) -> None:
    for delay in range(8):
        run_id = floor.start("forks.all.the.time")
        floor.turn(lambda: floor.note("begun"))
        floor.turn_for(delay / 500)
        floor.slots.stop(run_id, "enough")

        assert floor.wait(run_id).message == "enough"
