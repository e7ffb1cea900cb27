"""One job process as its executor sees it: its channel, its current run, how it is stopped."""

import asyncio
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from broker.messages import Trigger
from broker.reasons.codes import Why
from broker.reasons.reason import Reason, Words
from executor.fork_server import frames
from executor.processes.endings import Exit, Stop
from executor.processes.supervisor import ForkServerSupervisor

#: Seconds after SIGKILL until a process is given up; longer than an unresponsive zygote may live.
STUCK_SECONDS = 20.0
#: Seconds until SIGCONT is sent again after SIGTERM, and how many times as long each next time.
NUDGE_SECONDS = 0.1
NUDGE_FACTOR = 3
#: Bytes taken from the channel at a time; a larger buffer would be mapped anew for every read.
_READ_BYTES = 16_384
#: How much of an invalid result is shown, in bytes.
_SHOWN_BYTES = 60


class Owner(NamedTuple):
    """The job that a process serves. With another handler the job gets other processes."""

    job_id: int
    handler: str


@dataclass(slots=True, eq=False)
class SlotRun:
    """A run in a slot. `started_at_ms` is 0 until a process has it. A script has a `command`."""

    trigger: Trigger
    log_path: str
    log_reserve: int = 0
    command: tuple[str, ...] = ()
    started_at_ms: int = 0
    stop: Stop | None = None
    grace_seconds: float = 0
    result: frames.Result | None = None
    process: "JobProcess | None" = None
    timer: asyncio.TimerHandle | None = None

    @property
    def owner(self) -> Owner | None:
        """The job that its process serves; None for a script."""
        return None if self.command else Owner(self.trigger.job_id, self.trigger.handler)

    @property
    def needs_own_process(self) -> bool:
        """Whether its process serves no other run."""
        return bool(self.trigger.fresh_process) or self.owner is None


class JobProcess:
    """A job process, from the request to fork it until its exit is reported.

    `owner` is None for a script. `on_result` is called with each result, `on_misuse(self, why)`
    when something else arrives on the channel, which is not read any more then; `on_stuck` when
    SIGKILL does not end the process.
    """

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        supervisor: ForkServerSupervisor,
        number: int,
        owner: Owner | None,
        on_result: Callable[["JobProcess", frames.Result], None],
        on_misuse: Callable[["JobProcess", Reason], None],
        on_stuck: Callable[["JobProcess"], None],
    ) -> None:
        self._loop = loop
        self._supervisor = supervisor
        self._on_result = on_result
        self._on_misuse = on_misuse
        self._on_stuck = on_stuck
        self.number = number
        self.owner = owner
        self.run: SlotRun | None = None
        self.runs_begun = 0
        self.is_ending = False
        self.is_forced = False
        self.idle_since = 0.0
        self._unread = b""
        self._unsent = b""
        self._kill_timer: asyncio.TimerHandle | None = None
        self._nudge_timer: asyncio.TimerHandle | None = None
        self._left_input_unread = False
        self._is_misused = False
        self.pid = 0
        self._channel, theirs = socket.socketpair()
        self._channel.setblocking(False)
        loop.add_reader(self._channel, self._on_readable)
        supervisor.fork(number, None if owner is None else owner.handler, theirs)

    @property
    def what(self) -> str:
        """The handler's name, or "a script", for people."""
        return "a script" if self.owner is None else self.owner.handler

    # -- work ---------------------------------------------------------------------------------

    def give(self, run: SlotRun, *, last: bool) -> None:
        """Hand over a run; if it is the `last`, the process exits after it."""
        self.run = run
        run.process = self
        self.runs_begun += 1
        trigger = run.trigger
        if run.command:
            trigger = msgspec.structs.replace(trigger, script_source="")  # the file has it
        order = frames.Run(
            trigger=trigger,
            log_path=run.log_path,
            last=last,
            log_reserve=run.log_reserve,
            command=run.command,
        )
        self._send(order)

    def _send(self, frame: frames.ToJobProcess) -> None:
        data = frames.encode_line(frame)
        if self._unsent:
            self._unsent += data
            return
        try:
            sent = self._channel.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._left_input_unread = True  # it is dead: its exit will be reported
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
        """Read what is there; return False when there is nothing."""
        try:
            data = self._channel.recv(_READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            # A reset: the process closed the channel before it had read everything.
            self._left_input_unread = True
            data = b""
        if not data:
            # No proof of an exit: a job may close any descriptor. The zygote reports exits.
            self._loop.remove_reader(self._channel)
            return False
        if not self._is_misused:
            self._unread = self._unread + data if self._unread else data
            self._take_result()
        return True

    def _take_result(self) -> None:
        data = self._unread
        try:
            result = frames.take_result(data)
        except frames.InvalidResult:
            self._is_misused = True
            self._unread = b""
            self._loop.remove_reader(self._channel)
            self._on_misuse(self, Why.CHANNEL_MISUSED(data=repr(data[:_SHOWN_BYTES])))
            return
        if result is not None:
            self._unread = b""
            self._on_result(self, result)

    # -- the end ------------------------------------------------------------------------------

    def end(self, grace_seconds: float) -> None:
        """Ask an idle process to exit, and kill it if it does not."""
        self._send(frames.End())
        self.expect_exit(grace_seconds)

    def stop(self, grace_seconds: float) -> None:
        """Send SIGTERM, and SIGKILL after the grace time; the exit will be reported."""
        self._supervisor.signal(self.number, signal.SIGTERM)
        self._nudge(NUDGE_SECONDS)
        self._cancel_kill_timer()
        self.expect_exit(grace_seconds)

    def _nudge(self, again_seconds: float) -> None:
        """Let the process notice SIGTERM: if it is stopped, or just began a system call."""
        self._supervisor.signal(self.number, signal.SIGCONT)
        self._cancel_nudge()
        self._nudge_timer = self._loop.call_later(
            again_seconds, self._nudge, again_seconds * NUDGE_FACTOR
        )

    def expect_exit(self, grace_seconds: float) -> None:
        """Kill the process if it still exists after the grace time."""
        self.is_ending = True
        if self._kill_timer is None:
            self._kill_timer = self._loop.call_later(grace_seconds, self._kill)

    @property
    def died_unread(self) -> bool:
        """Whether this process, now closed, died before it had read its run."""
        return self._left_input_unread and self.run is not None and self.run.result is None

    def close(self) -> None:
        """Release a process that is gone, after reading a result that is left in its channel."""
        self.is_ending = True  # so that this result does not make it idle
        while self._on_readable():
            pass
        self._cancel_kill_timer()
        self._cancel_nudge()
        self._loop.remove_reader(self._channel)
        self._loop.remove_writer(self._channel)
        self._channel.close()

    def describe_exit(
        self,
        *,
        code: int = 0,
        oom: bool = False,
        survivors: str = "",
        failure: Words | None = None,
    ) -> Exit:
        """Return how this process ended, for the message of its run."""
        return Exit(code=code, forced=self.is_forced, oom=oom, survivors=survivors, failure=failure)

    def _kill(self) -> None:
        self.is_forced = True
        self._supervisor.signal(self.number, signal.SIGKILL)
        self._kill_timer = self._loop.call_later(STUCK_SECONDS, self._on_stuck, self)

    def _cancel_kill_timer(self) -> None:
        if self._kill_timer is not None:
            self._kill_timer.cancel()
            self._kill_timer = None

    def _cancel_nudge(self) -> None:
        if self._nudge_timer is not None:
            self._nudge_timer.cancel()
            self._nudge_timer = None
