"""How often a token may call: a bucket for each, in this process, that fills with time."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

#: Buckets that are kept; what was used last stays.
KEPT = 10_000


class Buckets:
    """One bucket for each key; thread-safe.

    Args:
        rate: how many go in a second.
        at_once: how many go at once after a rest.
        clock: monotonic seconds.

    """

    def __init__(
        self, rate: float, at_once: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._at_once = at_once
        self._clock = clock
        self._lock = threading.Lock()
        #: What each has left, and when that was so.
        self._left: OrderedDict[int, tuple[float, float]] = OrderedDict()

    def take(self, key: int) -> float:
        """Count one call and return 0, or the seconds until one more goes."""
        now = self._clock()
        with self._lock:
            left, at = self._left.pop(key, (self._at_once, now))
            left = min(self._at_once, left + (now - at) * self._rate)
            wait = 0.0 if left >= 1 else (1 - left) / self._rate
            self._left[key] = (left - 1 if not wait else left, now)
            while len(self._left) > KEPT:
                self._left.popitem(last=False)
        return wait
