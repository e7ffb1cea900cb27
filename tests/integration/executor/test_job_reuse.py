"""A job process serves run after run of its job, and each finds it as the first did."""

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.slot_harness import SlotHarness
from warren.broker.messages import Outcome
from warren.executor.processes.job_processes import JobProcess
from warren.executor.processes.slots import Slots

SOURCE = """
import asyncio, os, signal, subprocess, sys, threading, time

HERE = os.path.dirname(__file__)

def note(name, text):
    with open(os.path.join(HERE, name), "a") as file:
        file.write(text + "\\n")

@job("pid")
def pid(context):
    return os.getpid()

@job("shared.pid", process="handler")
def shared_pid(context):
    return os.getpid()

@job("lone.pid", process="fresh")
def lone_pid(context):
    return os.getpid()

@job("spoils", process="handler")
def spoils(context):
    if context.param == "a limit":
        import resource
        files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files - 1, most))
    elif context.param == "a thread":
        threading.Thread(target=time.sleep, args=[0.5], daemon=True).start()
    elif context.param == "a child":
        subprocess.Popen(["sleep", "60"])
    return os.getpid()

@job("other.pid")
def other_pid(context):
    return os.getpid()

runs = 0

@job("counts")
def counts(context):
    global runs
    runs += 1
    return f"{runs} {os.getpid()}"

def never_finish():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)

@job("ends.slowly", destroy=never_finish)
def ends_slowly(context):
    return os.getpid()

@job("sleeps")
def sleeps(context):
    time.sleep(60)

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

LOCK = None

async def make_lock():
    global LOCK
    LOCK = asyncio.Queue()
    asyncio.create_task(asyncio.sleep(60), name="resident")

async def drop_lock():
    await asyncio.wait_for(LOCK.put("the end"), 1)
    note("lock", LOCK.get_nowait())

@job("keeps.a.client", init=make_lock, destroy=drop_lock)
async def keeps_a_client(context):
    await asyncio.to_thread(time.sleep, 0)
    asyncio.get_running_loop().call_soon(LOCK.put_nowait, context.param)
    return f"{await LOCK.get()} {os.getpid()}"

@job("leaves.a.task")
async def leaves_a_task(context):
    async def poll():
        await asyncio.sleep(60)
    asyncio.create_task(poll())
    await asyncio.sleep(0)
    return "done"

def bad_begin():
    note("bad", "init")
    raise ConnectionError("no database")

@job("bad.init", init=bad_begin, destroy=finish)
def bad_init(context):
    return "never"

@job("exits.in.init", init=lambda: sys.exit(0))
def exits_in_init(context):
    return "never"

def bad_finish():
    raise ValueError("at the end")

@job("bad.destroy", destroy=bad_finish)
def bad_destroy(context):
    return "done"

def process_state():
    mask = os.umask(0)
    os.umask(mask)
    environment = {k: v for k, v in os.environ.items() if k != "WARREN_RUN_ID"}
    handlers = [signal.getsignal(n) for n in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)]
    return repr((
        os.getcwd(), sorted(environment.items()), mask, [str(h) for h in handlers],
        signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getitimer(signal.ITIMER_REAL),
        sys.stdout is sys.__stdout__, sys.stdin is None, time.localtime(0).tm_gmtoff,
    ))

@job("vandal")
def vandal(context):
    seen = process_state() + str(os.getpid())
    os.chdir("/")
    os.umask(0o777)
    os.environ["NEW"] = "1"
    os.environ["PATH"] = "/nowhere"
    os.environ.pop("LANG", None)
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
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

@job("profiles")
def profiles(context):
    timer, number = context.param.split()
    begun = time.process_time()
    while time.process_time() < begun + 0.1:
        pass
    signal.signal(getattr(signal, "SIG" + number), lambda *_: None)
    signal.setitimer(getattr(signal, "ITIMER_" + timer), 0.02, 0.02)
    return os.getpid()

@job("print")
def print_it(context):
    if context.param:
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
        pid = os.spawnvp(os.P_NOWAIT, "true", ["true"])
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    elif context.param == "living":
        child = subprocess.Popen(["sleep", "60"])
        note("child", str(child.pid))
    return os.getpid()
"""


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SlotHarness]:
    harness = SlotHarness(tmp_path, SOURCE, count=1).open()
    yield harness
    harness.close()


