"""The threads that have been started since some moment and are still alive."""

import threading


class StartedThreads:
    """The threads started since this was created that have not ended."""

    def __init__(self) -> None:
        self._before = set(threading.enumerate())

    def names(self) -> list[str]:
        """Return the names of the threads that are alive."""
        return [thread.name for thread in threading.enumerate() if thread not in self._before]
