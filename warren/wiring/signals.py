"""What long-running commands share: signals as calls, and an end in order."""

import os
import select
import signal
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Self

import structlog

_ASKED_TO_END = (signal.SIGTERM, signal.SIGINT)

log = structlog.get_logger()


class Signals:
    """SIGTERM and Ctrl-C, counted: the first asks for an ordered end, the second hurries it.

    Made and used in the main thread. A pipe and not an event wakes it, because a handler may
    interrupt the event's own lock.
    """

    def __init__(self) -> None:
        self.count = 0
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._note) for number in _ASKED_TO_END}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, seconds: float) -> bool:
        """Wait for the next signal, up to so long; return whether any has come so far."""
        if select.select([self._reader], [], [], seconds)[0]:
            os.read(self._reader, 1)
        return self.count > 0

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        with suppress(BlockingIOError):  # so many are waiting that one more says nothing
            os.write(self._writer, b".")


def log_thread_failures() -> None:
    """Send what a thread dies of to the log instead of the terminal."""

    def report(failure: threading.ExceptHookArgs) -> None:
        error: tuple[type[BaseException], BaseException | None, TracebackType | None] = (
            failure.exc_type,
            failure.exc_value,
            failure.exc_traceback,
        )
        name = failure.thread.name if failure.thread else ""
        log.error("thread_failed", thread=name, exc_info=error)

    threading.excepthook = report
