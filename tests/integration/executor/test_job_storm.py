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

from broker.messages import Outcome
from tests.support.job_floor import JobFloor, processes_holding

SOURCE = r"""
import os, signal, subprocess, sys, threading, time

HERE = os.path.dirname(__file__)
HELD = os.open(os.path.join(HERE, "held"), os.O_RDWR | os.O_CREAT)
os.set_inheritable(HELD, True)

@job("quick")
def quick(context):
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
def floor(tmp_path: Path) -> Iterator[JobFloor]:
    floor = JobFloor(
        tmp_path, SOURCE, count=6, grace_seconds=0.2, runs_per_process=7, idle_seconds=0.3
    ).open()
    yield floor
    floor.close()


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def start_any(floor: JobFloor, chance: random.Random) -> int:
    handler = chance.choice(QUICK * 3 + ROUGH + LONG)
    timeout = chance.choice([0.02, 0.1, 0.3]) if handler in LONG else chance.choice([0, 0, 0.05])
    return floor.start(handler, timeout_seconds=timeout, fresh_process=chance.random() < 0.3)


@pytest.mark.parametrize("seed", range(4))
def test_every_run_ends_once_whatever_happens(floor: JobFloor, seed: int) -> None:
    chance = random.Random(seed)
    run_ids: list[int] = []

    while len(run_ids) < 150:
        floor.turn(lambda: floor.slots.free)
        while floor.slots.free:
            run_ids.append(start_any(floor, chance))
        if chance.random() < 0.3:
            floor.slots.stop(chance.choice(sorted(floor.slots.running)), "at random")
        if chance.random() < 0.02:
            os.kill(floor.zygote.pid, signal.SIGKILL)
        floor.turn_for(chance.choice([0, 0, 0.002, 0.02]))
    floor.turn(lambda: not floor.slots.running, 20)

    assert sorted(floor.finished) == run_ids
    outcomes = Counter(each.outcome for each in floor.finished.values())
    assert set(outcomes) >= {Outcome.SUCCEEDED, Outcome.FAILED, Outcome.TIMED_OUT}
    assert not [f for f in floor.finished.values() if "could not be killed" in f.message]


@pytest.mark.parametrize("seed", range(2))
def test_nothing_lives_on_but_idle_processes(floor: JobFloor, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        floor.turn(lambda: floor.slots.free)
        start_any(floor, chance)

    floor.turn(lambda: not floor.slots.running, 20)
    floor.turn(lambda: not floor.job_processes())

    holders = {p.name for p in processes_holding(floor.folder / "held")}
    assert holders == {"warren-zygote"}


def test_descriptors_do_not_pile_up(floor: JobFloor) -> None:
    def settle() -> tuple[int, int]:
        floor.turn(lambda: not floor.slots.running)
        floor.turn(lambda: not floor.job_processes())
        floor.turn_for(0.05)
        gc.collect()
        return descriptors(os.getpid()), descriptors(floor.zygote.pid)

    def work() -> None:
        for handler in (QUICK + ROUGH) * 6:
            floor.turn(lambda: floor.slots.free)
            floor.start(handler, fresh_process=True)
            floor.slots.stop(floor.start("sleeps"), "enough") if floor.slots.free else None

    work()
    before = settle()
    work()

    assert settle() == before


def test_descriptors_do_not_pile_up_when_zygotes_die(floor: JobFloor) -> None:
    def count() -> int:
        floor.turn(lambda: floor.slots.free == 6)
        floor.run("quick")
        gc.collect()
        return descriptors(os.getpid())

    before = count()
    for _ in range(3):
        floor.start("sleeps")
        os.kill(floor.zygote.pid, signal.SIGKILL)
        floor.turn(lambda ready=floor.ready_count: floor.ready_count > ready)

    assert count() == before


def test_finished_runs_are_forgotten(floor: JobFloor) -> None:
    for _ in range(50):
        floor.run("quick")

    pool = floor.slots._pool
    assert not floor.slots._runs
    assert not pool._waiting
    assert len(pool._processes) == len(pool._idle) == 1


def test_results_go_to_the_run_that_they_belong_to(floor: JobFloor) -> None:
    wanted: dict[int, str] = {}

    for at in range(300):
        floor.turn(lambda: floor.slots.free)
        wanted[floor.start("quick", str(at))] = str(at)
    floor.turn(lambda: not floor.slots.running)

    assert {run_id: floor.finished[run_id].message for run_id in wanted} == wanted


def test_runs_that_wait_for_a_process_are_served_in_turn(tmp_path: Path) -> None:
    floor = JobFloor(tmp_path, SOURCE, count=2).open()
    for handler in QUICK * 4:
        floor.turn(lambda: floor.slots.free == 2)
        pair = [floor.start(handler), floor.start("prints")]
        for run_id in pair:
            floor.wait(run_id)

    assert len(floor.finished) == len(QUICK) * 8
    floor.close()


def test_more_slots_than_can_be_are_refused(tmp_path: Path) -> None:
    for count in (0, -1, 4097):
        with pytest.raises(ValueError, match=f"expected count to be 1 to 4096, got: {count}"):
            JobFloor(tmp_path, SOURCE, count=count)


def test_run_that_is_at_work_cannot_be_started_again(floor: JobFloor) -> None:
    run_id = floor.start("sleeps")
    held = floor.slots._runs[run_id]

    with pytest.raises(RuntimeError, match="and it to be new"):
        floor.slots.start(held.trigger)

    floor.slots.stop(run_id, "enough")
    assert floor.wait(run_id).message == "enough"


def test_lack_of_descriptors_fails_a_run_and_harms_no_other(floor: JobFloor) -> None:
    running = floor.start("sleeps")
    floor.turn(lambda: running in floor.started)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        run_id = floor.start("quick")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    failed = floor.wait(run_id)
    assert (failed.outcome, failed.message) == (
        Outcome.FAILED,
        "cannot start a process: Too many open files",
    )
    assert running not in floor.finished
    assert floor.run("quick").outcome is Outcome.SUCCEEDED


def test_lack_of_descriptors_in_the_zygote_fails_a_run(floor: JobFloor) -> None:
    pid = floor.zygote.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)

    for limit in range(descriptors(pid) - 4, descriptors(pid) + 6):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limits[1]))
        failed = floor.run("quick", fresh_process=True)
        if failed.outcome is Outcome.FAILED:
            assert failed.message.lower() == "cannot start a process: too many open files"
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)

    assert floor.finished[1].outcome is Outcome.FAILED
    assert floor.run("quick").outcome is Outcome.SUCCEEDED
    assert floor.ready_count == 0
