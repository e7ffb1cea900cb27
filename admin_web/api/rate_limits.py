"""How often a token may call this process, and how many requests of a user run at a time."""

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: The most keys that are remembered; the least recently used is dropped first.
KEPT = 10_000


class RateLimits:
    """A token bucket for each key; thread-safe.

    Args:
        rate: calls per second in the long run.
        burst: calls allowed at once; at least one is.
        clock: monotonic seconds.

    """

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = max(1.0, burst)
        self._clock = clock
        self._lock = threading.Lock()
        #: How many calls each key has left, and when that was computed.
        self._left: OrderedDict[int, tuple[float, float]] = OrderedDict()

    def take(self, key: int) -> float:
        """Count one call and return 0, or return the seconds until the next one is allowed."""
        now = self._clock()
        with self._lock:
            left, at = self._left.pop(key, (self._burst, now))
            left = min(self._burst, left + (now - at) * self._rate)
            wait = 0.0 if left >= 1 else (1 - left) / self._rate
            self._left[key] = (left - 1 if not wait else left, now)
            while len(self._left) > KEPT:
                self._left.popitem(last=False)
        return wait


class ConcurrencyLimits:
    """A limit on concurrent uses, in total and for each key; thread-safe.

    Args:
        total: how many uses are allowed at a time, for all keys together.
        per_key: how many of them one key may have.

    """

    def __init__(self, total: int, per_key: int) -> None:
        self._total = total
        self._per_key = per_key
        self._lock = threading.Lock()
        self._taken: Counter[int] = Counter()

    @contextmanager
    def taken(self, key: int) -> Iterator[bool]:
        """Count one use while the block runs; yield False if the limit is reached."""
        is_taken = self.take(key)
        try:
            yield is_taken
        finally:
            if is_taken:
                self.give_back(key)

    def take(self, key: int) -> bool:
        """Count one use until `give_back`, or return False if the limit is reached."""
        with self._lock:
            if self._taken[key] >= self._per_key or self._taken.total() >= self._total:
                return False
            self._taken[key] += 1
            return True

    def give_back(self, key: int) -> None:
        """End one use that `take` counted."""
        with self._lock:
            self._taken[key] -= 1
            self._taken = +self._taken
