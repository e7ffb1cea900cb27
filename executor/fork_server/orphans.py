"""What dead runs have left to the zygote: children that it did not fork.

They are found in the process table, which no job can write.
"""

import os
import time
from collections.abc import Callable

from warren.executor.fork_server import linux

#: Seconds until those are looked for again that were killed and are not gone yet.
_POLL_SECONDS = 0.002
#: Each so many children delay the next look by a millisecond. A look takes a twentieth of that:
#: with thousands of idle processes, exits that come together share one.
_CHILDREN_PER_MS = 200


class Orphans:
    """The orphans among this process's children.

    `known` are the ids of the others: of what it has forked, and of what the handlers started while
    they were imported, which is left alone.
    """

    def __init__(
        self,
        child_pids: Callable[[], list[int]] = linux.own_child_pids,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._child_pids = child_pids
        self._clock = clock
        self._own_pid = os.getpid()
        self._next_look_at = 0.0
        self.known = set(child_pids())

    def due_in(self) -> float:
        """Return in how many seconds they may be looked for, 0 for at once."""
        return max(0.0, self._next_look_at - self._clock())

    def find(self) -> list[linux.ProcessRow]:
        """Return them, dead or alive.

        Raises:
            OSError: no descriptor is free to read /proc.

        """
        now = self._clock()
        self._next_look_at = now + len(self.known) // _CHILDREN_PER_MS / 1000
        pids = self._child_pids()
        if self.known.issuperset(pids):
            return []
        rows = map(linux.process_row, set(pids) - self.known)
        orphans = [row for row in rows if row is not None and row.parent == self._own_pid]
        if orphans:
            self._next_look_at = now + _POLL_SECONDS
        return orphans
