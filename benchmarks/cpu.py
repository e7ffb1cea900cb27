"""Processor time by process, so that figures hold on a machine with other load."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.processes import descendants

#: Returns the processor seconds used so far.
Clock = Callable[[], float]

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
#: Fields in /proc/PID/stat after the name: a process's own time, and that of its ended children.
_OWN, _CHILDREN = slice(11, 13), slice(13, 15)


class Meter:
    """Measures the processor time of several processes from now on."""

    def __init__(self, clocks: Mapping[str, Clock]) -> None:
        self._clocks = clocks
        self._before = {name: clock() for name, clock in clocks.items()}

    def spent(self, runs: int) -> dict[str, float]:
        """Return the microseconds per run used since then, by name."""
        return {
            name: (clock() - self._before[name]) * 1e6 / runs
            for name, clock in self._clocks.items()
        }


def own(pid: int) -> float:
    """Return the processor seconds of one process."""
    return _seconds(pid, _OWN)


def below(pid: int) -> float:
    """Return the processor seconds of everything that a process has started, ended or not."""
    living = (process.pid for process in descendants(pid))
    return _seconds(pid, _CHILDREN) + sum(_seconds(one, slice(11, 15)) for one in living)


def give_way(pid: int, nice: int) -> None:
    """Lower a process's share of the processor, against processes of other sessions too."""
    group = Path(f"/proc/{pid}/autogroup")
    if group.exists():
        group.write_text(str(nice))
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.setpriority(os.PRIO_PROCESS, int(task.name), nice)


def _seconds(pid: int, fields: slice) -> float:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return 0.0  # it has ended, and its time is included in its parent's
    return sum(map(int, stat.rpartition(")")[2].split()[fields])) / _TICKS_PER_SECOND
