"""Which process gets which run: reuses idle ones, forks, and ends one where a slot is needed."""

import asyncio
import time
from collections import deque
from collections.abc import Callable

from executor import frames
from executor.nursery import Nursery
from executor.process import Held, JobProcess


class Pool:
    """The job processes of one executor, at most `count` of them alive.

    `on_placed(held, is_reused)` is called when a process has got a run, `on_unplaced(held, why)`
    when this process cannot even ask for one.
    """

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        nursery: Nursery,
        count: int,
        idle_seconds: float,
        runs_per_process: int,
        grace_seconds: float,
        on_placed: Callable[[Held, bool], None],
        on_unplaced: Callable[[Held, str], None],
        on_result: Callable[[JobProcess, frames.Result], None],
        on_stuck: Callable[[JobProcess], None],
    ) -> None:
        self._loop = loop
        self._nursery = nursery
        self._count = count
        self._idle_seconds = idle_seconds
        self._runs_per_process = runs_per_process
        self._grace_seconds = grace_seconds
        self._on_placed = on_placed
        self._on_unplaced = on_unplaced
        self._on_result = on_result
        self._on_stuck = on_stuck
        self._processes: dict[int, JobProcess] = {}
        #: By number, the one that has idled longest first.
        self._idle: dict[int, JobProcess] = {}
        #: Runs that wait for a process of another handler to end.
        self._waiting: deque[Held] = deque()
        self._last_number = 0

    @property
    def is_empty(self) -> bool:
        """Whether no process is alive and no run waits for one."""
        return not self._processes and not self._waiting

    def get(self, number: int) -> JobProcess | None:
        """Return a process by its number."""
        return self._processes.get(number)

    def place(self, held: Held) -> None:
        """Give a run to an idle process of its handler, or to a new one, now or soon."""
        process = None if held.needs_own_process else self._find_idle(held.trigger.handler)
        if process is not None:
            del self._idle[process.number]
            self._give(process, held, is_reused=True)
        elif len(self._processes) < self._count:
            self._fork(held)
        else:
            self._waiting.append(held)
            self._retire_one()

    def withdraw(self, held: Held) -> None:
        """Take back a run that waits."""
        if held in self._waiting:
            self._waiting.remove(held)

    def withdraw_all(self) -> list[Held]:
        """Take back every run that waits."""
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting

    def rest(self, process: JobProcess) -> None:
        """Let a process idle that has done its run."""
        process.run = None
        process.idle_since = time.monotonic()
        self._idle[process.number] = process

    def remove(self, process: JobProcess) -> None:
        """Forget a process that is gone or given up; its last result is taken before."""
        process.close()
        del self._processes[process.number]
        self._idle.pop(process.number, None)

    def remove_all(self) -> list[JobProcess]:
        """Forget every process; return them."""
        gone = list(self._processes.values())
        for process in gone:
            self.remove(process)
        return gone

    def place_waiting(self) -> None:
        """Fork for runs that waited, where there is room now."""
        while self._waiting and len(self._processes) < self._count and self._nursery.is_ready:
            self._fork(self._waiting.popleft())

    def retire(self, *, idle_for: float | None = None) -> None:
        """End the processes that have idled for `idle_for` seconds, by default the limit."""
        limit = self._idle_seconds if idle_for is None else idle_for
        before = time.monotonic() - limit
        while self._idle and next(iter(self._idle.values())).idle_since <= before:
            self._retire_one()

    def _find_idle(self, handler: str) -> JobProcess | None:
        # The latest first, so that the others grow old and end.
        matching = (each for each in reversed(self._idle.values()) if each.handler == handler)
        return next(matching, None)

    def _fork(self, held: Held) -> None:
        self._last_number += 1
        try:
            process = JobProcess(
                loop=self._loop,
                nursery=self._nursery,
                number=self._last_number,
                handler=None if held.command else held.trigger.handler,
                on_result=self._on_result,
                on_stuck=self._on_stuck,
            )
        except OSError as error:
            self._on_unplaced(held, f"cannot start a process: {error.strerror}")
            return
        self._processes[process.number] = process
        self._give(process, held, is_reused=False)

    def _give(self, process: JobProcess, held: Held, *, is_reused: bool) -> None:
        is_last = process.runs_begun + 1 >= self._runs_per_process
        process.give(held, last=is_last or held.needs_own_process)
        self._on_placed(held, is_reused)

    def _retire_one(self) -> None:
        number = next(iter(self._idle), None)
        if number is not None:
            self._idle.pop(number).end(self._grace_seconds)
