"""An event loop whose clock tests move ahead."""

import asyncio


class MovedLoop(asyncio.SelectorEventLoop):
    """Its time goes on by itself, and by what it `skips` at once."""

    def __init__(self) -> None:
        self._skipped_seconds = 0.0
        super().__init__()

    def time(self) -> float:
        return super().time() + self._skipped_seconds

    def skip(self, seconds: float) -> None:
        """Let so much time have passed, as after a SIGSTOP."""
        self._skipped_seconds += seconds
