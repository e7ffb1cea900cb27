"""The pool of job processes.

Gives each run an idle process that serves it or a new one, and ends surplus idle processes; the
machine's memory, descriptors and process limits decide how many may stay. The memory that an
executor may use is its control group's limit, otherwise what the host has available. Idle processes
get a quarter of it, at most, and go when it gets short.
"""

import asyncio
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence

from warren.broker.reasons.codes import Why
from warren.executor.begin_notes import Batch
from warren.executor.container import Host
from warren.executor.fork_server.zygote import PROCESS_LIMIT
from warren.executor.processes.endings import Exit
from warren.executor.processes.interface import Owner, SlotOptions
from warren.executor.processes.job_process import EarlyRuns, JobProcess, ProcessEvents, SlotRun
from warren.executor.processes.supervisor import ForkServerSupervisor
from warren.executor.run_life import SlotEvent

#: The parts that idle processes may take: of memory, of process limits, of descriptors.
_MEMORY_PART, _PROCESSES_PART, _FILES_PART = 4, 4, 3
#: Descriptors that the executor holds of a job process: its channel, its pidfd, its begin note.
_FILES_EACH = 3
#: What an idle process is taken to need until one has been measured.
_DEFAULT_BYTES = 3 * 2**20
#: When less than this part of the memory is free, it is short.
_SHORT_PART = 10
#: A smaller change of what fits is ignored unless memory is short: available memory fluctuates, and
#: processes would be ended and started again with it.
_STEADY_PART = 20
#: The part of what fits that is left free, at most one place per slot: a run that needs a new
#: process then does not wait until the one that has to go for it has exited.
_ROOM_PART = 16
#: For how many jobs the last use of a process is remembered.
MAX_REMEMBERED = 10_000
#: How many times `batch_seconds` a run may take while other jobs' runs wait behind it.
_PATIENCE = 2


