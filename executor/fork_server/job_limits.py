"""Resource limits of each job process and of each process it starts, enforced by the kernel.

Job processes import this module.
"""

import math
import re
import resource
from dataclasses import dataclass, fields
from typing import Self

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_ITEM = re.compile(r"([a-z_]+)=([0-9]{1,12})([KMG]?)", re.ASCII)
#: Below these a Python program does not start, or cannot report what went wrong.
_MINIMUMS = {"memory": 64 * 2**20, "cpu": 1, "file_size": 65_536, "open_files": 32, "processes": 1}
_RESOURCES = {
    "memory": resource.RLIMIT_AS,
    "file_size": resource.RLIMIT_FSIZE,
    "open_files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
}
#: How much CPU time a script has from SIGXCPU to SIGKILL.
KILL_AFTER_SECONDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """Bytes of address space, CPU seconds per run, bytes per file, descriptors, processes.

    0 sets no limit. The kernel counts all processes of a user and never limits root.
    """

    memory: int = 0
    cpu: int = 0
    file_size: int = 0
    open_files: int = 0
    processes: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a text like `memory=2G, cpu=600`; raises ValueError with what is wrong."""
        limits: dict[str, int] = {}
        for item in filter(None, map(str.strip, text.split(","))):
            name, amount = _parse_item(item)
            if name in limits:
                raise ValueError(f"{name} is set twice")
            limits[name] = amount
        return cls(**limits)

    def apply(self, *, to_script: bool = False) -> None:
        """Apply the limits to this process for good; a lower existing limit stays.

        A script, and each process that it starts, is killed if it computes on after SIGXCPU. A
        handler's process may need the time for another run, so only SIGXCPU ends it.
        """
        for name, number in _RESOURCES.items():
            if wanted := getattr(self, name):
                least = _lesser(wanted, resource.getrlimit(number)[1])
                resource.setrlimit(number, (least, least))
        self.renew()
        if to_script and self.cpu:
            soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
            hard = _lesser(soft + KILL_AFTER_SECONDS, hard)
            resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))

    def renew(self) -> None:
        """Grant this process the CPU time of another run."""
        if self.cpu:
            used = resource.getrusage(resource.RUSAGE_SELF)
            hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
            soft = _lesser(math.ceil(used.ru_utime + used.ru_stime) + self.cpu, hard)
            resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _parse_item(item: str) -> tuple[str, int]:
    found = _ITEM.fullmatch(item)
    known = [each.name for each in fields(JobLimits)]
    if not found or found[1] not in known:
        raise ValueError(f"cannot read {item[:100]!r}; the limits are {', '.join(known)}")
    name, amount = found[1], int(found[2]) * _UNITS[found[3]]
    if amount < _MINIMUMS[name]:
        raise ValueError(f"{name} is at least {_MINIMUMS[name]}")
    return name, amount


def _lesser(wanted: int, hard: int) -> int:
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
