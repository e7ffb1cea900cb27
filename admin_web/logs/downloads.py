"""Limits log downloads to one at a time for each user."""

import threading
from collections.abc import Callable
from typing import TypeVar

Piece = TypeVar("Piece")


class Downloads:
    """The downloads in progress; thread-safe."""

    def __init__(self) -> None:
        self._users: set[int] = set()
        self._lock = threading.Lock()
        self._reading = threading.Lock()

    def begin(self, user_id: int) -> bool:
        """Register a download; return False if its user already has one."""
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
        """Read the next piece of a file; only one at a time, as pages need the executors too."""
        with self._reading:
            return read()
