"""A lock that is handed on in the order in which threads asked for it."""

import threading
from collections import deque


class FairLock:
    """Lets one thread in at a time, in order; with `threading.Lock` the next one is random.

    A thread that leaves and comes back at once queues behind those that waited.
    """

    def __init__(self) -> None:
        self._door = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        with self._door:
            if not self._taken:
                self._taken = True
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        mine.acquire()

    def __exit__(self, *_error: object) -> None:
        with self._door:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False
