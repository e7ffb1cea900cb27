"""What this process may use of its host: the processors and the memory of its cgroup (version 2).

Containers, and units of systemd with limits, have cgroups of their own. Without one, or without a
limit, it is the host's.
"""

import os
from math import ceil
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
_NO_LIMIT = "max"


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
