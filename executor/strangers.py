"""Ends orphans of dead runs: processes that became our children without our starting them."""

import os
import signal
from collections.abc import Iterable

from executor.linux import ProcessRow


def kill_and_reap(strangers: Iterable[ProcessRow]) -> None:
    """Kill each stranger with its process group, and reap those that are dead already.

    Their own children become ours in turn, so the caller looks again until none is left.
    """
    own_group = os.getpgrp()
    for stranger in strangers:
        # A group with a member that nobody reaped yet cannot be another one's by now.
        if stranger.group != own_group:
            _kill(os.killpg, stranger.group)
        _kill(os.kill, stranger.pid)
        try:
            os.waitid(os.P_PID, stranger.pid, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            continue


def _kill(call: object, target: int) -> None:
    assert callable(call)
    try:
        call(target, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        # Gone meanwhile, or of another user (a setuid program): the next look tells which.
        return
