"""Counts that many requests share for a few seconds."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from sqlalchemy.orm import Session

#: How long a count is used.
FRESH_SECONDS = 5.0
#: The most sets of apps in the cache.
REMEMBERED = 200

Apps = frozenset[int] | None
Counted = TypeVar("Counted")


class CachedCounts(Generic[Counted]):
    """Caches the last count for each set of apps; thread-safe.

    Args:
        count: counts for a set of apps, None = all.
        monotonic: monotonic seconds.

    """

    def __init__(
        self,
        count: Callable[[Session, Apps], Counted],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._count = count
        self._monotonic = monotonic
        self._known: dict[Apps, tuple[float, Counted]] = {}
        self._lock = threading.Lock()

    def of(self, session: Session, app_ids: Apps) -> Counted:
        """Return the count for a set of apps; at most FRESH_SECONDS old."""
        # Under the lock, so that only one of many simultaneous requests counts.
        with self._lock:
            now = self._monotonic()
            known = self._known.get(app_ids)
            if known is not None and now - known[0] < FRESH_SECONDS:
                return known[1]
            counted = self._count(session, app_ids)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[app_ids] = now, counted
            return counted
