"""Receivers that fail slowly are skipped for a while, so that others get their alarms."""

import threading
import time
from collections.abc import Callable

#: A failure that takes this long blocks a thread that others need.
SLOW_SECONDS = 2.0
LEFT_ALONE_SECONDS = 60.0


class SlowTargets:
    """Remembers slow receivers for all sending threads; thread-safe.

    Args:
        clock: monotonic seconds.

    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._until: dict[str, float] = {}

    def note_failure(self, target_hash: str, *, began: float) -> None:
        """Record that sending to a target, begun at `began`, has just failed."""
        now = self.clock()
        if now - began >= SLOW_SECONDS:
            with self._lock:
                self._until[target_hash] = now + LEFT_ALONE_SECONDS

    def left_alone(self) -> frozenset[str]:
        """Return the targets that are skipped for now."""
        now = self.clock()
        with self._lock:
            self._until = {target: until for target, until in self._until.items() if until > now}
            return frozenset(self._until)
