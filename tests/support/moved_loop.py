"""An event loop whose clock tests can advance."""

import asyncio


class MovedLoop(asyncio.SelectorEventLoop):
    """Its time runs by itself, and jumps by `skip`."""

    def __init__(self) -> None:
        self._skipped_seconds = 0.0
        super().__init__()

    def time(self) -> float:
        return super().time() + self._skipped_seconds

    def skip(self, seconds: float) -> None:
        """Advance the clock by this much, as after a SIGSTOP."""
        self._skipped_seconds += seconds