@pytest.fixture
def make_floor(tmp_path: Path) -> Iterator[Callable[..., SlotHarness]]:
    floors: list[SlotHarness] = []

    def make(**options: object) -> SlotHarness:
        floors.append(SlotHarness(tmp_path, SOURCE, **options).open())
        return floors[-1]

    yield make
    for harness in floors:
        harness.close()


def test_runs_of_one_job_share_a_process(harness: SlotHarness) -> None:
    pids = {harness.run("pid").message for _ in range(5)}

    assert len(pids) == 1


def test_failed_run_does_not_cost_the_process(harness: SlotHarness) -> None:
    assert harness.run("boom.pid").message == harness.run("boom.pid").message


def test_fresh_process_serves_one_run_and_is_gone_at_its_end(harness: SlotHarness) -> None:
    first = harness.run("pid", process="fresh")
    left = harness.job_processes()
    second = harness.run("pid", process="fresh")

    assert first.message != second.message
    assert left == []


def test_no_process_is_kept_for_a_job_that_is_due_only_once(harness: SlotHarness) -> None:
    harness.run("pid", one_time=True)

    assert harness.job_processes() == []


def test_jobs_that_are_due_only_once_share_the_processes_of_their_handler(
    harness: SlotHarness,
) -> None:
    first, second = (
        harness.run("pid", job_id=job, one_time=True, process="handler").message for job in (7, 8)
    )

    assert first == second


def test_executor_says_what_is_done_for_jobs_that_do_not(
    make_floor: Callable[..., SlotHarness],
) -> None:
    harness = make_floor(count=1, process="fresh")

    open_, fresh, shared = (
        {harness.run("pid", process=chosen).message for _ in range(2)}
        for chosen in (None, "fresh", "job")
    )

    assert (len(open_), len(fresh), len(shared)) == (2, 2, 1)


def test_process_ends_after_its_number_of_runs(make_floor: Callable[..., SlotHarness]) -> None:
    harness = make_floor(count=1, runs_per_process=2)

    pids = [harness.run("pid").message for _ in range(5)]

    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]


def test_idle_process_ends_and_calls_destroy(make_floor: Callable[..., SlotHarness]) -> None:
    harness = make_floor(idle_seconds=0.1)

    pid = harness.run("hooked").message

    harness.turn(lambda: not harness.job_processes())
    assert harness.note("hooks").splitlines() == [f"init {pid}", "run", f"destroy {pid}"]


def test_of_many_idle_processes_only_some_are_ended_at_once(
    make_floor: Callable[..., SlotHarness], monkeypatch: pytest.MonkeyPatch
) -> None:
    harness, ended = make_floor(count=4, idle_seconds=0.1, ended_at_once=2), [0]
    sweep, end = Slots._sweep, JobProcess.end

    def count_sweep(own: Slots) -> None:
        ended.append(0)
        sweep(own)

    def count_end(process: JobProcess, grace_seconds: float) -> None:
        ended[-1] += 1
        end(process, grace_seconds)

    monkeypatch.setattr(Slots, "_sweep", count_sweep)
    monkeypatch.setattr(JobProcess, "end", count_end)
    for run_id in [harness.start("pid", job_id=job) for job in range(1, 5)]:
        harness.wait(run_id)
    harness.turn(lambda: not harness.job_processes())

    assert (max(ended), sum(ended)) == (2, 4)


def test_init_is_called_once_per_process(harness: SlotHarness) -> None:
    pid = harness.run("hooked").message
    harness.run("hooked")

    assert harness.note("hooks").splitlines() == [f"init {pid}", "run", "run"]


def test_client_of_an_event_loop_serves_init_all_runs_and_destroy(harness: SlotHarness) -> None:
    messages = [harness.run("keeps.a.client", param=str(number)).message for number in range(3)]
    harness.run("keeps.a.client", process="fresh")

    assert [message.split()[0] for message in messages] == ["0", "1", "2"]
    assert len({message.split()[1] for message in messages}) == 1
    assert harness.note("lock") == "the end\n"


