"""Counts events of this process by name; thread-safe."""

import threading
from collections import Counter


class Counters:
    """Numbers that only grow."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter."""
        with self._lock:
            self._counts[name] += by

    def all(self) -> dict[str, int]:
        """Return all counters by name."""
        with self._lock:
            return dict(self._counts)

    def __getitem__(self, name: str) -> int:
        """Return the value of a counter; 0 if it was never counted."""
        with self._lock:
            return self._counts[name]
