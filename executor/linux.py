"""The few things of Linux that the standard library does not offer. Job processes import it."""

import contextlib
import ctypes
import functools
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# prctl(2), from <linux/prctl.h>
_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """A line of the process table; `started` is in clock ticks since boot, zombies included."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    name: str


def become_subreaper() -> None:
    """Let orphans among this process's descendants become its children."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread that forked it ends.

    The order matters: a parent that died before the call is seen by its pid.
    """
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def outlive_parent() -> None:
    """Undo `die_with_parent`."""
    _prctl(_SET_PDEATHSIG, 0)


def set_process_name(name: str) -> None:
    """Show `name` (up to 15 bytes) in lists of processes."""
    _write("/proc/self/comm", name.encode()[:15])


def host_boot() -> str:
    """Return what tells this boot of the host from its others, empty when it is not known."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def has_living_child() -> bool:
    """Tell whether this process has a child that lives; dead ones are reaped on the way."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        if found is None:
            return True
        os.waitid(os.P_PID, found.si_pid, os.WEXITED)


def children_of(parent: int) -> list[ProcessRow]:
    """Return the living and dead children of a process; reads all of /proc (1 to 3 ms)."""
    rows = (process_row(int(entry)) for entry in os.listdir("/proc") if entry.isdigit())  # noqa: PTH208 - a Path for each of hundreds of entries costs as much as the reading
    return [row for row in rows if row is not None and row.parent == parent]


def process_row(pid: int) -> ProcessRow | None:
    """Return a process's line of the process table, None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - see above
            text = file.read().decode(errors="replace")
    except OSError:
        return None
    # The name stands in brackets and may itself hold brackets and blanks.
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return ProcessRow(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=int(fields[19]),
        name=head.partition("(")[2],
    )


class OomWatch:
    """Tells whether the kernel has killed any process for lack of memory.

    Containers see the whole host's counter, so it may have been somebody else's process.
    """

    def __init__(self) -> None:
        self._seen = _count_oom_kills()

    def has_struck(self) -> bool:
        """Whether it happened since this was asked last."""
        before, self._seen = self._seen, _count_oom_kills()
        return self._seen > before


def _count_oom_kills() -> int:
    try:
        lines = Path("/proc/vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def prefer_as_oom_victim() -> None:
    """Let the kernel kill this process before the executor when memory runs out."""
    _write("/proc/self/oom_score_adj", b"500")


def _write(path: str, data: bytes) -> None:
    # Not by pathlib: a job process does this at its birth, and each page touched is a page copied.
    try:
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return  # a sandbox without a writable /proc: it is a nicety, not a need
    try:
        os.write(file, data)
    except OSError:
        return
    finally:
        os.close(file)


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, argument: Any) -> None:
    if _libc().prctl(option, argument, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl({option}): {os.strerror(code)}")
