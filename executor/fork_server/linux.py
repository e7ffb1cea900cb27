"""Linux calls that the standard library does not offer. Job processes import this module."""

import contextlib
import ctypes
import functools
import itertools
import os
import signal
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# fallocate(2), from <linux/falloc.h>
_KEEP_SIZE = 1
# prctl(2), from <linux/prctl.h>
_SET_PDEATHSIG = 1
_SET_DUMPABLE = 4
_SET_NAME = 15
_SET_CHILD_SUBREAPER = 36
_KILL = int(signal.SIGKILL)
_READ_BYTES = 16_384


#: A variable by which the linker finds the functions of all libraries as a program starts. Without
#: it each job process finds those that it calls, and copies the pages where it notes them.
LINK_AT_START = "LD_BIND_NOW"
#: The names of a process that has a job, and of one that has none yet.
JOB_NAME, SPARE_NAME = b"warren-job", b"warren-spare"


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """An entry of the process table, zombies included; `started` is in clock ticks since boot."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    name: str
    is_dead: bool


def open_files() -> set[int]:
    """Return the open descriptors of this process."""
    # The list includes the descriptor that read the folder, which is closed by now.
    entries = os.listdir("/proc/self/fd")  # noqa: PTH208 - names, not paths
    return {int(entry) for entry in entries if os.path.lexists(f"/proc/self/fd/{entry}")}


def become_subreaper() -> None:
    """Make this process adopt orphaned descendants as its children."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread that forked it ends.

    The order matters: if the parent died before the call, its pid has changed after it.
    """
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def outlive_parent() -> None:
    """Undo `die_with_parent`."""
    _prctl(_SET_PDEATHSIG, 0)


def hide_from_others() -> None:
    """Keep other processes of this user from reading or tracing this one, also through /proc.

    An exec or a change of user undoes this, a fork does not. Root is not affected.
    """
    _prctl(_SET_DUMPABLE, 0)


def become_job_process(zygote: int, name: bytes) -> None:
    """Make this fork of the zygote die with it, adopt orphans and bear its own name.

    Jobs can read its /proc/self and debuggers can attach: it holds no secrets, and starts out
    hidden only as a fork of the zygote.
    """
    # In one function, since each page that a new process touches is copied.
    prctl = _libc().prctl
    failed = (
        prctl(_SET_DUMPABLE, 1, 0, 0, 0)
        | prctl(_SET_PDEATHSIG, _KILL, 0, 0, 0)
        | prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        | prctl(_SET_NAME, name, 0, 0, 0)
    )
    if failed or os.getppid() != zygote:
        os._exit(1)


def wipe_variables(names: Collection[str]) -> None:
    """Remove variables from the environment and from the memory behind /proc/self/environ."""
    places = list(_find_variables({name.encode() for name in names}))
    for name in names:
        os.environ.pop(name, None)
    for address, size in places:
        ctypes.memset(address, 0, size)


def _find_variables(names: Collection[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the address and size of each of these variables, as `NAME=value` in memory."""
    table = ctypes.POINTER(ctypes.c_void_p).in_dll(_libc(), "environ")
    for index in itertools.count():
        address = table[index] if table else None
        if not address:
            return
        text = ctypes.string_at(address)
        if text.partition(b"=")[0] in names:
            yield address, len(text)


def default_action(number: int) -> Callable[[], object]:
    """Return a call that gives a signal its default action without Python's knowledge.

    If one has arrived already, Python still calls its handler. After `signal.signal` it would
    complain that the handler is gone.
    """
    return functools.partial(_libc().signal, number, None)


def set_process_name(name: bytes) -> None:
    """Set the name (up to 15 bytes) shown in process lists."""
    _prctl(_SET_NAME, ctypes.c_char_p(name[:15]))


def host_boot() -> str:
    """Return the id of this boot of the host, empty when it is not known."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def has_living_child() -> bool:
    """Return whether this process has a live child; reaps dead ones on the way."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        if ended is None:
            return True
        os.waitid(os.P_PID, ended.si_pid, os.WEXITED)


def children_of(parent: int) -> list[ProcessRow]:
    """Return the children of a process, dead or alive."""
    rows = map(process_row, child_pids(parent))
    return [row for row in rows if row is not None and row.parent == parent]


def child_pids(parent: int) -> list[int]:
    """Return the ids of a process's children, dead or alive: 0.2 ms for 2,000 of them.

    The kernel's own list is complete for a process that forks and reaps in the calling thread. On
    kernels without such lists the whole process table is read (1 to 3 ms).
    """
    try:
        threads = os.listdir(f"/proc/{parent}/task")  # noqa: PTH208 - read at each exit
        lists = [_read(f"/proc/{parent}/task/{thread}/children") for thread in threads]
    except FileNotFoundError:
        return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]  # noqa: PTH208 - as above
    return [pid for pids in lists for pid in map(int, pids.split())]


def own_child_pids() -> list[int]:
    """Return the ids of this process's children, dead or alive, as the only thread that forks.

    Orphans become children of its first thread.
    """
    try:
        pids = _read("/proc/thread-self/children")
    except FileNotFoundError:
        return child_pids(os.getpid())
    return list(map(int, pids.split()))


def _read(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = piece = os.read(file, _READ_BYTES)
        while piece:
            piece = os.read(file, _READ_BYTES)
            data += piece
    finally:
        os.close(file)
    return data


def process_row(pid: int) -> ProcessRow | None:
    """Return a process's entry of the process table, None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - see above
            text = file.read().decode(errors="replace")
    except OSError:
        return None
    # The name is in parentheses and may itself contain parentheses and blanks.
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return ProcessRow(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=int(fields[19]),
        name=head.partition("(")[2],
        is_dead=fields[0] in "ZX",
    )


def count_threads() -> int:
    """Return the number of this process's threads, including those of C libraries."""
    return len(os.listdir("/proc/self/task"))  # noqa: PTH208 - names, not paths


class OomWatch:
    """Detects that the kernel has killed a process for lack of memory.

    `counters` is where the kernel counts. A container sees those of the whole host, so it may have
    been another container's process.
    """

    def __init__(self, counters: Path = Path("/proc/vmstat")) -> None:
        self._counters = counters
        self._seen = self._count()

    def has_killed(self) -> bool:
        """Whether it happened since the last call."""
        before, self._seen = self._seen, self._count()
        return self._seen > before

    def _count(self) -> int:
        try:
            lines = self._counters.read_text(encoding="ascii").splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def preallocate(file: int, start: int, size: int) -> bool:
    """Allocate blocks for `size` bytes of a file from `start` on, without making it longer.

    Returns False if the disk is full or the file system does not support it.
    """
    start_, size_ = ctypes.c_int64(start), ctypes.c_int64(size)
    return bool(_libc().fallocate(file, _KEEP_SIZE, start_, size_) == 0)


def prefer_as_oom_victim() -> None:
    """Have the kernel kill this process before the executor when memory runs out."""
    _write("/proc/self/oom_score_adj", b"500")


def _write(path: str, data: bytes) -> None:
    # Not with pathlib: every job process does this as it starts, and each page touched is copied.
    try:
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return  # a sandbox without a writable /proc; this is optional
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
