"""Runs, kills, timeouts and deaths in any order: each run ends once, and nothing piles up."""

import gc
import os
import random
import resource
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.slot_harness import SlotHarness, processes_holding
from warren.broker.messages import Outcome
from warren.executor.processes.interface import Owner
from warren.executor.processes.job_processes import JobProcess, SlotRun

SOURCE = r"""
import os, signal, subprocess, sys, threading, time

HERE = os.path.dirname(__file__)
HELD = os.open(os.path.join(HERE, "held"), os.O_RDWR | os.O_CREAT)
os.set_inheritable(HELD, True)

@job("quick")
def quick(context):
    return context.param

@job("lingers", destroy=lambda: time.sleep(0.02))
def lingers(context):
    return context.param

@job("prints")
def prints(context):
    print("x" * 2000)

@job("raises")
def raises(context):
    raise ValueError("text")

@job("dies")
def dies(context):
    os.kill(os.getpid(), signal.SIGKILL)

@job("exits")
def exits(context):
    os._exit(3)

@job("sleeps")
def sleeps(context):
    time.sleep(60)

@job("stubborn")
def stubborn(context):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)

@job("daemon")
def daemon(context):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(60)
        os._exit(0)

@job("child")
def child(context):
    subprocess.Popen(["sleep", "60"], close_fds=False, start_new_session=True)

@job("thread")
def thread(context):
    threading.Thread(target=time.sleep, args=(0.05,)).start()

@job("async")
async def asynchronous(context):
    import asyncio
    await asyncio.sleep(float(context.param or 0.01))
"""

QUICK = ["quick", "prints", "raises", "thread", "async"]
ROUGH = ["dies", "exits", "daemon", "child"]
LONG = ["sleeps", "stubborn"]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SlotHarness]:
    harness = SlotHarness(
        tmp_path,
        SOURCE,
        count=6,
        idle_count=5,
        grace_seconds=0.2,
        runs_per_process=7,
        idle_seconds=0.3,
    ).open()
    yield harness
    harness.close()


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def descriptors_of_no_note(harness: SlotHarness) -> int:
    """Count this process's descriptors without begin notes: as many stay open as were needed."""
    notes = str(harness.folder / "begin-notes")
    links = [_link(one) for one in Path("/proc/self/fd").iterdir()]
    return len([link for link in links if not link.startswith(notes)])


def _link(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except OSError:  # it is the one that lists the folder
        return ""


def kept() -> Counter[str]:
    """Count what this process still knows of runs, job processes and jobs."""
    gc.collect()
    kinds = (SlotRun, JobProcess, Owner)
    return Counter(type(one).__name__ for one in gc.get_objects() if type(one) in kinds)


def start_any(harness: SlotHarness, chance: random.Random) -> int:
    handler = chance.choice(QUICK * 3 + ROUGH + LONG)
    timeout = chance.choice([0.02, 0.1, 0.3]) if handler in LONG else chance.choice([0, 0, 0.05])
    return harness.start(
        handler,
        job_id=chance.randrange(4),
        timeout_seconds=timeout,
        process=chance.choice(["job", "handler", "fresh"]),
    )


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.release) for seed in (2, 3))]
)
def test_every_run_ends_once_whatever_happens(harness: SlotHarness, seed: int) -> None:
    chance = random.Random(seed)
    run_ids: list[int] = []

    while len(run_ids) < 150:
        harness.turn(lambda: harness.slots.free)
        while harness.slots.free:
            run_ids.append(start_any(harness, chance))
        if chance.random() < 0.3:
            harness.slots.stop(chance.choice(sorted(harness.slots.running)), "at random")
        if chance.random() < 0.02:
            os.kill(harness.zygote.pid, signal.SIGKILL)
        harness.turn_for(chance.choice([0, 0, 0.002, 0.02]))
    harness.turn(lambda: not harness.slots.running, 20)

    assert sorted(harness.finished) == run_ids
    outcomes = Counter(each.outcome for each in harness.finished.values())
    assert set(outcomes) >= {Outcome.SUCCEEDED, Outcome.FAILED, Outcome.TIMED_OUT}
    assert not [f for f in harness.finished.values() if "could not be killed" in f.message]


