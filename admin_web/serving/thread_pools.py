"""The server's threads in separate pools, so that slow requests of one kind do not delay others.

Health checks (`/healthz` and `/metrics`) have their own pool, and so have downloads of logs and
lists, which occupy a thread for as long as the client reads.
"""

import time
from typing import Any, Protocol

from waitress.task import ThreadedTaskDispatcher

from warren.admin_web.downloads.places import is_for_file

#: Requests at a time in each pool; more are queued.
PAGE_THREADS, FILE_THREADS, HEALTH_THREADS = 6, 8, 2
HEALTH_PATHS = frozenset({"/healthz", "/metrics"})


class Task(Protocol):
    """A connection with a request to serve."""

    @property
    def path(self) -> str:
        """The requested path."""

    @property
    def query(self) -> str:
        """What follows the `?` of the URL."""

    @property
    def is_for_health(self) -> bool:
        """Whether its place is reserved for health checks."""

    def service(self) -> None:
        """Serve the request."""

    def cancel(self) -> None:
        """Drop the request."""


class ThreadPools:
    """The dispatcher for waitress; `pages` threads serve all but downloads and health checks."""

    def __init__(self, pages: int = PAGE_THREADS) -> None:
        self._pages = _pool(pages)
        self._files = _pool(FILE_THREADS)
        self._health = _pool(HEALTH_THREADS)

    def add_task(self, task: Task) -> None:
        """Serve a request as soon as a thread of its pool is free."""
        if task.is_for_health or task.path in HEALTH_PATHS:
            self._health.add_task(task)
        elif is_for_file(task.path, task.query):
            self._files.add_task(task)
        else:
            self._pages.add_task(task)

    def shutdown(self, *, cancel_pending: bool, timeout: float) -> None:
        """Wait up to `timeout` seconds in total for requests to finish."""
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
