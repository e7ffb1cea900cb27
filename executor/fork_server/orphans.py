"""Kills what dead runs left behind: our own orphans, and what an earlier boot's runs have started.

When an executor and its zygote die together, nobody is left to adopt what their runs have started.
It is found by a mark in its environment at the executor's next start.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from warren.executor.fork_server.linux import ProcessRow

#: In the environment of all that an executor's zygote starts: a folder that is this executor's own.
MARK = "WARREN_EXECUTOR_FOLDER"
#: How long an earlier boot's processes may take to end, and between two looks.
_END_SECONDS, _POLL_SECONDS = 10.0, 0.01
#: Executors may be threads of one process, which share its environment.
_environment = threading.Lock()


@contextlib.contextmanager
def marked(folder: Path | None) -> Iterator[None]:
    """Mark the program that is started meanwhile, and all that it will start."""
    with _environment:
        if folder is not None:
            os.environ[MARK] = str(folder)
        try:
            yield
        finally:
            os.environ.pop(MARK, None)


def end_marked(folder: Path) -> list[str]:
    """Kill what carries an executor's mark; return the names of those found.

    Call it before that executor starts anything. What clears its own environment is not found.
    """
    entry = f"{MARK}={folder}".encode()
    names: dict[int, str] = {}
    deadline = time.monotonic() + _END_SECONDS
    while (found := _carriers(entry)) and time.monotonic() < deadline:
        names |= found
        for pid in found:
            _kill(os.kill, pid)
        time.sleep(_POLL_SECONDS)
    return sorted(names.values())


def _carriers(entry: bytes) -> dict[int, str]:
    found = {}
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if entry in path.read_bytes().split(b"\0"):
                found[int(path.parent.name)] = (path.parent / "comm").read_text().strip()
    return found


def is_helper(pid: int) -> bool:
    """Whether it is one that `multiprocessing` started for a job, or ends by itself just now."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True  # it has ended
    named = (b"multiprocessing.resource_tracker", b"multiprocessing.forkserver")
    return not words or any(name in words for name in named)


def kill_and_reap(orphans: Iterable[ProcessRow]) -> None:
    """Kill each orphan with its process group, and reap those that are already dead.

    Their children become ours in turn, so the caller repeats this until none is left.
    """
    own_group = os.getpgrp()
    for orphan in orphans:
        # As long as a member has not been reaped, the group's id cannot have been reused.
        if orphan.group != own_group:
            _kill(os.killpg, orphan.group)
        _kill(os.kill, orphan.pid)
        try:
            os.waitid(os.P_PID, orphan.pid, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            continue


def _kill(call: object, target: int) -> None:
    assert callable(call)
    try:
        call(target, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        # Already gone, or another user's (a setuid program): the next round shows which.
        return