def test_tasks_that_a_run_leaves_are_cancelled_and_named(harness: SlotHarness) -> None:
    for _ in range(2):
        finished = harness.run("leaves.a.task")

        assert finished.message == (
            "done (cancelled the tasks that it left running (1): leaves_a_task.<locals>.poll)"
        )


def test_async_init_is_awaited(harness: SlotHarness) -> None:
    harness.run("hooked.async")

    assert harness.note("async").splitlines() == ["init", "run"]


def test_run_whose_init_exits_has_failed_whatever_its_status(harness: SlotHarness) -> None:
    ending = harness.run("exits.in.init")

    assert (ending.outcome, ending.message) == (Outcome.FAILED, "its init called sys.exit(0)")


def test_failed_init_fails_the_run_and_is_tried_again_in_a_new_process(
    harness: SlotHarness,
) -> None:
    endings = [harness.run("bad.init") for _ in range(2)]

    for ending in endings:
        assert ending.outcome is Outcome.FAILED
        assert ending.message.startswith("ConnectionError: no database\n\nTraceback")
    assert harness.note("bad") == "init\ninit\n"
    assert harness.note("hooks") == ""


def test_failed_destroy_is_told_in_the_log_only(harness: SlotHarness) -> None:
    finished = harness.run("bad.destroy", process="fresh")

    assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, "done")
    assert "destroy failed at the process's end: ValueError: at the end" in finished.log_tail


def pids(harness: SlotHarness) -> set[str]:
    return {str(each.pid) for each in harness.job_processes()}


def test_jobs_with_one_handler_share_no_process(harness: SlotHarness) -> None:
    jobs = range(1, 9)

    first = [harness.run("counts", job_id=job_id).message.split() for job_id in jobs for _ in "ab"]

    assert [count for count, _ in first] == ["1", "2"] * 8
    assert len({pid for _, pid in first}) == 8


def test_job_that_is_given_another_handler_gets_another_process(harness: SlotHarness) -> None:
    assert harness.run("pid").message != harness.run("other.pid").message


def test_two_runs_of_a_job_at_a_time_have_a_process_each(
    make_floor: Callable[..., SlotHarness],
) -> None:
    harness = make_floor(count=2)

    run_ids = [harness.start("pid") for _ in range(2)]

    assert len({harness.wait(run_id).message for run_id in run_ids}) == 2


def test_idle_processes_of_other_jobs_take_no_slot(harness: SlotHarness) -> None:
    first = [harness.run("pid", job_id=job_id).message for job_id in range(1, 5)]
    second = [harness.run("pid", job_id=job_id).message for job_id in range(1, 5)]

    assert harness.slots.free == 1
    assert first == second
    assert pids(harness) == set(first)


def test_with_one_idle_process_too_many_the_newest_that_has_served_once_ends(
    make_floor: Callable[..., SlotHarness],
) -> None:
    harness = make_floor(count=1, idle_count=2)
    first, second = (harness.run("hooked", job_id=job_id).message for job_id in (1, 2))

    harness.run("hooked", job_id=3)

    harness.turn(lambda: pids(harness) == {first, second})


def test_where_more_jobs_take_turns_than_there_are_places_those_that_have_one_keep_it(
    make_floor: Callable[..., SlotHarness],
) -> None:
    harness = make_floor(count=1, idle_count=2)

    rounds = [[harness.run("pid", job_id=one).message for one in range(1, 5)] for _ in range(3)]

    assert [one[:2] for one in rounds] == [rounds[0][:2]] * 3
    assert len({pid for one in rounds for pid in one[2:]}) == 6


def test_jobs_that_come_again_get_the_places_of_those_that_do_not(
    make_floor: Callable[..., SlotHarness],
) -> None:
    harness = make_floor(count=1, idle_count=2)
    for job_id in (1, 2, 1, 2):  # both are used again, and then no more
        harness.run("pid", job_id=job_id)

    rounds = [[harness.run("pid", job_id=one).message for one in (3, 4)] for _ in range(4)]

    assert rounds[2] == rounds[3]


