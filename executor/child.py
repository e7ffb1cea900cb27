"""A job process: runs one handler, one run at a time, until it is told to end.

It is forked by the zygote and imports the standard library, the handler side of this package and
`broker.messages`; it never sees a connection, a database or the executor's memory.
"""

import _thread
import atexit
import contextlib
import inspect
import mmap
import os
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from multiprocessing import resource_tracker, util
from typing import Any, NoReturn

from broker.messages import Outcome, Trigger
from executor import frames, linux
from executor.context import JobContext, JobStopped
from executor.failures import describe, describe_hook, text_of
from executor.handlers import Handler
from executor.output import Output
from executor.script_process import run_script
from executor.surroundings import Surroundings
from executor.termination import Phase, Termination, Woken

#: Bytes taken from the channel at a time; a larger buffer would be mapped anew for every read.
_READ_BYTES = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """What the zygote hands to a job process; without a handler it is for a script.

    `kept` are descriptors that the handlers opened while they were imported; `page[index]` becomes
    1 when the process ends clean.
    """

    zygote_pid: int
    channel: int
    handler: Handler | None
    output: Output
    surroundings: Surroundings
    page: mmap.mmap
    index: int
    kept: frozenset[int]


def main(birth: Birth) -> NoReturn:
    """Live the life of a job process; never returns to the zygote's code."""
    os.setsid()
    linux.die_with_parent(birth.zygote_pid)
    linux.become_subreaper()
    linux.set_process_name("warren-job")
    linux.prefer_as_oom_victim()
    _close_others((birth.kept if birth.handler else frozenset()) | {birth.channel})
    channel = socket.socket(fileno=birth.channel)
    if birth.handler is None:
        run_script(channel, birth.output)
        birth.page[birth.index] = True
    else:
        child = Child(birth.handler, birth.output, birth.surroundings, channel)
        child.serve()
        birth.page[birth.index] = child.finish()
    os._exit(0)


def _close_others(kept: frozenset[int]) -> None:
    """Close every inherited descriptor but 0, 1, 2 and those given."""
    edges = (2, *sorted(kept - {0, 1, 2}), os.sysconf("SC_OPEN_MAX"))
    for low, high in pairwise(edges):
        os.closerange(low + 1, high)
    # The tracker's pipe is closed now; a job that shares memory starts a tracker of its own.
    tracker = vars(resource_tracker)["_resource_tracker"]
    tracker._fd = tracker._pid = None  # noqa: SLF001 - there is no public way to forget it


