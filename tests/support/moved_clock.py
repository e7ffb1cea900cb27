"""Monotonic clocks that tests set or advance."""

import time


class MovedClock:
    """A callable clock that stands still; `now` is set by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class AdvancedClock:
    """A callable clock that runs, and that tests can advance."""

    def __init__(self) -> None:
        self._ahead_seconds = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self._ahead_seconds

    def advance(self, seconds: float) -> None:
        self._ahead_seconds += seconds
