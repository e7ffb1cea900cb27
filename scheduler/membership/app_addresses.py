"""The lists of addresses that people gave their apps, read again once a second."""

import time
from collections.abc import Callable

from warren.sql.engine import Database
from warren.sql.registry import apps

#: How long a list that was read is followed.
LIST_SECONDS = 1.0


class AppAddresses:
    """A cache, for one thread; `clock` is monotonic seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._lists: dict[int, tuple[str, ...]] = {}
        self._read_at = float("-inf")

    def __call__(self, app_id: int) -> tuple[str, ...]:
        """Return an app's own list in its order; empty = its executors register themselves."""
        now = self._clock()
        if now - self._read_at >= LIST_SECONDS:
            self._lists = self._database.read(apps.listed)
            self._read_at = now
        return self._lists.get(app_id, ())
