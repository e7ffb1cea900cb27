"""What people set for apps and routing looks at, read again once a second."""

import time
from collections.abc import Callable

from warren.sql.engine import Database
from warren.sql.registry import apps
from warren.sql.registry.apps import RoutingSettings

#: How long what was read is followed.
READ_SECONDS = 1.0
_NONE = RoutingSettings((), "")


class AppSettings:
    """A cache, for one thread; `clock` is monotonic seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._settings: dict[int, RoutingSettings] = {}
        self._read_at = float("-inf")

    def __call__(self, app_id: int) -> RoutingSettings:
        """Return an app's own list of addresses, and the route of its jobs that name none."""
        now = self._clock()
        if now - self._read_at >= READ_SECONDS:
            self._settings = self._database.read(apps.routing_settings)
            self._read_at = now
        return self._settings.get(app_id, _NONE)
