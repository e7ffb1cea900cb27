"""A monotonic clock that tests set."""


class MovedClock:
    """A callable clock; `now` is set by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now
