"""The channel between a job process and its executor, as the job process sees it.

It tells results, what it gives back, how far a run is and what a run calls; it is told what to run,
and that what a run calls is kept.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

from warren.broker.messages.values import CALLS_LIMIT, PROGRESS_TEXT_LIMIT, Progress
from warren.executor.fork_server import frames
from warren.executor.fork_server.script_process import write_all
from warren.executor.fork_server.termination import BETWEEN, WAITING, Termination, WaitInterrupted
from warren.executor.handlers.context import OnCall
from warren.executor.handlers.outcomes import clean

#: The shortest time between two reports of a run's progress.
_PROGRESS_SECONDS = 1.0
#: Bytes taken from the channel at a time; a larger buffer would be mapped anew for every read.
_READ_BYTES = 16_384


class Answers:
    """Writes answers to the channel, one after the other, whichever thread they come from.

    `is_closed` is True once the handler has closed the channel: the executor then sees an exit
    without a result.
    """

    def __init__(self, channel: int) -> None:
        self._channel = channel
        self._pid = os.getpid()
        self._writing, self._telling = threading.Lock(), threading.Lock()
        self._told_at = 0.0
        self.is_closed = False

    def send(self, answer: frames.FromJobProcess) -> None:
        """Write an answer whole; a long one takes several writes."""
        try:
            with self._writing:
                write_all(self._channel, frames.encode_answer(answer))
        except OSError:
            self.is_closed = True

    def progress_of(self, run_id: int) -> Callable[[float, float | None, str], None]:
        """Return what reports a run's progress, once a second at most; any thread may call it."""
        self._told_at = -_PROGRESS_SECONDS
        return partial(self._tell, run_id)

    def _tell(self, run_id: int, done: float, total: float | None, text: str) -> None:
        if os.getpid() != self._pid:  # a child of the handler, with locks as they were
            return
        with self._telling:
            now = time.monotonic()
            if now - self._told_at < _PROGRESS_SECONDS:
                return
            self._told_at = now
            words = clean(" ".join(text.split()))[:PROGRESS_TEXT_LIMIT]
            progress = Progress(done=done, total=total, text=words)
            self.send(frames.Told(run_id=run_id, progress=progress))


class Orders:
    """Reads the channel of a job process.

    A run that waits until its call is kept may meet orders for later runs, which are put by.
    """

    def __init__(self, channel: int, answers: Answers, termination: Termination) -> None:
        self._channel = channel
        self._answers = answers
        self._termination = termination
        self._pid = os.getpid()
        self._unread = b""
        self._put_by: deque[frames.ToJobProcess] = deque()
        self._calling = threading.Lock()

    def next(self) -> frames.ToJobProcess | None:
        """Wait for an order; return None when the executor is gone or SIGTERM arrived."""
        if self._put_by:
            return None if self._termination.is_requested else self._put_by.popleft()
        try:
            self._termination.phase = WAITING
            while not self._termination.is_requested and b"\n" not in self._unread:
                if not self._read():
                    return None
            self._termination.phase = BETWEEN
        except (WaitInterrupted, OSError):
            return None
        return self._take() if b"\n" in self._unread else None

    def call_of(self, run_id: int) -> OnCall:
        """Return what sends a run's calls, and waits until each is kept; any thread may call it."""
        return partial(self._call, run_id, count(1))

    def _call(
        self, run_id: int, numbers: Iterator[int], job: str, params: object, param: str | None
    ) -> None:
        from warren.executor.handlers.params import checked  # noqa: PLC0415 - most runs call nobody

        if os.getpid() != self._pid:  # a child of the handler shares the channel
            raise RuntimeError("expected the handler's own process to call, got: a forked one")
        name, text = checked(job, params, param)
        with self._calling:
            number = next(numbers)
            if number > CALLS_LIMIT:
                raise ValueError(f"expected at most {CALLS_LIMIT} calls of a run, got: another")
            self._answers.send(frames.Call(run_id=run_id, number=number, job=name, param=text))
            self._await(frames.Kept(run_id=run_id, number=number))

    def _await(self, kept: frames.Kept) -> None:
        while True:
            while b"\n" not in self._unread:
                if self._answers.is_closed or not self._read():
                    raise RuntimeError("expected the executor to keep a call, got: it is gone")
            order = self._take()
            if order == kept:
                return
            if not isinstance(order, frames.Kept):  # or that of a call that SIGTERM interrupted
                self._put_by.append(order)

    def _read(self) -> bool:
        data = os.read(self._channel, _READ_BYTES)
        self._unread += data
        return bool(data)

    def _take(self) -> frames.ToJobProcess:
        line, _, self._unread = self._unread.partition(b"\n")
        order: frames.ToJobProcess = frames.decode_to_job_process(line)
        return order
