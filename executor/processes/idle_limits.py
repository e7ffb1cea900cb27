"""How many idle job processes this machine bears: by its memory, descriptors and process limits.

The memory that an executor may use is its control group's limit, otherwise what the host has
available. Idle processes get a quarter of it, at most, and go when it gets short.
"""

from collections.abc import Collection, Iterator

from warren.executor.container import Host
from warren.executor.fork_server.zygote import PROCESS_LIMIT

#: The parts that idle processes may take: of memory, of process limits, of descriptors.
_MEMORY_PART, _PROCESSES_PART, _FILES_PART = 4, 4, 3
#: Descriptors that the executor holds of a job process: its channel, its pidfd, its begin note.
_FILES_EACH = 3
#: What an idle process is taken to need until one has been measured.
_DEFAULT_BYTES = 3 * 2**20
#: When less than this part of the memory is free, it is short.
_SHORT_PART = 10
#: What fits by a smaller part more or less is no change, unless memory is short: what is available
#: goes up and down, and processes would be ended and started again with it.
_STEADY_PART = 20
#: The part of what fits that is left free, at most one place per slot: a run that needs a new
#: process then does not wait until the one that has to go for it has exited.
_ROOM_PART = 16


class IdleLimit:
    """How many idle processes to keep; `most` is how many fit.

    `fixed` keeps so many; without it, as many as there is room for beside `spares`, and never more
    than a quarter of `job_processes`, which is how many the jobs' user may have (0: any number).
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
