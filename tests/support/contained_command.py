"""Runs a command and ends everything it started; used as a separate program.

    python contained_command.py PARENT COMMAND ARGUMENT...

It ends when the command ends, on SIGTERM, or when the process PARENT is gone, even by SIGKILL.
Before it ends it kills every descendant, including daemons, whose subreaper it is. It exits with
the command's status, or with 143 if it was terminated. At its end it removes the folder that the
variable REMOVED_AT_END names, if any.
"""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_ENDED = 128 + signal.SIGTERM
#: How long an exited daemon may stay a zombie.
_REAP_SECONDS = 5.0


def main(parent: int, command: list[str]) -> int:
    """Run `command` until it ends or is no longer needed; return its exit status."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_ENDED))
    try:
        parent_end = os.pidfd_open(parent)
    except ProcessLookupError:
        return _ENDED
    try:
        child = subprocess.Popen(
            command,
            preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),  # noqa: PLW1509 - this program has one thread
        )
        ends = [os.pidfd_open(child.pid), parent_end]
        while not select.select(ends, [], [], _REAP_SECONDS)[0]:
            _reap_orphans(child.pid)
        status = child.poll()
    finally:
        _end_descendants()
        if folder := os.environ.get("REMOVED_AT_END"):
            shutil.rmtree(folder, ignore_errors=True)
    return _ENDED if status is None else status


def _reap_orphans(child: int) -> None:
    """Reap exited daemons until `child` itself is next."""
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid == child:
                return
            os.waitpid(ended.si_pid, 0)


def _end_descendants() -> None:
    """Kill and reap until no descendant is left; each round catches new ones."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while _has_children():
        for pid in _descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def _has_children() -> bool:
    """Reap exited children and return whether any are left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _descendants(root: int) -> list[int]:
    """Return the process ids below `root`; repeated here, as this program imports no others."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, []))
    return found[1:]


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
