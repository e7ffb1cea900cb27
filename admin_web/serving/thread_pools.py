"""The server's threads, in pools, so that slow requests of one kind do not delay the others.

`/healthz` and `/metrics` have a lane of their own, and so have files, which take their thread for
as long as somebody fetches them.
"""

import time
from typing import Any, Protocol

from waitress.task import ThreadedTaskDispatcher

#: Requests at a time; more wait in line.
PAGE_THREADS, FILE_THREADS, HEALTH_THREADS = 6, 8, 2
HEALTH_PATHS = frozenset({"/healthz", "/metrics"})
_FILE = "/log/download"


class Task(Protocol):
    """A connection with a request to be answered."""

    @property
    def path(self) -> str:
        """What is asked for."""

    @property
    def is_for_health(self) -> bool:
        """Whether it has one of the places that are kept for questions about health."""

    def service(self) -> None:
        """Answer."""

    def cancel(self) -> None:
        """Leave it."""


class ThreadPools:
    """What waitress hands requests to; `pages` threads serve all but files and health."""

    def __init__(self, pages: int = PAGE_THREADS) -> None:
        self._pages = _pool(pages)
        self._files = _pool(FILE_THREADS)
        self._health = _pool(HEALTH_THREADS)

    def add_task(self, task: Task) -> None:
        """Answer a request, when a thread of its lane is free."""
        if task.is_for_health or task.path in HEALTH_PATHS:
            self._health.add_task(task)
        elif task.path.endswith(_FILE):
            self._files.add_task(task)
        else:
            self._pages.add_task(task)

    def shutdown(self, *, cancel_pending: bool, timeout: float) -> None:
        """Wait this many seconds in total for requests to finish."""
        end_at = time.monotonic() + timeout
        pools = (self._pages, self._files, self._health)
        for lane in pools:
            lane.set_thread_count(0)
        for lane in pools:
            lane.shutdown(cancel_pending, max(0.0, end_at - time.monotonic()))


def _pool(threads: int) -> Any:  # the types of waitress ask for tasks of its own class
    lane = ThreadedTaskDispatcher()
    lane.set_thread_count(threads)
    return lane
