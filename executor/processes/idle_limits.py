"""How many idle job processes this machine bears: by its memory, descriptors and process limits.

The memory that an executor may use is its control group's limit, otherwise what the host has
available. Idle processes get a quarter of it, at most, and go when it gets short.
"""

import resource
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from warren.executor.fork_server.fork_server import PROCESS_LIMIT

#: The parts that idle processes may take: of memory, of process limits, of descriptors.
_MEMORY_PART, _PROCESSES_PART, _FILES_PART = 4, 4, 3
#: Descriptors that the executor holds of a job process: its channel, its pidfd, its begin note.
_FILES_EACH = 3
#: What an idle process takes as long as none has been looked at.
_USUAL_BYTES = 3 * 2**20
#: How many are looked at.
_SAMPLE = 5
#: When less than this part of the memory is free, it is short.
_SHORT_PART = 10
#: A limit as high as this is none: the older control groups have no other word for it.
_NO_LIMIT = 2**60


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes: the tightest `limit` of a control group, None without any, and what is `free`."""

    limit: int | None
    free: int


class Host:
    """What the kernel tells of this process's memory and limits, under `root`."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def memory(self) -> Memory:
        """Return what may be used and what is free, of a control group or else of the host."""
        available = self._available()
        found = Memory(None, available)
        for folder in self._groups("memory"):
            limit = _first_number(folder, "memory.max", "memory.limit_in_bytes")
            if limit is not None and limit < (found.limit or _NO_LIMIT):
                used = _first_number(folder, "memory.current", "memory.usage_in_bytes") or 0
                cache = _field(folder / "memory.stat", ("inactive_file", "total_inactive_file"))
                found = Memory(limit, max(0, min(available, limit - used + cache)))
        return found

    def most_processes(self) -> int | None:
        """Return how many processes there may be; None if only the kernel's own limit holds."""
        found = [_first_number(folder, "pids.max") for folder in self._groups("pids")]
        allowed = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        if allowed != resource.RLIM_INFINITY:
            found.append(allowed)
        return min((one for one in found if one is not None), default=None)

    def most_files(self) -> int:
        """Return how many descriptors this process may have."""
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    def private_bytes(self, pids: Collection[int]) -> int:
        """Return how much memory of its own each of these has, on average; 0 if that is hidden."""
        found = []
        for pid in list(pids)[:_SAMPLE]:
            with suppress(OSError):
                lines = (self._root / f"proc/{pid}/smaps_rollup").read_text().splitlines()
                kilobytes = [int(one.split()[1]) for one in lines if one.startswith("Private_")]
                found.append(sum(kilobytes) * 1024)
        return sum(found) // len(found) if found else 0

    def _available(self) -> int:
        return _field(self._root / "proc/meminfo", ("MemAvailable:",)) * 1024

    def _groups(self, controller: str) -> Iterator[Path]:
        """Yield the folders of this process's control groups, from the innermost outwards."""
        with suppress(OSError):
            for line in (self._root / "proc/self/cgroup").read_text().splitlines():
                _, controllers, path = line.split(":", 2)
                if controller in controllers.split(","):
                    base = self._root / "sys/fs/cgroup" / controller
                elif not controllers:
                    base = self._root / "sys/fs/cgroup"
                else:
                    continue
                inside = Path(path.lstrip("/"))
                for part in (inside, *inside.parents):
                    yield base / part


class IdleLimit:
    """How many idle processes to keep.

    `fixed` keeps so many; without it, as many as there is room for beside `spares`, and never more
    than a quarter of `job_processes`, which is how many the jobs' user may have (0: any number).
    """

    def __init__(
        self, fixed: int | None, *, slots: int, spares: int, job_processes: int, host: Host
    ) -> None:
        self._host = host
        self._fixed = fixed
        self._spares = spares
        self._bytes_each = _USUAL_BYTES
        self._bound = PROCESS_LIMIT - slots
        self.most = fixed if fixed is not None else 0
        if fixed is None:
            self._bound = min(self._bound, *self._bounds(job_processes))
            self.look(())

    def look(self, idle: Collection[int]) -> None:
        """Find out how many fit, given the ids of those that are idle now."""
        if self._fixed is not None:
            return
        self._bytes_each = self._host.private_bytes(idle) or self._bytes_each
        memory, held = self._host.memory(), self._bytes_each * len(idle)
        # What they hold would be available otherwise.
        may_use = memory.free + held if memory.limit is None else memory.limit
        spared = held + memory.free - may_use // _SHORT_PART
        fit = max(0, min(may_use // _MEMORY_PART, spared)) // self._bytes_each
        self.most = max(0, min(fit - self._spares, self._bound))

    def _bounds(self, job_processes: int) -> Iterator[int]:
        yield self._host.most_files() // _FILES_PART // _FILES_EACH
        for processes in (self._host.most_processes(), job_processes or None):
            if processes is not None:
                yield processes // _PROCESSES_PART


def _first_number(folder: Path, *names: str) -> int | None:
    """Return the number in the first of these files that is there; None for `max`."""
    for name in names:
        with suppress(OSError):
            text = (folder / name).read_text().strip()
            return int(text) if text.isdecimal() else None
    return None


def _field(file: Path, names: Collection[str]) -> int:
    with suppress(OSError):
        for line in file.read_text().splitlines():
            words = line.split()
            if words and words[0] in names:
                return int(words[1])
    return 0
