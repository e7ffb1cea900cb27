"""One job process as its executor sees it: its channel, the run it holds, how it is stopped."""

import asyncio
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from broker.messages import Trigger
from executor import frames
from executor.endings import Exit, Stop
from executor.nursery import Nursery

#: Seconds after SIGKILL until a process is given up; longer than a zygote that does not work lives.
STUCK_SECONDS = 20.0
#: Bytes taken from the channel at a time; a larger buffer would be mapped anew for every read.
_READ_BYTES = 16_384


@dataclass(slots=True, eq=False)
class Held:
    """A run in a slot. `started_at_ms` 0: no process has it yet. A script has a `command`."""

    trigger: Trigger
    log_path: str
    command: tuple[str, ...] = ()
    started_at_ms: int = 0
    stop: Stop | None = None
    grace_seconds: float = 0
    result: frames.Result | None = None
    process: "JobProcess | None" = None
    timer: asyncio.TimerHandle | None = None

    @property
    def needs_own_process(self) -> bool:
        """Whether its process serves no other run."""
        return self.trigger.fresh_process or bool(self.command)


class JobProcess:
    """A job process, from the order to fork it until its exit is told."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        nursery: Nursery,
        number: int,
        handler: str | None,
        on_result: Callable[["JobProcess", frames.Result], None],
        on_stuck: Callable[["JobProcess"], None],
    ) -> None:
        self._loop = loop
        self._nursery = nursery
        self._on_result = on_result
        self._on_stuck = on_stuck
        self.number = number
        self.handler = handler
        self.run: Held | None = None
        self.runs_begun = 0
        self.is_ending = False
        self.is_forced = False
        self.idle_since = 0.0
        self._unread = b""
        self._unsent = b""
        self._killer: asyncio.TimerHandle | None = None
        self._is_unread = False
        self.pid = 0
        self._channel, theirs = socket.socketpair()
        self._channel.setblocking(False)
        loop.add_reader(self._channel, self._on_readable)
        nursery.fork(number, handler, theirs)

    @property
    def what(self) -> str:
        """The handler's name, or that it is a script, for people."""
        return "a script" if self.handler is None else self.handler

    # -- work ---------------------------------------------------------------------------------

    def give(self, held: Held, *, last: bool) -> None:
        """Hand a run over; with `last` the process ends after it."""
        self.run = held
        held.process = self
        self.runs_begun += 1
        trigger = held.trigger
        if held.command:
            trigger = msgspec.structs.replace(trigger, script_source="")  # it is in a file
        run = frames.Run(trigger=trigger, log_path=held.log_path, last=last, command=held.command)
        self._send(run)

    def _send(self, frame: frames.ToProcess) -> None:
        data = frames.encode_line(frame)
        if self._unsent:
            self._unsent += data
            return
        try:
            sent = self._channel.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._is_unread = True  # it is dead: its exit will be told
            return
        if sent < len(data):
            self._unsent = data[sent:]
            self._loop.add_writer(self._channel, self._send_more)

    def _send_more(self) -> None:
        try:
            self._unsent = self._unsent[self._channel.send(self._unsent) :]
        except BlockingIOError:
            return
        except OSError:
            self._unsent = b""
        if not self._unsent:
            self._loop.remove_writer(self._channel)

    def _on_readable(self) -> bool:
        """Take what there is; False when there is nothing."""
        try:
            data = self._channel.recv(_READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            # A reset: it was closed before everything in it was read.
            self._is_unread = True
            data = b""
        if not data:
            # No proof of an exit: a job may close what it finds. The zygote tells of exits.
            self._loop.remove_reader(self._channel)
            return False
        self._unread = self._unread + data if self._unread else data
        if self._unread.endswith(b"\n"):
            line, self._unread = self._unread, b""
            self._on_result(self, frames.decode_result(line))
        return True

    # -- the end ------------------------------------------------------------------------------

    def end(self, grace_seconds: float) -> None:
        """Ask a process to end that has nothing to do, and kill it when it does not."""
        self._send(frames.End())
        self.expect_exit(grace_seconds)

    def stop(self, grace_seconds: float) -> None:
        """Send SIGTERM, and SIGKILL after the grace time; the exit will be told."""
        self._nursery.signal(self.number, signal.SIGTERM)
        self._nursery.signal(self.number, signal.SIGCONT)
        self._cancel_killer()
        self.expect_exit(grace_seconds)

    def expect_exit(self, grace_seconds: float) -> None:
        """Kill the process when it is still there after the grace time."""
        self.is_ending = True
        if self._killer is None:
            self._killer = self._loop.call_later(grace_seconds, self._kill)

    @property
    def never_began(self) -> bool:
        """Whether this process, which is closed, died before it had read its run."""
        return self._is_unread and self.run is not None and self.run.result is None

    def close(self) -> None:
        """Let go of a process that is gone; a result that still lies in its channel is taken."""
        self.is_ending = True  # so that the result does not make it idle
        while self._on_readable():
            pass
        self._cancel_killer()
        self._loop.remove_reader(self._channel)
        self._loop.remove_writer(self._channel)
        self._channel.close()

    def describe_exit(
        self, *, code: int = 0, oom: bool = False, survivors: str = "", failure: str = ""
    ) -> Exit:
        """Return how this process went, for the words of its run."""
        return Exit(code=code, forced=self.is_forced, oom=oom, survivors=survivors, failure=failure)

    def _kill(self) -> None:
        self.is_forced = True
        self._nursery.signal(self.number, signal.SIGKILL)
        self._killer = self._loop.call_later(STUCK_SECONDS, self._on_stuck, self)

    def _cancel_killer(self) -> None:
        if self._killer is not None:
            self._killer.cancel()
            self._killer = None