class IdleLimit:
    """How many idle processes to keep; `most` is how many fit.

    `fixed` keeps that many; without it, as many as fit beside `spares`, and at most a quarter of
    `job_processes`, the number that the jobs' user may have (0: any number).
    """

    def __init__(
        self, fixed: int | None, *, slots: int, spares: int, job_processes: int, host: Host
    ) -> None:
        self._host = host
        self._fixed = fixed
        self._slots = slots
        self._spares = spares
        self._bytes_each = _DEFAULT_BYTES
        self._bound = PROCESS_LIMIT - slots
        self.most = fixed if fixed is not None else 0
        if fixed is None:
            self._bound = min(self._bound, *self._bounds(job_processes))
            self.look(())

    @property
    def kept(self) -> int:
        """How many to keep."""
        if self._fixed is not None:
            return self._fixed
        return self.most - min(self._slots, self.most // _ROOM_PART)

    def look(self, idle: Collection[int]) -> None:
        """Update how many fit, given the ids of the processes that are idle now."""
        if self._fixed is not None:
            return
        self._bytes_each = self._host.private_bytes(idle) or self._bytes_each
        memory, held = self._host.memory(), self._bytes_each * len(idle)
        # What they hold would be available otherwise.
        may_use = memory.free + held if memory.limit is None else memory.limit
        spared = (held + memory.free - may_use // _SHORT_PART) // self._bytes_each
        fit = min(may_use // _MEMORY_PART // self._bytes_each, spared)
        most = max(0, min(fit - self._spares, self._bound))
        is_near = abs(most - self.most) <= self.most // _STEADY_PART
        if not is_near or spared - self._spares < self.most:
            self.most = most

    def _bounds(self, job_processes: int) -> Iterator[int]:
        yield self._host.most_files() // _FILES_PART // _FILES_EACH
        for processes in (self._host.most_processes(), job_processes or None):
            if processes is not None:
                yield processes // _PROCESSES_PART


class IdleProcesses:
    """Processes that have finished their run and wait for the next one of their job.

    If more jobs take turns than there are places, those that have a place keep it and find their
    process each time. A job gets the place of one that has not run since its own last run.
    """

    def __init__(self) -> None:
        #: By number, the one that has idled longest first.
        self._all: dict[int, JobProcess] = {}
        #: Those among them that have served a single run.
        self._new: dict[int, JobProcess] = {}
        self._by_owner: dict[Owner, dict[int, JobProcess]] = {}
        #: When each owner's process last became idle, the longest ago first.
        self._last_idle: dict[Owner, float] = {}

    def __len__(self) -> int:
        return len(self._all)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._all.values()]

    def add(self, process: JobProcess) -> None:
        assert process.owner is not None, "a script's process never idles"
        process.idle_since = time.monotonic()
        self._all[process.number] = process
        if process.runs_begun == 1:
            self._new[process.number] = process
        self._by_owner.setdefault(process.owner, {})[process.number] = process
        self._last_idle.pop(process.owner, None)
        self._last_idle[process.owner] = process.idle_since
        if len(self._last_idle) > MAX_REMEMBERED:
            del self._last_idle[next(iter(self._last_idle))]

    def last_idle(self, owner: Owner | None) -> float:
        """Return when a process of this owner last became idle, in monotonic seconds; 0 = never."""
        return self._last_idle.get(owner, 0.0) if owner is not None else 0.0

    def take(self, owner: Owner) -> JobProcess | None:
        """Remove and return a job's most recently idle process, so that the others can time out."""
        own = self._by_owner.get(owner)
        if not own:
            return None
        process = next(reversed(own.values()))
        self.discard(process)
        return process

    def take_oldest(self, idle_for: float = 0) -> JobProcess | None:
        """Remove and return the longest idle process, if idle for at least `idle_for` seconds."""
        process = next(iter(self._all.values()), None)
        if process is None or process.idle_since > time.monotonic() - idle_for:
            return None
        self.discard(process)
        return process

    def take_least_useful(self, last_idle: float) -> JobProcess | None:
        """Remove and return the one whose end costs least.

        It makes room for a job whose process was last idle then. That is the longest idle one if it
        has idled since before that; otherwise the newest that has served a single run, if any.
        """
        process = next(reversed(self._new.values()), None)
        oldest = next(iter(self._all.values()), None)
        if process is None or (oldest is not None and oldest.idle_since < last_idle):
            return self.take_oldest()
        self.discard(process)
        return process

    def discard(self, process: JobProcess) -> None:
        if self._all.pop(process.number, None) is None or process.owner is None:
            return
        self._new.pop(process.number, None)
        own = self._by_owner[process.owner]
        del own[process.number]
        if not own:
            del self._by_owner[process.owner]


class Pool:
    """The job processes of one executor; `idle_limit` says how many of them may be idle.

    A process belongs to one job, or to all jobs of one handler. Exiting processes count too: a run
    waits for one of them if there is no room.
    """

    def __init__(  # noqa: PLR0917 - each is another part
        self,
        loop: asyncio.AbstractEventLoop,
        supervisor: ForkServerSupervisor,
        options: SlotOptions,
        early_runs: EarlyRuns,
        idle_limit: IdleLimit,
        events: ProcessEvents,
    ) -> None:
        self._loop = loop
        self._early_runs = early_runs
        self._supervisor = supervisor
        self._options = options
        self._idle_limit = idle_limit
        self._patience_seconds = _PATIENCE * options.batch_seconds
        self._events = events
        self._processes: dict[int, JobProcess] = {}
        self._idle = IdleProcesses()
        #: The numbers of idle processes that were asked to exit.
        self._leaving: set[int] = set()
        #: Runs that wait for a process of another job to exit.
        self._waiting: deque[SlotRun] = deque()
        #: Owners with a run that took too long for other jobs' runs to wait behind it, and no quick
        #: one since.
        self._slow: set[Owner | None] = set()
        self._last_number = 0
        #: Processes up to this number have old code.
        self._outdated = 0

    @property
    def is_empty(self) -> bool:
        """Whether no process is alive and no run waits for one."""
        return not self._processes and not self._waiting

    @property
    def all(self) -> list[JobProcess]:
        return list(self._processes.values())

    def get(self, number: int) -> JobProcess | None:
        return self._processes.get(number)

    def place(self, run: SlotRun, followers: Sequence[SlotRun] = ()) -> SlotEvent:
        """Give a run to an idle process of its job, or to a new one now or later; return the event.

        An idle process may be assigned some of the `followers` early, in order.
        """
        process = self._find_idle(run)
        if process is not None:
            self._give(process, run, followers)
            return SlotEvent.GIVEN_IDLE
        if self._has_room():
            return self._fork(run)
        self._waiting.append(run)
        if len(self._leaving) < len(self._waiting):
            self._end(self._idle.take_least_useful(self._idle.last_idle(run.owner)))
        return SlotEvent.CROWDED

    def make_room(self, run: SlotRun) -> bool:
        """Queue a run until an idle process has exited; return False if none is idle.

        For when the host cannot take another process.
        """
        if not self._end_longest_idle():
            return False
        self._waiting.append(run)
        return True

    def cancel_waiting(self, run: SlotRun) -> None:
        """Take a run off the waiting list."""
        if run in self._waiting:
            self._waiting.remove(run)

    def take_all_waiting(self) -> list[SlotRun]:
        """Take every run off the waiting list; return them."""
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting

    def make_idle(self, process: JobProcess) -> None:
        """Let a process idle after its run; end the least useful one if there are too many.

        One with old code ends.
        """
        process.run = None
        if self._loop.time() - process.given_at <= self._patience_seconds:
            self._slow.discard(process.owner)
        if process.number <= self._outdated:
            self._end(process)
            return
        last_idle = self._idle.last_idle(process.owner)
        self._idle.add(process)
        if len(self._idle) > self._idle_limit.kept:
            self._end(self._idle.take_least_useful(last_idle))

    def is_slow(self, owner: Owner) -> bool:
        """Whether runs of other jobs must not wait behind a run of this owner."""
        return owner in self._slow

    def outdate(self) -> None:
        """Give the present processes no further runs: their code is old."""
        self._outdated = self._last_number
        while self._end_longest_idle():
            pass

    def stop_idle(self, process: JobProcess) -> None:
        """Stop a process that has no run."""
        self._idle.discard(process)
        process.stop(self._options.grace_seconds)

    def remove(self, process: JobProcess) -> None:
        """Remove a process that is gone or given up, after taking its last result."""
        process.close()
        self._early_runs.release_note(process.note)
        del self._processes[process.number]
        self._leaving.discard(process.number)
        self._idle.discard(process)

    def remove_all(self) -> list[JobProcess]:
        removed = self.all
        for process in removed:
            self.remove(process)
        return removed

    def place_waiting(self) -> Iterator[tuple[SlotRun, SlotEvent]]:
        """Fork processes for waiting runs while there is room; yield each run with its event."""
        event = SlotEvent.GIVEN_NEW
        while (
            self._waiting
            and event is SlotEvent.GIVEN_NEW
            and self._has_room()
            and self._supervisor.is_ready
        ):
            run = self._waiting.popleft()
            event = self._fork(run)
            yield run, event

    def end_idle(self) -> None:
        """End some of the processes that have idled for too long, the longest idle first."""
        for _ in range(self._options.ended_at_once):
            if not self._end_longest_idle(idle_for=self._options.idle_seconds):
                return

    def end_all_idle(self) -> None:
        while self._end_longest_idle():
            pass

    def fit_idle(self) -> None:
        """Update how many idle processes fit; end the surplus, the longest idle first."""
        if self._idle:
            self._idle_limit.look(self._idle.pids)
            while len(self._idle) > self._idle_limit.kept and self._end_longest_idle():
                pass

    def _has_room(self) -> bool:
        most = self._options.count + self._idle_limit.most
        if len(self._processes) < most:
            return True
        awaiting = sum(bool(each.run and each.run.awaited) for each in self._processes.values())
        return len(self._processes) - awaiting < most

    def _find_idle(self, run: SlotRun) -> JobProcess | None:
        if run.needs_own_process or run.owner is None:
            return None
        return self._idle.take(run.owner)

    def _fork(self, run: SlotRun) -> SlotEvent:
        """Request a process for a run, if a request is possible at all."""
        self._last_number += 1
        note = None if run.needs_own_process else self._early_runs.assign_note()
        try:
            process = JobProcess(
                loop=self._loop,
                supervisor=self._supervisor,
                number=self._last_number,
                owner=run.owner,
                note=note,
                events=self._events,
                stuck_seconds=self._options.stuck_seconds,
            )
        except OSError as error:
            self._early_runs.release_note(note)
            if self.make_room(run):
                return SlotEvent.CROWDED
            run.exit = Exit(failure=Why.NO_PROCESS(why=str(error.strerror)))
            return SlotEvent.UNPLACED
        self._processes[process.number] = process
        is_last = self._options.runs_per_process <= 1
        process.give([run], last=is_last or run.needs_own_process)
        return SlotEvent.GIVEN_NEW

    def _give(self, process: JobProcess, run: SlotRun, followers: Sequence[SlotRun]) -> None:
        """Give a run to an idle process; the process's last run has no followers."""
        room = self._options.runs_per_process - process.runs_begun - 1
        runs = [run, *followers[: max(0, room - 1)]]
        self._early_runs.give(process, runs, last=room <= 0)
        if any(follower.trigger.job_id != run.trigger.job_id for follower in runs[1:]):
            # Another slot may become free for them before this run has ended.
            self._loop.call_later(
                self._patience_seconds, self._end_patience, process, process.batch
            )

    def _end_patience(self, process: JobProcess, batch: Batch | None) -> None:
        """Take back the runs of a batch that still wait behind others."""
        if batch is not None and process.batch is batch and batch.followers:
            if process.run is not None and process.run.trigger.run_id == batch.head:
                self._slow.add(process.owner)
            self._early_runs.recall(process)

    def _end_longest_idle(self, *, idle_for: float = 0) -> bool:
        return self._end(self._idle.take_oldest(idle_for))

    def _end(self, process: JobProcess | None) -> bool:
        if process is None:
            return False
        self._leaving.add(process.number)
        process.end(self._options.grace_seconds)
        return True
