"""Kills the orphans of dead runs: processes that became our children without our starting them."""

import os
import signal
from collections.abc import Iterable
from pathlib import Path

from warren.executor.fork_server.linux import ProcessRow


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
