"""Log downloads under way: one at a time for each user."""

import threading
from collections.abc import Callable
from typing import TypeVar

Piece = TypeVar("Piece")


class Downloads:
    """The downloads under way; safe to share between threads."""

    def __init__(self) -> None:
        self._users: set[int] = set()
        self._lock = threading.Lock()
        self._reading = threading.Lock()

    def begin(self, user_id: int) -> bool:
        """Count a download, unless its user has one under way."""
        with self._lock:
            if user_id in self._users:
                return False
            self._users.add(user_id)
            return True

    def end(self, user_id: int) -> None:
        """Let the user download again."""
        with self._lock:
            self._users.discard(user_id)

    def piece(self, read: Callable[[], Piece]) -> Piece:
        """Read the next piece of a file, one of them at a time: pages ask executors too."""
        with self._reading:
            return read()