@pytest.mark.parametrize("seed", range(2))
def test_nothing_lives_on_but_idle_processes(harness: SlotHarness, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        harness.turn(lambda: harness.slots.free)
        start_any(harness, chance)

    harness.turn(lambda: not harness.slots.running, 20)
    harness.turn(lambda: not harness.job_processes())

    holders = {p.name for p in processes_holding(harness.folder / "held")}
    assert holders == {"warren-zygote"}


def test_descriptors_do_not_pile_up(harness: SlotHarness) -> None:
    def settle() -> tuple[int, int]:
        # Every run here ends with its process, and the zygote tells of that when it has closed what
        # was the process's.
        harness.turn(lambda: not harness.slots.running)
        gc.collect()
        return descriptors_of_no_note(harness), descriptors(harness.zygote.pid)

    def work() -> None:
        for handler in (QUICK + ROUGH) * 6:
            harness.turn(lambda: harness.slots.free)
            harness.start(handler, process="fresh")
            harness.slots.stop(harness.start("sleeps"), "enough") if harness.slots.free else None

    work()
    before = settle()
    work()

    assert settle() == before


def test_descriptors_do_not_pile_up_when_zygotes_die(harness: SlotHarness) -> None:
    def count() -> int:
        harness.turn(lambda: harness.slots.free == 6)
        harness.run("quick", process="fresh")  # which ends when its process is gone
        gc.collect()
        return descriptors_of_no_note(harness)

    before = count()
    for _ in range(3):
        harness.start("sleeps")
        os.kill(harness.zygote.pid, signal.SIGKILL)
        harness.turn(lambda ready=harness.ready_count: harness.ready_count > ready)

    assert count() == before


def test_finished_runs_are_forgotten(harness: SlotHarness) -> None:
    before = kept()

    for _ in range(50):
        harness.run("quick")

    assert harness.slots.free == 6
    assert len(harness.job_processes()) == 1
    assert kept() - before == Counter({"JobProcess": 1, "Owner": 1})


@pytest.mark.release
def test_a_thousand_jobs_cost_no_more_than_the_bounds_allow(harness: SlotHarness) -> None:
    before = kept()
    children = Path(f"/proc/{harness.zygote.pid}/task/{harness.zygote.pid}/children")
    most = 0

    def is_free() -> int:
        nonlocal most
        most = max(most, len(children.read_text().split()))
        return harness.slots.free

    for job_id in range(1000):
        harness.turn(is_free)
        harness.start("lingers", job_id=job_id)
    harness.turn(lambda: not harness.slots.running, 60)
    alive = len(harness.job_processes())
    harness.turn(lambda: not harness.job_processes())

    assert len(harness.finished) == 1000
    assert {each.outcome for each in harness.finished.values()} == {Outcome.SUCCEEDED}
    assert max(most, alive) <= 11
    # Whose processes were idle last is remembered, of ten thousand jobs at most.
    harness.turn(lambda: set(kept() - before) <= {"Owner"})


def test_results_go_to_the_run_that_they_belong_to(tmp_path: Path) -> None:
    # On a busy machine a process takes long to exit, which its run's message would tell.
    harness = SlotHarness(tmp_path, SOURCE, count=6, grace_seconds=20, runs_per_process=7).open()
    wanted: dict[int, str] = {}

    for at in range(300):
        harness.turn(lambda: harness.slots.free)
        wanted[harness.start("quick", str(at))] = str(at)
    harness.turn(lambda: not harness.slots.running)

    assert {run_id: harness.finished[run_id].message for run_id in wanted} == wanted
    harness.close()


def test_runs_that_wait_for_a_process_are_served_in_turn(tmp_path: Path) -> None:
    harness = SlotHarness(tmp_path, SOURCE, count=2, idle_count=0).open()
    for handler in QUICK * 4:
        harness.turn(lambda: harness.slots.free == 2)
        pair = [harness.start(handler), harness.start("prints")]
        for run_id in pair:
            harness.wait(run_id)

    assert len(harness.finished) == len(QUICK) * 8
    harness.close()


def test_more_slots_than_can_be_are_refused(tmp_path: Path) -> None:
    for count, idle_count in ((0, 1), (-1, 1), (1, -1), (8192, 1)):
        with pytest.raises(ValueError, match=f"8192 processes, got: {count} and {idle_count}"):
            SlotHarness(tmp_path, SOURCE, count=count, idle_count=idle_count)


def test_run_that_is_at_work_cannot_be_started_again(harness: SlotHarness) -> None:
    trigger = harness.trigger("sleeps")
    harness.slots.start(trigger)

    with pytest.raises(RuntimeError, match=f"expected run {trigger.run_id} to be new"):
        harness.slots.start(trigger)

    harness.slots.stop(trigger.run_id, "enough")
    assert harness.wait(trigger.run_id).message.startswith("enough")


def test_lack_of_descriptors_fails_a_run_and_harms_no_other(harness: SlotHarness) -> None:
    running = harness.start("sleeps")
    harness.turn(lambda: running in harness.started)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        run_id = harness.start("quick")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    failed = harness.wait(run_id)
    assert (failed.outcome, failed.message) == (
        Outcome.FAILED,
        "cannot start a process: Too many open files",
    )
    assert running not in harness.finished
    assert harness.run("quick").outcome is Outcome.SUCCEEDED


def test_lack_of_descriptors_in_the_zygote_fails_a_run(harness: SlotHarness) -> None:
    pid = harness.zygote.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)

    for limit in range(descriptors(pid) - 4, descriptors(pid) + 6):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limits[1]))
        failed = harness.run("quick", process="fresh")
        if failed.outcome is Outcome.FAILED:
            assert failed.message.lower() == "cannot start a process: too many open files"
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)

    assert harness.finished[1].outcome is Outcome.FAILED
    assert harness.run("quick").outcome is Outcome.SUCCEEDED
    assert harness.ready_count == 0
