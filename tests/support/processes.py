"""The processes of this machine, from /proc, and a list of those started by tests.

A process may vanish between two reads; functions then treat it as gone.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.eventually import eventually


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process; `born` (clock ticks since boot) tells it from a later one with the same id."""

    pid: int
    parent: int
    name: str
    state: str
    born: int

    @property
    def is_alive(self) -> bool:
        """Whether this process, and not a later one with its id, is alive; a zombie is not."""
        now = find(self.pid)
        return now is not None and now.born == self.born and now.state not in "ZX"


#: Every process that tests have started; checked at the end of a session.
started: list[Process] = []


#: A variable in the environment of everything that a test session starts, to detect strays. Not
#: WARREN_…, as those are settings that job processes do not see.
SESSION_MARK = "TEST_SESSION_MARK"


def basic_environment() -> dict[str, str]:
    """Return the minimal environment for programs, with the session's mark."""
    kept = ("PATH", "TMPDIR", SESSION_MARK)
    return {"LANG": "C.UTF-8"} | {name: os.environ[name] for name in kept if name in os.environ}


def find(pid: int) -> Process | None:
    """Return the process with this id; None if there is none."""
    with contextlib.suppress(OSError):
        return _parse(pid, Path(f"/proc/{pid}/stat").read_text(errors="replace"))
    return None


def identify(pid: int) -> Process:
    """Return the process with this id, which must exist, such as an unreaped child."""
    process = find(pid)
    assert process is not None, f"no process {pid}"
    return process


def alive(pid: int) -> bool:
    """Return whether a process with this id is alive; a zombie is not."""
    process = find(pid)
    return process is not None and process.is_alive


def stop(pid: int) -> None:
    """Send SIGSTOP, and return when all threads of a process stand still."""
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: set(_thread_states(pid)) == {"T"})


def _thread_states(pid: int) -> Iterator[str]:
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # the thread has ended
            yield stat.read_text(errors="replace").rpartition(")")[2].split()[0]


def every_process() -> Iterator[Process]:
    """Yield each process of the machine, including zombies."""
    for entry in os.listdir("/proc"):  # noqa: PTH208 - called in tight polls
        if entry.isdigit():
            process = find(int(entry))
            if process is not None:
                yield process


def descendants(pid: int) -> list[Process]:
    """Return the live processes below `pid`, parents before children.

    Orphans have left the tree, unless a subreaper in it has adopted them.
    """
    children: dict[int, list[Process]] = {}
    for process in every_process():
        children.setdefault(process.parent, []).append(process)
    found = list(children.get(pid, []))
    for process in found:
        found.extend(children.get(process.pid, []))
    return [process for process in found if process.state not in "ZX"]


def processes_with_env(name: str, value: str) -> list[Process]:
    """Return the live processes started with this environment variable."""
    wanted = f"{name}={value}".encode()
    return [p for p in every_process() if p.state not in "ZX" and wanted in _environment(p.pid)]


def environment_of(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with; empty if it is gone."""
    pairs = (pair.decode(errors="replace").partition("=") for pair in _environment(pid))
    return {name: value for name, _, value in pairs if name}


def _environment(pid: int) -> list[bytes]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []


def _parse(pid: int, stat: str) -> Process:
    # The name is in parentheses and may itself contain spaces and parentheses.
    head, _, tail = stat.rpartition(")")
    fields = tail.split()
    return Process(
        pid=pid,
        parent=int(fields[1]),
        name=head.partition("(")[2],
        state=fields[0],
        born=int(fields[19]),
    )