def test_no_idle_process_is_kept_where_none_is_wanted(
    make_floor: Callable[..., SlotHarness],
) -> None:
    harness = make_floor(count=1, idle_count=0)

    messages = [harness.run("hooked", job_id=job_id).message for job_id in (1, 1, 2)]

    harness.turn(lambda: not harness.job_processes())
    assert len(set(messages)) == 3
    assert all(f"destroy {pid}" in harness.note("hooks") for pid in messages)


def test_run_waits_for_a_process_on_its_way_out_rather_than_be_one_too_many(
    make_floor: Callable[..., SlotHarness],
) -> None:
    harness = make_floor(count=1, idle_count=0, grace_seconds=0.5)
    slow = harness.run("ends.slowly", job_id=1).message

    other = harness.start("pid", job_id=2)
    alive = pids(harness)
    message = harness.wait(other).message

    assert alive == {slow}
    assert message != slow


def test_never_more_processes_than_slots_and_idle_ones(
    make_floor: Callable[..., SlotHarness],
) -> None:
    harness = make_floor(count=3, idle_count=2)
    most = 0

    for turn in range(40):
        run_id = harness.start("hooked", job_id=turn % 9)
        most = max(most, len(harness.job_processes()))
        harness.wait(run_id)

    assert 2 < most <= 5


def test_kill_of_one_job_leaves_the_processes_of_others_alone(
    make_floor: Callable[..., SlotHarness],
) -> None:
    harness = make_floor(count=2)
    other = harness.run("pid", job_id=2).message
    doomed = harness.start("sleeps", job_id=1)
    harness.turn(lambda: doomed in harness.started)

    harness.slots.stop(doomed, "by hand")

    assert harness.wait(doomed).outcome is Outcome.KILLED
    assert pids(harness) == {other}
    assert harness.run("pid", job_id=2).message == other


@pytest.mark.skipif(os.geteuid() != 0, reason="a zygote shows its descriptors to root only")
def test_idle_process_gives_its_room_where_the_host_bears_no_more(
    make_floor: Callable[..., SlotHarness],
) -> None:
    harness = make_floor(count=1, idle_count=9)
    descriptors = Path(f"/proc/{harness.zygote.pid}/fd")
    files = len(list(descriptors.iterdir())) + 2  # those of two processes
    first = harness.run("pid", job_id=1).message
    harness.run("pid", job_id=2)
    harness.turn(lambda: len(list(descriptors.iterdir())) == files)
    resource.prlimit(harness.zygote.pid, resource.RLIMIT_NOFILE, (files, files))

    third = harness.run("pid", job_id=3)

    assert third.outcome is Outcome.SUCCEEDED
    assert first not in pids(harness)


def test_run_fails_where_the_host_bears_no_process_at_all(harness: SlotHarness) -> None:
    resource.prlimit(harness.zygote.pid, resource.RLIMIT_NOFILE, (6, 6))

    finished = harness.run("pid")

    assert finished.outcome is Outcome.FAILED
    assert finished.message is not None
    assert finished.message.lower() == "cannot start a process: too many open files"


@pytest.mark.parametrize("param", ["", "stdout", "redirect"])
def test_run_finds_its_process_as_the_first_one_did(harness: SlotHarness, param: str) -> None:
    first, second = harness.run("vandal", param), harness.run("vandal", param)

    assert first.message == second.message
    assert first.outcome is second.outcome is Outcome.SUCCEEDED


def test_timer_of_one_run_does_not_strike_the_next(harness: SlotHarness) -> None:
    pid = harness.run("vandal").message
    harness.turn_for(0.6)

    assert harness.run("vandal").message == pid


@pytest.mark.parametrize(("timer", "number"), [("PROF", "PROF"), ("VIRTUAL", "VTALRM")])
def test_profiling_of_one_run_does_not_strike_the_next(
    harness: SlotHarness, timer: str, number: str
) -> None:
    first, second = [harness.run("profiles", f"{timer} {number}", job_id=60) for _ in range(2)]

    assert first.outcome is second.outcome is Outcome.SUCCEEDED
    assert first.message == second.message


