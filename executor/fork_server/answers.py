"""What a job process sends to the executor: results, runs that it gives back, progress."""

import os
import threading
import time
from collections.abc import Callable

from warren.broker.messages.values import PROGRESS_TEXT_LIMIT, Progress
from warren.executor.fork_server import frames
from warren.executor.fork_server.script_process import write_all
from warren.executor.handlers.outcomes import clean

#: The shortest time between two reports of a run's progress.
_PROGRESS_SECONDS = 1.0


class Answers:
    """Writes answers to the channel, one after the other, whichever thread they come from.

    `is_closed` is True once the handler has closed the channel: the executor then sees an exit
    without a result.
    """

    def __init__(self, channel: int) -> None:
        self._channel = channel
        self._pid = os.getpid()
        self._writing = threading.Lock()
        self.is_closed = False

    def send(self, answer: frames.FromJobProcess) -> None:
        """Write an answer whole; a long one takes several writes."""
        try:
            with self._writing:
                write_all(self._channel, frames.encode_answer(answer))
        except OSError:
            self.is_closed = True

    def progress_of(self, run_id: int) -> Callable[[float, float | None, str], None]:
        """Return what reports a run's progress, up to once a second; any thread may call it."""
        told_at, lock = -_PROGRESS_SECONDS, threading.Lock()

        def tell(done: float, total: float | None, text: str) -> None:
            nonlocal told_at
            if os.getpid() != self._pid:  # a child of the handler, with locks as they were
                return
            with lock:
                now = time.monotonic()
                if now - told_at < _PROGRESS_SECONDS:
                    return
                told_at = now
                words = clean(" ".join(text.split()))[:PROGRESS_TEXT_LIMIT]
                progress = Progress(done=done, total=total, text=words)
                self.send(frames.Told(run_id=run_id, progress=progress))

        return tell
