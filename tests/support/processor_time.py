"""The processor time of a function in this thread, independent of other load."""

import time
from collections.abc import Callable

_TIMES = 5


def least_seconds(act: Callable[[], object]) -> float:
    """Return the smallest processor time of a few repetitions.

    Beside other work the same instructions take longer: caches are cold, and cores are shared.
    """
    return min(_seconds(act) for _ in range(_TIMES))


def _seconds(act: Callable[[], object]) -> float:
    began = time.thread_time()
    act()
    return time.thread_time() - began
