"""A job process serves run after run of its handler, and each finds it as the first did."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.messages import Outcome
from tests.support.eventually import eventually
from tests.support.job_floor import JobFloor

SOURCE = """
import os, signal, subprocess, sys, threading, time

HERE = os.path.dirname(__file__)

def note(name, text):
    with open(os.path.join(HERE, name), "a") as file:
        file.write(text + "\\n")

@job("pid")
def pid(context):
    return os.getpid()

@job("other.pid")
def other_pid(context):
    return os.getpid()

@job("boom.pid")
def boom_pid(context):
    context.fail(str(os.getpid()))

def begin():
    note("hooks", f"init {os.getpid()}")

def finish():
    note("hooks", f"destroy {os.getpid()}")

@job("hooked", init=begin, destroy=finish)
def hooked(context):
    note("hooks", "run")
    return os.getpid()

async def begin_async():
    note("async", "init")

@job("hooked.async", init=begin_async)
async def hooked_async(context):
    note("async", "run")

def bad_begin():
    note("bad", "init")
    raise ConnectionError("no database")

@job("bad.init", init=bad_begin, destroy=finish)
def bad_init(context):
    return "never"

def bad_finish():
    raise ValueError("at the end")

@job("bad.destroy", destroy=bad_finish)
def bad_destroy(context):
    return "done"

def surroundings():
    mask = os.umask(0)
    os.umask(mask)
    environment = {k: v for k, v in os.environ.items() if k != "WARREN_RUN_ID"}
    handlers = [signal.getsignal(n) for n in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)]
    return repr((
        os.getcwd(), sorted(environment.items()), mask, [str(h) for h in handlers],
        signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getitimer(signal.ITIMER_REAL),
        sys.stdout is sys.__stdout__, sys.stdin is None,
    ))

@job("vandal")
def vandal(context):
    seen = surroundings() + str(os.getpid())
    os.chdir("/")
    os.umask(0o777)
    os.environ["NEW"] = "1"
    os.environ["PATH"] = "/nowhere"
    os.environ.pop("LANG", None)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    signal.setitimer(signal.ITIMER_REAL, 0.4)
    if context.param == "stdout":
        sys.stdout.close()
        os.close(1)
    elif context.param == "redirect":
        sys.stdout = open(os.devnull, "w")
        os.dup2(sys.stdout.fileno(), 2)
    return seen

@job("print")
def print_it(context):
    print(context.param)
    return os.getpid()

@job("environment")
def environment(context):
    return os.environ["WARREN_RUN_ID"] + subprocess.getoutput("echo /$WARREN_RUN_ID")

def begin_thread():
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()

@job("resident.thread", init=begin_thread)
def resident_thread(context):
    return os.getpid()

@job("long")
def long(context):
    return "ü" * 50_000

@job("leaves.thread")
def leaves_thread(context):
    threading.Thread(target=time.sleep, args=(float(context.param),), daemon=True).start()
    return os.getpid()

@job("leaves.child")
def leaves_child(context):
    if context.param == "dead":
        subprocess.Popen(["true"])
        time.sleep(0.1)
    elif context.param == "living":
        child = subprocess.Popen(["sleep", "60"])
        note("child", str(child.pid))
    return os.getpid()
