"""Kill and timeout end a run with everything that it started, and say how."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.slot_harness import SlotHarness, processes_holding
from warren.broker.messages import Outcome

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

@job("deaf")
def deaf(context):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
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

@job("cleans.in.c")
def cleans_in_c(context):
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        note("begun", "")
        time.sleep(60)
    except JobStopped:
        note("uninterrupted", str(libc.usleep(500_000) == 0))
        raise

@job("both.at.once")
def both_at_once(context):
    both = (signal.SIGTERM, signal.SIGCONT)
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, both)
        for number in both:
            os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, both)
        time.sleep(60)
    except JobStopped:
        return "stopped"

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
        note("begun", "")
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
            note("begun", "")
            time.sleep(60)
        except JobStopped:
            note("swallowed", "one")

@job("busy.in.c")
def busy_in_c(context):
    mutex = ctypes.create_string_buffer(64)
    threading.Timer(0.3, note, ("begun", "")).start()
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
    atexit.register(note, "exiting", "")
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

@job("ignores.until.file")
def ignores_until_file(context):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note("begun", "")
    while not os.path.exists(context.param):
        time.sleep(0.01)

@job("swallows.the.stop")
def swallows_the_stop(context):
    note("begun", "x")
    try:
        time.sleep(60)
    except BaseException:
        return "half of it"

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
def harness(tmp_path: Path) -> Iterator[SlotHarness]:
    harness = SlotHarness(tmp_path, SOURCE, count=2).open()
    yield harness
    harness.close()


@pytest.fixture
def forceful(tmp_path: Path) -> Iterator[SlotHarness]:
    """It soon kills what does not end on SIGTERM."""
    forceful = SlotHarness(tmp_path, SOURCE, count=2, grace_seconds=0.5).open()
    yield forceful
    forceful.close()


def test_timeout_is_told_with_its_length(harness: SlotHarness) -> None:
    finished = harness.run("sleep", timeout_seconds=1.5)

    assert (finished.outcome, finished.message) == (Outcome.TIMED_OUT, "timed out after 1.5 s")
    assert "JobStopped" in finished.log_tail


def test_run_within_its_timeout_is_left_alone(harness: SlotHarness) -> None:
    for _ in range(3):
        assert harness.run("quick", timeout_seconds=60).outcome is Outcome.SUCCEEDED
    harness.loop.skip(61)
    harness.turn_for(0.05)

    assert harness.run("quick", timeout_seconds=60).outcome is Outcome.SUCCEEDED


def test_kill_is_told_with_its_reason(harness: SlotHarness) -> None:
    run_id = harness.start("sleep")
    harness.turn(lambda: harness.note("begun"))

    assert harness.slots.stop(run_id, "killed by ann")

    finished = harness.wait(run_id)
    assert (finished.outcome, finished.message) == (Outcome.KILLED, "killed by ann")


def test_kill_of_a_run_that_is_not_here_says_so(harness: SlotHarness) -> None:
    finished = harness.run("quick")

    assert harness.slots.stop(finished.run_id, "too late") is False
    assert harness.slots.stop(12345, "never was") is False


def test_second_kill_changes_nothing(forceful: SlotHarness) -> None:
    run_id = forceful.start("stubborn")
    forceful.turn(lambda: forceful.note("begun"))

    assert forceful.slots.stop(run_id, "first")
    assert forceful.slots.stop(run_id, "second")

    assert forceful.wait(run_id).message.startswith("first; still running 0.5 s after SIGTERM")


def test_kill_right_after_the_start_ends_the_run(harness: SlotHarness) -> None:
    for _ in range(10):
        run_id = harness.start("sleep", process="fresh")
        harness.slots.stop(run_id, "at once")

        finished = harness.wait(run_id)
        assert (finished.outcome, finished.message) == (Outcome.KILLED, "at once")


def test_kill_at_any_moment_of_a_start_ends_the_run_without_force(harness: SlotHarness) -> None:
    for delay in range(12):
        run_id = harness.start("sleep", process="fresh")
        harness.turn_for(delay / 1000)
        harness.slots.stop(run_id, "early")

        assert harness.wait(run_id).message == "early"


def test_sigterm_that_interrupts_nothing_is_noticed_all_the_same(harness: SlotHarness) -> None:
    """Another thread takes it, as if it had come just before the system call began."""
    run_id = harness.start("deaf")
    harness.turn(lambda: harness.note("begun"))

    harness.slots.stop(run_id, "enough")

    assert harness.wait(run_id).message == "enough"


def test_kill_of_a_run_that_waits_for_a_process_ends_it_at_once(tmp_path: Path) -> None:
    harness = SlotHarness(tmp_path, SOURCE, count=1, idle_count=0, grace_seconds=3).open()
    harness.run("slow.destroy")
    run_id = harness.start("sleep")

    harness.slots.stop(run_id, "still waiting")

    finished = harness.wait(run_id)
    assert harness.job_processes()  # the one that it would have waited for
    assert (finished.outcome, finished.message) == (Outcome.KILLED, "still waiting")
    assert finished.started_at_ms == 0
    assert run_id not in harness.started
    assert harness.run("quick").outcome is Outcome.SUCCEEDED
    harness.close()


def test_kill_of_a_reused_process_ends_the_run(harness: SlotHarness) -> None:
    harness.run("sleep", timeout_seconds=0.1)
    harness.run("quick")
    run_id = harness.start("cleans")
    harness.turn(lambda: harness.note("begun"))
    harness.slots.stop(run_id, "killed")

    assert harness.wait(run_id).outcome is Outcome.KILLED


def test_kill_during_init_ends_the_run(harness: SlotHarness) -> None:
    finished = harness.run("slow.init", timeout_seconds=0.2)

    assert (finished.outcome, finished.message) == (Outcome.TIMED_OUT, "timed out after 0.2 s")


def test_stopped_handler_can_clean_up(harness: SlotHarness) -> None:
    finished = harness.time_out("cleans")

    assert finished.outcome is Outcome.TIMED_OUT
    assert harness.note("cleaned") == "yes\n"


def test_handler_that_gives_in_is_timed_out_all_the_same(harness: SlotHarness) -> None:
    finished = harness.run("gives.in", timeout_seconds=0.2)

    assert (finished.outcome, finished.message) == (Outcome.TIMED_OUT, "timed out after 0.2 s")


def test_except_exception_does_not_hold_a_stop_up(harness: SlotHarness) -> None:
    finished = harness.run("except.exception", timeout_seconds=0.2)

    assert finished.message == "timed out after 0.2 s"


def test_async_handler_is_cancelled(harness: SlotHarness) -> None:
    finished = harness.time_out("async.cleans")

    assert finished.message == "timed out after 60 s"
    assert harness.note("cleaned") == "async\n"


@pytest.mark.parametrize("handler", ["stubborn", "swallows", "busy.in.c"])
def test_run_that_does_not_end_on_sigterm_is_killed(forceful: SlotHarness, handler: str) -> None:
    before = time.monotonic()

    finished = forceful.time_out(handler)

    assert finished.outcome is Outcome.TIMED_OUT
    assert finished.message == (
        "timed out after 60 s; still running 0.5 s after SIGTERM, killed with SIGKILL"
    )
    assert time.monotonic() - before >= 0.5


def test_cleaning_up_is_disturbed_once_only(forceful: SlotHarness) -> None:
    forceful.time_out("swallows")

    assert forceful.note("swallowed") == "one\n"


def test_stopped_process_is_continued_to_end(harness: SlotHarness) -> None:
    finished = harness.run("stopped", timeout_seconds=0.3)

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
    forceful: SlotHarness, param: str, outcome: Outcome
) -> None:
    run_id = forceful.start("family", param, timeout_seconds=60)
    forceful.turn(lambda: forceful.note("begun"))
    before = processes_holding(forceful.folder / "held")
    (forceful.folder / "seen").touch()
    if outcome is Outcome.TIMED_OUT:
        forceful.loop.skip(60)

    finished = forceful.wait(run_id)

    assert len(before) >= 4, "the family was there"
    assert processes_holding(forceful.folder / "held") == []
    assert finished.outcome is outcome


def test_processes_of_other_runs_are_spared(harness: SlotHarness) -> None:
    bystander = harness.start("cleans")
    harness.turn(lambda: harness.note("begun"))

    (harness.folder / "seen").touch()
    harness.run("family", "dies")

    assert bystander not in harness.finished
    harness.slots.stop(bystander, "enough")
    assert harness.wait(bystander).message == "enough"


def test_flood_of_processes_ends_with_its_run(harness: SlotHarness) -> None:
    finished = harness.run("floods", timeout_seconds=0.5)

    assert finished.outcome is Outcome.TIMED_OUT
    assert "could not be killed" not in finished.message
    assert processes_holding(harness.folder / "held") == []


@pytest.mark.parametrize("handler", ["hangs.in.thread", "hangs.at.exit"])
def test_result_stands_when_the_process_hangs_at_exit(forceful: SlotHarness, handler: str) -> None:
    finished = forceful.run(handler, process="fresh")

    assert finished.outcome is Outcome.SUCCEEDED
    assert finished.message == "done (hung at exit, killed)"


def test_timeout_covers_the_time_until_exit(forceful: SlotHarness) -> None:
    finished = forceful.time_out("hangs.at.exit", "exiting", process="fresh")

    assert finished.outcome is Outcome.TIMED_OUT
    assert finished.message == (
        "timed out after 60 s; its handler returned, but its process hung at exit and was killed"
    )


def test_atexit_functions_are_called(harness: SlotHarness) -> None:
    finished = harness.run("runs.atexit", process="fresh")

    assert finished.message == "done"
    assert finished.log_tail == "goodbye\n"


def test_result_stands_when_the_process_crashes_at_exit(harness: SlotHarness) -> None:
    finished = harness.run("dies.at.exit", process="fresh")

    assert finished.outcome is Outcome.SUCCEEDED
    assert finished.message == "done (SIGSEGV (signal 11) at exit)"


def test_destroy_that_hangs_is_killed_and_its_slot_comes_back(tmp_path: Path) -> None:
    harness = SlotHarness(tmp_path, SOURCE, count=1, idle_count=0, grace_seconds=0.5).open()
    harness.run("slow.destroy")

    assert harness.run("quick").outcome is Outcome.SUCCEEDED
    harness.close()


def test_job_process_killed_from_outside_while_idle_harms_no_run(harness: SlotHarness) -> None:
    harness.run("quick")
    (idle,) = harness.job_processes()

    signal.pidfd_send_signal(_pidfd(idle.pid), signal.SIGKILL)
    harness.turn(lambda: not harness.job_processes())
    harness.turn_for(0.05)

    assert harness.run("quick").outcome is Outcome.SUCCEEDED


def test_closing_cuts_off_what_runs_and_leaves_no_process(tmp_path: Path) -> None:
    harness = SlotHarness(tmp_path, SOURCE, count=3).open()
    harness.run("quick")
    stubborn, family = harness.start("stubborn"), harness.start("family")
    harness.turn(lambda: harness.note("begun").count("\n") == 2)
    zygote = harness.zygote

    harness.close(3)

    words = "stopped because its executor shut down"
    assert harness.finished[stubborn].message.startswith(f"{words}; still running ")
    assert harness.finished[family].message == words
    assert {harness.finished[run_id].outcome for run_id in (stubborn, family)} == {Outcome.FAILED}
    assert not zygote.is_alive
    assert processes_holding(harness.folder / "held") == []


def test_handler_that_returns_all_the_same_was_not_cut_off(harness: SlotHarness) -> None:
    end = harness.folder / "end"
    run_id = harness.start("ignores.until.file", str(end))
    harness.turn(lambda: end.with_name("begun").exists())

    assert harness.slots.cut_off(run_id)
    end.touch()

    finished = harness.wait(run_id)
    assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, "")


def test_handler_that_swallows_the_stop_was_cut_off(harness: SlotHarness) -> None:
    run_id = harness.start("swallows.the.stop")
    harness.turn(lambda: harness.note("begun"))

    assert harness.slots.cut_off(run_id)

    finished = harness.wait(run_id)
    assert (finished.outcome, finished.message) == (
        Outcome.FAILED,
        "stopped because its executor shut down",
    )


def test_run_that_somebody_killed_first_is_not_cut_off(harness: SlotHarness) -> None:
    run_id = harness.start("sleep")
    harness.turn_for(0.05)

    harness.slots.stop(run_id, "killed by ann")
    harness.slots.cut_off(run_id)

    finished = harness.wait(run_id)
    assert (finished.outcome, finished.message) == (Outcome.KILLED, "killed by ann")


def _pidfd(pid: int) -> int:
    return os.pidfd_open(pid)


def test_kill_leaves_its_slot_to_others(harness: SlotHarness) -> None:
    for _ in range(3):
        run_ids = [harness.start("sleep"), harness.start("cleans")]
        harness.turn_for(0.05)
        for run_id in run_ids:
            harness.slots.stop(run_id, "enough")
            harness.wait(run_id)

    assert harness.slots.free == 2


def test_handler_that_ignores_sigterm_but_returns_was_not_killed(harness: SlotHarness) -> None:
    finished = harness.run("ignores.but.returns", timeout_seconds=0.1)

    assert (finished.outcome, finished.message) == (Outcome.TIMED_OUT, "timed out after 0.1 s")


def test_run_given_to_a_process_that_just_died_is_given_to_another(harness: SlotHarness) -> None:
    for _ in range(10):
        harness.run("quick")
        for idle in harness.job_processes():
            signal.pidfd_send_signal(os.pidfd_open(idle.pid), signal.SIGKILL)
        finished = harness.run("quick")

        assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, "done")


def test_nothing_interrupts_what_a_stopped_handler_still_does(tmp_path: Path) -> None:
    harness = SlotHarness(tmp_path, SOURCE).open()
    try:
        run_id = harness.start("cleans.in.c")
        harness.turn(lambda: harness.note("begun"))

        harness.slots.stop(run_id, "enough")

        assert harness.wait(run_id, 60).outcome is Outcome.KILLED
        assert harness.note("uninterrupted") == "True\n"
    finally:
        harness.close()


def test_stop_that_is_nudged_at_once_leaves_no_trace_in_the_log(harness: SlotHarness) -> None:
    run_id = harness.start("both.at.once")

    assert harness.wait(run_id).message == "stopped"
    assert harness.log_of(run_id) == ""


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[SlotHarness]:
    """It does not wait for long for what SIGKILL does not end."""
    harness = SlotHarness(tmp_path, SOURCE, grace_seconds=0.5, stuck_seconds=0.3).open()
    yield harness
    harness.close()


def test_process_that_cannot_be_killed_does_not_hold_its_run_open(hasty: SlotHarness) -> None:
    harness = hasty
    run_id = harness.start("stubborn")
    harness.turn(lambda: harness.note("begun"))
    (stuck,) = harness.job_processes()
    os.kill(harness.zygote.pid, signal.SIGSTOP)  # nobody there to kill it

    harness.slots.stop(run_id, "enough")
    finished = harness.wait(run_id)

    assert finished.outcome is Outcome.KILLED
    assert finished.message.endswith(f"(could not be killed: stubborn (pid {stuck.pid}))")
    os.kill(harness.zygote.pid, signal.SIGCONT)
    assert harness.run("quick").outcome is Outcome.SUCCEEDED
    eventually(lambda: not stuck.is_alive)


def test_worker_that_is_terminated_at_once_ends(harness: SlotHarness) -> None:
    for _ in range(5):
        assert harness.run("terminates.at.once").message == "-15"


def test_sigterm_during_a_fork_is_not_lost(tmp_path: Path) -> None:
    # A lost signal would be waited for until the limit of the test, however busy the machine is.
    harness = SlotHarness(tmp_path, SOURCE, grace_seconds=200).open()
    for delay in range(8):
        run_id = harness.start("forks.all.the.time")
        harness.turn(lambda: harness.note("begun"))
        harness.turn_for(delay / 500)
        harness.slots.stop(run_id, "enough")

        assert harness.wait(run_id, 200).message == "enough"
    harness.close()
