"""The processor time of a function in this thread or of processes, independent of other load."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

_TIMES = 5
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def least_seconds(act: Callable[[], object]) -> float:
    """Return the smallest processor time of a few repetitions.

    Beside other work the same instructions take longer: caches are cold, and cores are shared.
    """
    return min(_seconds(act) for _ in range(_TIMES))


def seconds_of(pids: Iterable[int]) -> float:
    """Return the processor time of live processes and of the children that they have reaped."""
    return sum(map(_ticks, pids)) / _TICKS_A_SECOND


def _ticks(pid: int) -> int:
    with contextlib.suppress(OSError):  # it has ended
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return sum(map(int, stat.rpartition(")")[2].split()[11:15]))
    return 0


def _seconds(act: Callable[[], object]) -> float:
    began = time.thread_time()
    act()
    return time.thread_time() - began
