"""What lives on this machine, as /proc tells it, and the list of what the tests started.

A process may vanish between two looks; whatever is asked about it then is simply answered as gone.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process; `born` (clock ticks since boot) tells it from a later one of the same id."""

    pid: int
    parent: int
    name: str
    state: str
    born: int

    @property
    def is_alive(self) -> bool:
        """Whether this very process lives; a zombie does not."""
        now = find(self.pid)
        return now is not None and now.born == self.born and now.state not in "ZX"


#: Every process that the tests started by themselves; the last check of a session reads it.
started: list[Process] = []


#: Stands in the environment of whatever a test session starts, so that strays can be told.
#: Not WARREN_…: those are settings, and job processes do not see them.
SESSION_MARK = "TEST_SESSION_MARK"


def basic_environment() -> dict[str, str]:
    """Return the environment that started programs get: little, and the session's mark."""
    kept = ("PATH", "TMPDIR", SESSION_MARK)
    return {"LANG": "C.UTF-8"} | {name: os.environ[name] for name in kept if name in os.environ}


def find(pid: int) -> Process | None:
    """Return the process of this id, or None when there is none."""
    with contextlib.suppress(OSError):
        return _parse(pid, Path(f"/proc/{pid}/stat").read_text(errors="replace"))
    return None


def identify(pid: int) -> Process:
    """Return the process of this id, which the caller knows to exist, as an unreaped child does."""
    process = find(pid)
    assert process is not None, f"no process {pid}"
    return process


def alive(pid: int) -> bool:
    """Return whether a process of this id lives; a zombie does not."""
    process = find(pid)
    return process is not None and process.is_alive


def every_process() -> Iterator[Process]:
    """Give each process of the machine, zombies included."""
    for entry in os.listdir("/proc"):  # noqa: PTH208 - called in tight polls
        if entry.isdigit():
            process = find(int(entry))
            if process is not None:
                yield process


def descendants(pid: int) -> list[Process]:
    """Return the living processes below `pid`, parents before children.

    Whoever lost its parent has left the tree, unless a subreaper of the tree adopted it.
    """
    children: dict[int, list[Process]] = {}
    for process in every_process():
        children.setdefault(process.parent, []).append(process)
    found = list(children.get(pid, []))
    for process in found:
        found.extend(children.get(process.pid, []))
    return [process for process in found if process.state not in "ZX"]


def processes_with_env(name: str, value: str) -> list[Process]:
    """Return the living processes that were started with this environment variable."""
    wanted = f"{name}={value}".encode()
    return [p for p in every_process() if p.state not in "ZX" and wanted in _environment(p.pid)]


def environment_of(pid: int) -> dict[str, str]:
    """Return the environment that a process was started with; empty when it is gone."""
    pairs = (pair.decode(errors="replace").partition("=") for pair in _environment(pid))
    return {name: value for name, _, value in pairs if name}


def _environment(pid: int) -> list[bytes]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []


def _parse(pid: int, stat: str) -> Process:
    # The name stands in brackets and may itself hold spaces and brackets.
    head, _, tail = stat.rpartition(")")
    fields = tail.split()
    return Process(
        pid=pid,
        parent=int(fields[1]),
        name=head.partition("(")[2],
        state=fields[0],
        born=int(fields[19]),
    )
