"""A lock that threads get in the order in which they requested it."""

import threading
from collections import deque


class FairLock:
    """A first-come, first-served lock; `threading.Lock` picks any waiting thread.

    A thread that releases it and requests it again queues behind those that already wait.
    """

    def __init__(self) -> None:
        self._door = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    @property
    def waiting(self) -> int:
        """How many threads wait for it."""
        return len(self._waiting)

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