"""


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[JobFloor]:
    floor = JobFloor(tmp_path, SOURCE, count=1).open()
    yield floor
    floor.close()


@pytest.fixture
def make_floor(tmp_path: Path) -> Iterator[Callable[..., JobFloor]]:
    floors: list[JobFloor] = []

    def make(**options: object) -> JobFloor:
        floors.append(JobFloor(tmp_path, SOURCE, **options).open())
        return floors[-1]

    yield make
    for floor in floors:
        floor.close()


def test_runs_of_one_handler_share_a_process(floor: JobFloor) -> None:
    pids = {floor.run("pid").message for _ in range(5)}

    assert len(pids) == 1


def test_failed_run_does_not_cost_the_process(floor: JobFloor) -> None:
    assert floor.run("boom.pid").message == floor.run("boom.pid").message


def test_fresh_process_serves_one_run_and_is_gone_at_its_end(floor: JobFloor) -> None:
    first = floor.run("pid", fresh_process=True)
    left = floor.job_processes()
    second = floor.run("pid", fresh_process=True)

    assert first.message != second.message
    assert left == []


def test_process_ends_after_its_number_of_runs(make_floor: Callable[..., JobFloor]) -> None:
    floor = make_floor(count=1, runs_per_process=2)

    pids = [floor.run("pid").message for _ in range(5)]

    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]


def test_idle_process_ends_and_calls_destroy(make_floor: Callable[..., JobFloor]) -> None:
    floor = make_floor(idle_seconds=0.1)

    pid = floor.run("hooked").message

    floor.turn(lambda: not floor.job_processes())
    assert floor.note("hooks").splitlines() == [f"init {pid}", "run", f"destroy {pid}"]


def test_init_is_called_once_per_process(floor: JobFloor) -> None:
    pid = floor.run("hooked").message
    floor.run("hooked")

    assert floor.note("hooks").splitlines() == [f"init {pid}", "run", "run"]


def test_async_init_is_awaited(floor: JobFloor) -> None:
    floor.run("hooked.async")

    assert floor.note("async").splitlines() == ["init", "run"]


def test_failed_init_fails_the_run_and_is_tried_again_in_a_new_process(floor: JobFloor) -> None:
    endings = [floor.run("bad.init") for _ in range(2)]

    for ending in endings:
        assert ending.outcome is Outcome.FAILED
        assert ending.message.startswith("ConnectionError: no database\n\nTraceback")
    assert floor.note("bad") == "init\ninit\n"
    assert floor.note("hooks") == ""


def test_failed_destroy_is_told_in_the_log_only(floor: JobFloor) -> None:
    finished = floor.run("bad.destroy", fresh_process=True)

    assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, "done")
    assert "destroy failed at the process's end: ValueError: at the end" in finished.log_tail


def test_idle_process_makes_room_for_another_handler(floor: JobFloor) -> None:
    hooked = floor.run("hooked").message
    other = floor.run("other.pid").message

    assert hooked != other
    assert f"destroy {hooked}" in floor.note("hooks")
    assert [str(each.pid) for each in floor.job_processes()] == [other]


def test_process_that_idled_longest_makes_room(make_floor: Callable[..., JobFloor]) -> None:
    floor = make_floor(count=2)
    oldest, latest = floor.run("pid").message, floor.run("hooked").message

    floor.run("other.pid")

    alive = {str(each.pid) for each in floor.job_processes()}
    assert latest in alive
    assert oldest not in alive


def test_never_more_processes_than_slots(make_floor: Callable[..., JobFloor]) -> None:
    floor = make_floor(count=3)
    most = 0

    for turn in range(30):
        run_id = floor.start(("pid", "other.pid", "hooked", "print")[turn % 4])
        most = max(most, len(floor.job_processes()))
        floor.wait(run_id)

    assert 0 < most <= 3


@pytest.mark.parametrize("param", ["", "stdout", "redirect"])
def test_run_finds_its_process_as_the_first_one_did(floor: JobFloor, param: str) -> None:
    first, second = floor.run("vandal", param), floor.run("vandal", param)

    assert first.message == second.message
    assert first.outcome is second.outcome is Outcome.SUCCEEDED


def test_timer_of_one_run_does_not_strike_the_next(floor: JobFloor) -> None:
    pid = floor.run("vandal").message
    floor.turn_for(0.6)

    assert floor.run("vandal").message == pid


def test_each_run_has_its_own_log_and_a_silent_one_none(floor: JobFloor) -> None:
    first, silent, third = floor.run("print", "a"), floor.run("pid"), floor.run("print", "b")

    assert floor.log_of(first.run_id) == "a\n"
    assert floor.log_of(third.run_id) == "b\n"
    assert (first.log_tail, silent.log_tail, third.log_tail) == ("a\n", "", "b\n")
    assert not floor.log_path(silent.run_id).exists()


def test_silent_runs_leave_one_empty_file_at_most(floor: JobFloor) -> None:
    for _ in range(5):
        last = floor.run("pid")

    assert list(floor.log_path(1).parent.iterdir()) == [floor.log_path(last.run_id)]


def test_run_id_stands_in_the_environment_of_what_a_run_starts(floor: JobFloor) -> None:
    for _ in range(2):
        finished = floor.run("environment")

        assert finished.message == f"{finished.run_id}/{finished.run_id}"


def test_left_over_thread_costs_the_process(floor: JobFloor) -> None:
    assert floor.run("leaves.thread", "60").message != floor.run("leaves.thread", "60").message


def test_finished_thread_does_not(floor: JobFloor) -> None:
    first = floor.run("leaves.thread", "0")
    eventually(lambda: len(floor.job_processes()) <= 1)

    assert first.outcome is Outcome.SUCCEEDED


def test_dead_child_is_reaped_and_does_not_cost_the_process(floor: JobFloor) -> None:
    assert floor.run("leaves.child", "dead").message == floor.run("leaves.child").message


def test_living_child_is_killed_before_the_end_is_told(floor: JobFloor) -> None:
    finished = floor.run("leaves.child", "living")

    assert finished.outcome is Outcome.SUCCEEDED
    assert not Path(f"/proc/{floor.note('child').strip()}").exists()
    assert floor.run("leaves.child").message != finished.message


def test_thread_that_init_started_stays_with_the_process(floor: JobFloor) -> None:
    assert floor.run("resident.thread").message == floor.run("resident.thread").message


@pytest.mark.parametrize("fresh", [True, False])
def test_long_result_arrives_whole_from_a_process_that_ends(floor: JobFloor, fresh: bool) -> None:
    for _ in range(5):
        finished = floor.run("long", fresh_process=fresh)

        assert finished.message == "ü" * 50_000
