"""The channel between a job process and its executor, as the job process sees it.

It tells results, what it gives back, how far a run is and what a run calls; it is told what to run,
that what a run calls is kept, and how that has ended.
"""

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import msgspec

from warren.broker.messages.values import CALLS_LIMIT, PROGRESS_TEXT_LIMIT, CallEnd, Progress
from warren.executor.fork_server import frames
from warren.executor.fork_server.script_process import write_all
from warren.executor.fork_server.termination import BETWEEN, WAITING, Termination, WaitInterrupted
from warren.executor.handlers.context import CallFailed, OnCall, Wait
from warren.executor.handlers.outcomes import clean

#: The shortest time between two reports of a run's progress.
_PROGRESS_SECONDS = 1.0
#: Seconds between two looks whether a called run is over.
_SHORTEST_LOOK, _LONGEST_LOOK = 0.02, 0.5
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
        #: The run that may call, and whether it has.
        self._run_id, self._has_called = 0, False

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
        self._run_id = run_id
        return partial(self._call, run_id, count(1))

    def _call(
        self, run_id: int, numbers: Iterator[int], job: str, params: object, param: str | None
    ) -> Wait:
        from warren.executor.handlers.params import checked  # noqa: PLC0415 - most runs call nobody

        self._check_process()
        name, text = checked(job, params, param)
        with self._calling:
            self._check_run(run_id)
            self._has_called = True
            number = next(numbers)
            if number > CALLS_LIMIT:
                raise ValueError(f"expected at most {CALLS_LIMIT} calls of a run, got: another")
            self._answers.send(frames.Call(run_id=run_id, number=number, job=name, param=text))
            self._await(frames.Kept, run_id, number)
        return partial(self._result, frames.Await(run_id=run_id, number=number, job=name))

    def end_calls(self) -> None:
        """Let no thread that a run has left call or wait for it, and read what comes later."""
        if self._has_called:
            with self._calling:
                self._run_id, self._has_called = 0, False

    def _check_run(self, run_id: int) -> None:
        if run_id != self._run_id:
            raise RuntimeError("expected a run that goes on to call, got: one that is over")

    def _check_process(self) -> None:
        if os.getpid() != self._pid:  # a child of the handler shares the channel
            raise RuntimeError("expected the handler's own process to call, got: a forked one")

    def _result(self, call: frames.Await, timeout: float | None) -> Any:
        """Wait for the run of a call; return its result."""
        from warren.broker.messages.values import result_value  # noqa: PLC0415 - as above

        self._check_process()
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        pause = _SHORTEST_LOOK
        end = None
        try:
            while (end := self._state(call)) is None:
                if (left := deadline - time.monotonic()) <= 0:
                    raise TimeoutError(f"the run of job {call.job} is not over after {timeout} s")
                time.sleep(min(pause, left))
                pause = min(_LONGEST_LOOK, pause * 1.5)
        finally:
            if end is None:
                self._answers.send(msgspec.structs.replace(call, is_over=True))
        if end.is_fine:
            return result_value(end.result)
        words = f"run {end.run_id} of job {call.job} {end.status}"
        words = words if end.run_id else f"the call of job {call.job} was refused"
        raise CallFailed(f"{words}: {end.message}", status=end.status, run_id=end.run_id)

    def _state(self, call: frames.Await) -> CallEnd | None:
        with self._calling:
            self._check_run(call.run_id)
            self._answers.send(call)
            state = self._await(frames.CallState, call.run_id, call.number)
        assert isinstance(state, frames.CallState)
        return state.end

    def _await(
        self, kind: type[frames.Kept | frames.CallState], run_id: int, number: int
    ) -> frames.Kept | frames.CallState:
        while True:
            while b"\n" not in self._unread:
                if self._answers.is_closed or not self._read():
                    raise RuntimeError("expected the executor to keep a call, got: it is gone")
            order = self._take()
            if not isinstance(order, frames.Kept | frames.CallState):
                self._put_by.append(order)
            elif isinstance(order, kind) and (order.run_id, order.number) == (run_id, number):
                return order  # others answer what SIGTERM has interrupted

    def _read(self) -> bool:
        data = os.read(self._channel, _READ_BYTES)
        self._unread += data
        return bool(data)

    def _take(self) -> frames.ToJobProcess:
        line, _, self._unread = self._unread.partition(b"\n")
        order: frames.ToJobProcess = frames.decode_to_job_process(line)
        return order
