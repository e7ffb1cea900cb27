"""Monotonic seconds that pass when a test says so."""


class MovedClock:
    """A clock to be called; `now` is moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now
