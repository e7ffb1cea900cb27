"""Measures what the start of a process costs, both of Warren's and of `multiprocessing`'s.

Fresh processes run an empty handler, one after the other; in turn with them, a bare Python starts
as many of the fork context that do nothing. Page faults do not depend on what else the machine
does, processor time does.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from warren.broker.messages import Trigger
from warren.broker.process_use import ProcessUse
from warren.executor.handlers.hooks import JobCode
from warren.executor.processes.interface import SlotEvents, SlotOptions
from warren.executor.processes.slots import Slots
from warren.executor.run_logs import RunLogs

#: How many times the two take turns.
ROUNDS = 5
_HANDLER = "from warren import job\n\n@job('nothing')\ndef nothing(context):\n    pass\n"
#: Starts processes and prints the processor time and page faults of both sides, per start.
_BARE = """
import multiprocessing, resource, sys
def nothing():
    pass
def used(who):
    usage = resource.getrusage(who)
    return (usage.ru_utime + usage.ru_stime) * 1e6, usage.ru_minflt
def start():
    process = multiprocessing.get_context("fork").Process(target=nothing)
    process.start()
    process.join()
    process.close()
start()
count, sides = int(sys.argv[1]), (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
before = [used(who) for who in sides]
for _ in range(count):
    start()
for old, who in zip(before, sides):
    for was, now in zip(old, used(who)):
        print((now - was) / count)
"""
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of processor time and page faults of a start: of who forks, and of the child."""

    parent_us: float
    parent_faults: float
    child_us: float
    child_faults: float

    @property
    def us(self) -> float:
        """Of both together."""
        return self.parent_us + self.child_us

    @property
    def faults(self) -> float:
        """Of both together."""
        return self.parent_faults + self.child_faults


class _Starter:
    """One slot whose runs each get a process of their own."""

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        source = folder / "nothing.py"
        source.write_text(_HANDLER)
        self._loop = loop
        self._done: asyncio.Future[object] = loop.create_future()
        self._last_id = 0
        self._slots = Slots(
            JobCode(sources=(str(source),)),
            RunLogs(folder / "logs"),
            SlotOptions(count=1, grace_seconds=5, process=ProcessUse.FRESH),
            loop=loop,
            events=SlotEvents(lambda _run_id: None, self._finish, lambda: None),
            notes_folder=folder / "notes",
        )
        # One of a pool before this may still be ending.
        ending = _children_named("warren-zygote")
        self._slots.open()
        (self._zygote,) = _children_named("warren-zygote") - ending

    def _finish(self, end: object, on_recorded: object = None) -> None:  # noqa: ARG002 - the interface's
        self._done.set_result(end)

    async def measure(self, count: int) -> Cost:
        """Start processes and return what one costs."""
        await self._start()
        before = _used(self._zygote)
        for _ in range(count):
            await self._start()
        return Cost(
            *((now - was) / count for was, now in zip(before, _used(self._zygote), strict=True))
        )

    async def _start(self) -> None:
        self._last_id += 1
        self._done = self._loop.create_future()
        trigger = Trigger(
            run_id=self._last_id,
            job_id=1,
            boot_id="bench",
            kind="CRON",
            handler="nothing",
            scheduled_at_ms=int(time.time() * 1000),
        )
        self._slots.start(trigger)
        end = await self._done
        assert getattr(end, "outcome", "") == "SUCCEEDED", end

    async def close(self) -> None:
        """End the zygote."""
        await self._slots.close(1)


def _children_named(name: str) -> set[int]:
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {int(pid) for pid in pids if Path(f"/proc/{pid}/comm").read_text().strip() == name}


def _used(pid: int) -> tuple[float, float, float, float]:
    """Return the fields of a `Cost` that a process and its ended children have used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own_faults, faults, *times = (int(fields[at]) for at in (7, 8, 11, 12, 13, 14))
    own, children = ((one + two) / _TICKS_PER_SECOND * 1e6 for one, two in (times[:2], times[2:]))
    return own, own_faults, children, faults


def bare(count: int) -> Cost:
    """Return what a process of `multiprocessing` costs that does nothing."""
    told = subprocess.run(
        [sys.executable, "-c", _BARE, str(count)], check=True, capture_output=True, text=True
    )
    return Cost(*map(float, told.stdout.split()))


def measure(count: int) -> tuple[list[Cost], list[Cost]]:
    """Return what starts of bare and of job processes cost, in turn."""
    return asyncio.run(_in_turn(count))


async def _in_turn(count: int) -> tuple[list[Cost], list[Cost]]:
    theirs, ours = [], []
    with tempfile.TemporaryDirectory(prefix="warren-starts-") as folder:
        starter = _Starter(Path(folder), asyncio.get_running_loop())
        for _ in range(ROUNDS):
            theirs.append(bare(count))
            ours.append(await starter.measure(count))
        await starter.close()
    return theirs, ours