class Child:
    """Takes runs from the channel and answers each with its result."""

    def __init__(
        self,
        handler: Handler,
        output: Output,
        surroundings: Surroundings,
        channel: socket.socket,
    ) -> None:
        self._handler = handler
        self._output = output
        self._surroundings = surroundings
        self._channel = channel
        self._pid = os.getpid()
        self._unread = b""
        self._termination = Termination()
        self._is_ending = False
        self._is_initialised = False
        self._resident_threads = 0

    # -- life ---------------------------------------------------------------------------------

    def serve(self) -> None:
        """Run what comes until the process is to end."""
        self._surroundings.take_signal(signal.SIGINT, signal.default_int_handler)
        self._termination.listen(self._surroundings)
        while not (self._is_ending or self._termination.is_ordered):
            order = self._next_order()
            if not isinstance(order, frames.Run):
                return
            self._is_ending = order.last
            self._send(self._perform(order))

    def finish(self) -> bool:
        """Do what a Python program does at its end; return whether nothing is left running."""
        self._termination.phase = Phase.BETWEEN
        if self._is_initialised and self._handler.destroy is not None:
            self._guard("destroy", self._handler.destroy)
        # In the order of the interpreter's own end. Each may hang; the executor has the clock.
        self._guard("a thread", vars(threading)["_shutdown"])
        self._guard("atexit", vars(atexit)["_run_exitfuncs"])
        self._guard("multiprocessing", vars(util)["_exit_function"])
        self._output.flush()
        self._output.drop_if_silent()
        self._resident_threads = 0
        return not self._has_leftovers()

    def _guard(self, what: str, action: Callable[[], Any]) -> None:
        try:
            self._complete(action())
        except BaseException as error:  # noqa: BLE001 - whatever the user's code raises is told
            self._output.say("ERROR", describe_hook(what, error))

    # -- one run ------------------------------------------------------------------------------

    def _perform(self, order: frames.Run) -> frames.Result:
        self._surroundings.mark(order.trigger.run_id)
        self._output.begin(order.log_path)
        outcome, message = self._attempt(order.trigger)
        if os.getpid() != self._pid:
            self._leave_fork()
        self._surroundings.restore()
        self._is_ending = self._is_ending or self._termination.is_ordered or self._has_leftovers()
        written = self._output.end()
        return frames.Result(
            run_id=order.trigger.run_id,
            outcome=outcome,
            message=message,
            will_end=self._is_ending,
            log_bytes=written.size,
            log_tail=written.tail,
            log_error=written.error,
        )

    def _attempt(self, trigger: Trigger) -> tuple[Outcome, str]:
        """Call the handler. The outer net is for a SIGTERM on the way out; there is one a run."""
        try:
            try:
                self._termination.phase = Phase.RUNNING
                if self._termination.is_ordered:
                    raise JobStopped  # noqa: TRY301 - it came before there was anything to stop
                message = self._call(trigger)
                self._termination.phase = Phase.BETWEEN
            except BaseException as error:  # noqa: BLE001 - whatever a handler raises ends its run only
                self._termination.phase = Phase.BETWEEN
                return self._explain(error)
        except JobStopped as stopped:
            self._termination.phase = Phase.BETWEEN
            return self._explain(stopped)
        return Outcome.SUCCEEDED, message

    def _call(self, trigger: Trigger) -> str:
        if not self._is_initialised:
            if self._handler.init is not None:
                self._complete(self._handler.init())
            self._is_initialised = True
            self._resident_threads = _thread._count()  # noqa: SLF001 - see _has_leftovers
        return text_of(self._complete(self._handler.function(_context_of(trigger))))

    def _explain(self, error: BaseException) -> tuple[Outcome, str]:
        # A process whose init failed must not serve a run that would need it.
        self._is_ending = self._is_ending or not self._is_initialised
        ending = describe(error)
        if ending.log:
            self._output.say("ERROR", ending.log)
        return ending.outcome, ending.message

    def _complete(self, value: Any) -> Any:
        """Return what an `async def` comes to; anything else as it is."""
        if not inspect.isawaitable(value):
            return value
        from executor import coroutines  # noqa: PLC0415 - only a few handlers need asyncio

        return coroutines.run(value, self._termination)

    def _has_leftovers(self) -> bool:
        # The count of _thread knows of threads that threading never heard of. What `init` started
        # belongs to the process, not to a run.
        threads = _thread._count()  # noqa: SLF001 - no public count
        return threads > self._resident_threads or linux.has_living_child()

    def _leave_fork(self) -> NoReturn:
        """End a copy of this process that the handler forked and let return here."""
        with contextlib.suppress(Exception):
            self._output.flush()
        os._exit(0)

    # -- the channel --------------------------------------------------------------------------

    def _next_order(self) -> frames.ToProcess | None:
        """Wait for an order; None when the executor is gone or SIGTERM came."""
        try:
            self._termination.phase = Phase.WAITING
            while not self._termination.is_ordered and b"\n" not in self._unread:
                data = self._channel.recv(_READ_BYTES)
                if not data:
                    return None
                self._unread += data
            self._termination.phase = Phase.BETWEEN
        except (Woken, OSError):
            return None
        line, _, self._unread = self._unread.partition(b"\n")
        return frames.decode_to_process(line) if line else None

    def _send(self, result: frames.Result) -> None:
        try:
            self._channel.sendall(frames.encode_line(result))
        except OSError:
            # The handler closed the channel: the exit without a result will tell.
            self._is_ending = True


def _context_of(trigger: Trigger) -> JobContext:
    return JobContext(
        job_id=trigger.job_id,
        run_id=trigger.run_id,
        attempt=trigger.attempt,
        kind=trigger.kind,
        param=trigger.param,
        shard_index=trigger.shard_index,
        shard_total=trigger.shard_total,
        scheduled_at=datetime.fromtimestamp(trigger.scheduled_at_ms / 1000, UTC),
    )
