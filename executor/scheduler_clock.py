"""The scheduler's clock, as an executor keeps it."""

import time
from collections.abc import Callable

from warren.broker.messages.values import boot_seconds


class SchedulerClock:
    """Epoch milliseconds: by the host's clock until `learn`, then by the scheduler's.

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
        self._began_at_ms = self.steady_ms()

    def now_ms(self) -> int:
        """Return the epoch in milliseconds."""
        return round(self.monotonic() * 1000 + self._offset_ms)

    def host_ms(self) -> int:
        """Return the epoch in milliseconds as the host has it, whatever was learned."""
        return round(self._wall() * 1000)

    def behind_host_seconds(self) -> float:
        """Return how far the time is behind the host's; 0 if it is not."""
        return max(0, self.host_ms() - self.now_ms()) / 1000

    def steady_ms(self) -> int:
        """Return milliseconds that never jump, counted from some moment in the past."""
        return int(self.monotonic() * 1000)

    def learn(self, now_ms: int, *, asked_at_ms: int) -> bool:
        """Take the scheduler's time, which answers a question asked at `asked_at_ms`, steady.

        The scheduler's clock showed `now_ms` at some moment since the question. Our clock stays as
        it is if that fits, otherwise it moves only as far as it must, so a late answer does no
        harm. Returns False, and takes nothing, if this process has not asked at that time.
        """
        steady_ms = self.steady_ms()
        if not self._began_at_ms <= asked_at_ms <= steady_ms:
            return False
        latest_ms = now_ms + steady_ms - asked_at_ms
        own_ms = self.now_ms()
        self._offset_ms += min(max(own_ms, now_ms), latest_ms) - own_ms
        return True
