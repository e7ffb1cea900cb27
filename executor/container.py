"""What this process may use of its host: processors, memory, processes, descriptors.

Containers, and units of systemd with limits, have cgroups of their own. Without one, or without a
limit, it is the host's.
"""

import os
import resource
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_NO_LIMIT = "max"
#: A limit as high as this means no limit: cgroups of version 1 cannot express it otherwise.
_NO_LIMIT_BYTES = 2**60
#: How many processes are measured for their memory.
_SAMPLE = 5


def own_cgroup(own: Path = _OWN, cgroups: Path = _CGROUPS) -> Path:
    """Return the folder of this process's cgroup; it may not exist."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return cgroups
    path = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    return cgroups / path


def processors(cgroup: Path | None = None) -> int:
    """Return how many processors may be used, at least one."""
    allowed = len(os.sched_getaffinity(0))
    try:
        quota, period = ((cgroup or own_cgroup()) / "cpu.max").read_text().split()
        limit = allowed if quota == _NO_LIMIT else ceil(int(quota) / int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return allowed
    return max(1, min(allowed, limit))


def memory_percent(cgroup: Path) -> float | None:
    """Return how much of its memory a cgroup uses, without what can be read again from disk.

    None if it has no limit.
    """
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
        stat = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        if limit == _NO_LIMIT:
            return None
        return 100 * (used - int(stat.get("inactive_file", 0))) / int(limit)
    except (OSError, ValueError, ZeroDivisionError):
        return None


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes: the tightest `limit` of a control group, None without any, and what is `free`."""

    limit: int | None
    free: int


#: Descriptors that `raise_file_limit` asks for at most: more than an executor uses. Programs that
#: jobs start inherit the limit, and some look at each descriptor below it.
MAX_FILES = 65_536


def raise_file_limit() -> None:
    """Let this process have as many descriptors as its hard limit allows, up to `MAX_FILES`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Host:
    """What the kernel says about this process's memory and limits, in files under `root`."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def memory(self) -> Memory:
        """Return what may be used and what is free, of a control group or else of the host."""
        available = _field(self._root / "proc/meminfo", ("MemAvailable:",)) * 1024
        memory_ = Memory(None, available)
        for folder in self._groups("memory"):
            limit = _first_number(folder, "memory.max", "memory.limit_in_bytes")
            if limit is not None and limit < (memory_.limit or _NO_LIMIT_BYTES):
                used = _first_number(folder, "memory.current", "memory.usage_in_bytes") or 0
                cache = _field(folder / "memory.stat", ("inactive_file", "total_inactive_file"))
                memory_ = Memory(limit, max(0, min(available, limit - used + cache)))
        return memory_

    def most_processes(self) -> int | None:
        """Return how many processes there may be; None if only the kernel's own limit holds."""
        limits = [_first_number(folder, "pids.max") for folder in self._groups("pids")]
        allowed = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        if allowed != resource.RLIM_INFINITY:
            limits.append(allowed)
        return min((number for number in limits if number is not None), default=None)

    def most_files(self) -> int:
        """Return how many descriptors this process may have."""
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    def private_bytes(self, pids: Collection[int]) -> int:
        """Return how much memory of its own each of these has, on average; 0 if that is hidden."""
        sizes = []
        for pid in list(pids)[:_SAMPLE]:
            with suppress(OSError):
                lines = (self._root / f"proc/{pid}/smaps_rollup").read_text().splitlines()
                kilobytes = [int(line.split()[1]) for line in lines if line.startswith("Private_")]
                sizes.append(sum(kilobytes) * 1024)
        return sum(sizes) // len(sizes) if sizes else 0

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
