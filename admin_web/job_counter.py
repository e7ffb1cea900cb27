"""How many jobs there are, counted seldom: with 100,000 of them it takes a while."""

import threading
import time
from collections.abc import Callable

from sqlalchemy.orm import Session

from sql import dashboard

#: A count is shown for so long.
FRESH_SECONDS = 5.0
#: Sets of apps that are remembered at a time.
REMEMBERED = 200

Apps = frozenset[int] | None


class JobCounter:
    """Remembers the last count of each set of apps; safe to share between threads."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._known: dict[Apps, tuple[float, tuple[int, int]]] = {}
        self._lock = threading.Lock()

    def of(self, session: Session, app_ids: Apps) -> tuple[int, int]:
        """Return how many jobs apps have, and how many of them are enabled; 5 s old at most."""
        # Under the lock, so that of many who look at once one counts.
        with self._lock:
            now = self._monotonic()
            counted_at, counts = self._known.get(app_ids, (float("-inf"), (0, 0)))
            if now - counted_at < FRESH_SECONDS:
                return counts
            counts = dashboard.job_counts(session, app_ids)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[app_ids] = now, counts
            return counts
