"""The idle job processes of one executor, by job and by idle time."""

import time

from warren.executor.processes.job_process import JobProcess, Owner


class IdleProcesses:
    """Processes that have finished their run and wait for the next one of their job."""

    def __init__(self) -> None:
        #: By number, the one that has idled longest first.
        self._all: dict[int, JobProcess] = {}
        self._by_owner: dict[Owner, dict[int, JobProcess]] = {}

    def __len__(self) -> int:
        """Return the number of idle processes."""
        return len(self._all)

    def add(self, process: JobProcess) -> None:
        """Add a process that became idle."""
        assert process.owner is not None, "a script's process never idles"
        process.idle_since = time.monotonic()
        self._all[process.number] = process
        self._by_owner.setdefault(process.owner, {})[process.number] = process

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

    def discard(self, process: JobProcess) -> None:
        """Remove a process if it is here."""
        if self._all.pop(process.number, None) is None or process.owner is None:
            return
        own = self._by_owner[process.owner]
        del own[process.number]
        if not own:
            del self._by_owner[process.owner]
