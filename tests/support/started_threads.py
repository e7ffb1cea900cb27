"""The threads that are alive and were not before."""

import threading


class StartedThreads:
    """What has been started since this was made, and has not ended."""

    def __init__(self) -> None:
        self._before = set(threading.enumerate())

    def names(self) -> list[str]:
        """Return the names of the threads that are alive."""
        return [thread.name for thread in threading.enumerate() if thread not in self._before]
