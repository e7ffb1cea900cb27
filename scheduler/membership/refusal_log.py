"""Logs executors that are refused: once a minute per app, for a bounded number of apps."""

import time
from collections.abc import Callable

import structlog

AGAIN_SECONDS = 60.0
#: Apps remembered at most; only holders of an app's key can appear under its name.
APPS = 1_000

log = structlog.get_logger()


class RefusalLog:
    """Logs executors that are not welcome. `clock` is monotonic. For one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._noted_at: dict[str, float] = {}

    def note(self, app: str, address: str, reason: str) -> None:
        """Log a refused executor, unless its app was logged lately."""
        now = self._clock()
        if now - self._noted_at.get(app, float("-inf")) < AGAIN_SECONDS:
            return
        if len(self._noted_at) >= APPS:
            self._noted_at.clear()
        self._noted_at[app] = now
        log.warning("executor_not_welcomed", app=app, address=address, reason=reason)
