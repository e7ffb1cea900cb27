"""Signals of long-running commands, and the logging of failed threads."""

import os
import select
import signal
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Protocol, Self

import structlog

_ASKED_TO_END = (signal.SIGTERM, signal.SIGINT)
_POLL_SECONDS = 0.25

log = structlog.get_logger()


class Signals:
    """SIGTERM and Ctrl-C, counted: the first asks for a clean shutdown, the second hurries it.

    Created and used in the main thread. Uses a pipe instead of an event, because a handler may
    interrupt code that holds the event's lock.
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
        """Wait for the next signal up to `seconds`; return whether any has arrived so far."""
        if select.select([self._reader], [], [], seconds)[0]:
            os.read(self._reader, 1)
        return self.count > 0

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        with suppress(BlockingIOError):  # the pipe is full, so the reader wakes anyway
            os.write(self._writer, b".")


class Stoppable(Protocol):
    """A process that runs until it ends by itself or is stopped."""

    def join(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the end; return whether it has ended."""

    def stop(self, *, hurry: bool) -> None:
        """Begin to stop; with `hurry`, without waiting for running jobs."""


def serve(process: Stoppable, signals: Signals) -> None:
    """Wait until a process ends; stop it on the first signal, and hurry it on the second."""
    handled = 0
    while not process.join(0):
        signals.wait(_POLL_SECONDS)
        if signals.count > handled:
            handled = signals.count
            process.stop(hurry=handled > 1)


def log_thread_failures() -> None:
    """Log uncaught exceptions of threads instead of printing them."""

    def report(failure: threading.ExceptHookArgs) -> None:
        error: tuple[type[BaseException], BaseException | None, TracebackType | None] = (
            failure.exc_type,
            failure.exc_value,
            failure.exc_traceback,
        )
        name = failure.thread.name if failure.thread else ""
        log.error("thread_failed", thread=name, exc_info=error)

    threading.excepthook = report
