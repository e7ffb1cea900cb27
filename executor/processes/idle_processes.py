"""The job processes that idle between two runs, and how many of them may stay.

The machine's memory, descriptors and process limits decide that. The memory that an executor may
use is its control group's limit, otherwise what the host has available. Idle processes get a
quarter of it, at most, and go when it gets short.
"""

import time
from collections.abc import Collection, Iterator

from warren.executor.container import Host
from warren.executor.fork_server.zygote import PROCESS_LIMIT
from warren.executor.processes.interface import Owner
from warren.executor.processes.job_process import JobProcess

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

    def take(self, owner: Owner | None) -> JobProcess | None:
        """Remove and return a job's most recently idle process, so that the others can time out."""
        own = self._by_owner.get(owner) if owner is not None else None
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
