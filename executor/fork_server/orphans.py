"""Kills the orphans of dead runs: processes that became our children without our starting them."""

import os
import signal
from collections.abc import Iterable

from warren.executor.fork_server.linux import ProcessRow


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
