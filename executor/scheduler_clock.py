"""The scheduler's clock, as an executor keeps it."""

import time
from collections.abc import Callable

#: How long a Welcome may have waited in its queue; within this, the host's own clock is trusted.
WELCOME_AGE_MS = 2_000


def boot_seconds() -> float:
    """Return monotonic seconds that also count while the host is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SchedulerClock:
    """Epoch milliseconds: by the host's clock until `set`, then by the scheduler's.

    `monotonic` returns seconds that never jump, `wall` the host's epoch seconds. Thread-safe.
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

    def host_ms(self) -> int:
        """Return the epoch in milliseconds as the host has it, whatever was set."""
        return round(self._wall() * 1000)

    def set(self, now_ms: int) -> None:
        """Adopt the scheduler's time, which was sent up to WELCOME_AGE_MS ago.

        A Welcome may have waited in its queue, so its time can only be too early: a host clock that
        is ahead by no more than such a wait is more exact.
        """
        wall_ms = self._wall() * 1000
        best_ms = wall_ms if 0 <= wall_ms - now_ms <= WELCOME_AGE_MS else now_ms
        self._offset_ms = best_ms - self.monotonic() * 1000