def test_each_run_has_its_own_log_and_a_silent_one_none(harness: SlotHarness) -> None:
    first, silent, third = (harness.run("print", param) for param in ("a", "", "b"))

    assert harness.log_of(first.run_id) == "a\n"
    assert harness.log_of(third.run_id) == "b\n"
    assert (first.log_tail, silent.log_tail, third.log_tail) == ("a\n", "", "b\n")
    assert not harness.log_path(silent.run_id).exists()


def test_silent_runs_leave_one_empty_file_at_most(harness: SlotHarness) -> None:
    for _ in range(5):
        last = harness.run("pid")

    assert list(harness.log_path(1).parent.iterdir()) == [harness.log_path(last.run_id)]


def test_run_id_stands_in_the_environment_of_what_a_run_starts(harness: SlotHarness) -> None:
    for _ in range(2):
        finished = harness.run("environment")

        assert finished.message == f"{finished.run_id}/{finished.run_id}"


def test_left_over_thread_costs_the_process(harness: SlotHarness) -> None:
    assert harness.run("leaves.thread", "60").message != harness.run("leaves.thread", "60").message


def test_finished_thread_does_not(harness: SlotHarness) -> None:
    first = harness.run("leaves.thread", "0")
    eventually(lambda: len(harness.job_processes()) <= 1)

    assert first.outcome is Outcome.SUCCEEDED


def test_dead_child_is_reaped_and_does_not_cost_the_process(harness: SlotHarness) -> None:
    assert harness.run("leaves.child", "dead").message == harness.run("leaves.child").message


def test_living_child_is_killed_before_the_end_is_told(harness: SlotHarness) -> None:
    finished = harness.run("leaves.child", "living")

    assert finished.outcome is Outcome.SUCCEEDED
    assert not Path(f"/proc/{harness.note('child').strip()}").exists()
    assert harness.run("leaves.child").message != finished.message


def test_process_of_a_handler_serves_its_jobs_one_after_another(harness: SlotHarness) -> None:
    pids = [harness.run("shared.pid", job_id=job_id).message for job_id in (1, 2, 1)]
    others = {harness.run("pid", job_id=job_id, process="handler").message for job_id in (1, 2)}

    assert len(set(pids)) == 1
    assert len(others) == 1
    assert others.isdisjoint(pids)


def test_two_runs_at_once_never_share_a_process(make_floor: Callable[..., SlotHarness]) -> None:
    harness = make_floor(count=2)
    first, second = (harness.start("shared.pid", job_id=job_id) for job_id in (1, 2))

    assert harness.wait(first).message != harness.wait(second).message


def test_job_decides_before_its_handler_and_that_before_the_executor(
    make_floor: Callable[..., SlotHarness],
) -> None:
    harness = make_floor(count=1, process="handler")

    def pids(handler: str, process: str | None) -> int:
        runs = [harness.run(handler, job_id=job_id, process=process) for job_id in (1, 1, 2)]
        return len({run.message for run in runs})

    assert [pids("pid", process) for process in ("fresh", "job", None)] == [3, 2, 1]
    assert [pids("lone.pid", process) for process in ("job", None)] == [2, 3]


@pytest.mark.parametrize("spoilt_by", ["a limit", "a thread", "a child"])
def test_shared_process_that_a_run_spoils_serves_nobody_else(
    harness: SlotHarness, spoilt_by: str
) -> None:
    spoilt = harness.run("spoils", spoilt_by, job_id=1)

    after = [harness.run("spoils", job_id=job_id).message for job_id in (2, 3)]

    assert spoilt.message.partition("\n")[0] not in after
    assert len(set(after)) == 1


def test_thread_that_init_started_stays_with_the_process(harness: SlotHarness) -> None:
    assert harness.run("resident.thread").message == harness.run("resident.thread").message


@pytest.mark.parametrize("process", ["fresh", "job"])
def test_long_result_arrives_whole_from_a_process_that_ends(
    harness: SlotHarness, process: str
) -> None:
    for _ in range(5):
        finished = harness.run("long", process=process)

        assert finished.message == "ü" * 50_000
