"""The scheduler's time, as an executor knows it."""

import time
from collections.abc import Callable

#: A Welcome may have lain in its queue this long; within it the host's own clock is believed.
WELCOME_AGE_MS = 2_000


def boot_seconds() -> float:
    """Return seconds that pass steadily, also while the host sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SchedulerClock:
    """Epoch milliseconds by the scheduler's clock: the host's own until `set`, steady after.

    `monotonic` gives seconds that never jump, `wall` the host's epoch seconds. Thread-safe.
    """

    def __init__(
        self,
        *,
        monotonic: Callable[[], float] = boot_seconds,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.monotonic = monotonic
        self._wall = wall
        self._offset_ms = wall() * 1000 - monotonic() * 1000

    def now_ms(self) -> int:
        """Return the epoch in milliseconds."""
        return round(self.monotonic() * 1000 + self._offset_ms)

    def set(self, now_ms: int) -> None:
        """Take over the scheduler's time, said up to WELCOME_AGE_MS ago.

        A Welcome may have waited for this executor to find its queue, so that it can only be too
        old: a host clock that is ahead by no more than such a wait is the better one.
        """
        wall_ms = self._wall() * 1000
        best_ms = wall_ms if 0 <= wall_ms - now_ms <= WELCOME_AGE_MS else now_ms
        self._offset_ms = best_ms - self.monotonic() * 1000
