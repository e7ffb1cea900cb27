"""Keeps a zygote alive and speaks to it, from the executor's side.

When the zygote dies, its job processes die with it (parent-death signal) and become children of
this process, with all that they started. They are killed and reaped before anybody is told.
"""

import array
import asyncio
import contextlib
import multiprocessing
import os
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker, util
from multiprocessing.context import SpawnProcess

import structlog

from executor import frames, linux, zygote
from executor.handlers import HandlersError
from executor.strangers import kill_and_reap

#: Seconds before a dead zygote is replaced: at first, and at most.
BACKOFF_SECONDS = (0.1, 10.0)
#: A zygote that lived this long was a good one: the next backoff starts from the beginning.
GOOD_LIFE_SECONDS = 60.0
#: A zygote is asked this often whether it works, and killed after this long without an answer.
PING_SECONDS, SILENCE_SECONDS = 3.0, 12.0
#: Seconds between two looks for orphans of a dead zygote that were killed and are not gone yet.
_LOOK_SECONDS = 0.005

_HANDLERS_ENDED = "the process that imports the handlers ended with exit code {}"


@dataclass(slots=True)
class _Zygote:
    process: SpawnProcess
    pidfd: int
    control: socket.socket
    born_ticks: int
    since: float
    last_word: float


class Nursery:
    """The zygote of one executor. Used from the thread of its event loop."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        sources: Sequence[str],
        on_ready: Callable[[], None],
        on_forked: Callable[[frames.Forked], None],
        on_exited: Callable[[frames.Exited], None],
        on_died: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._sources = tuple(sources)
        self._on_ready = on_ready
        self._on_forked = on_forked
        self._on_exited = on_exited
        self._on_died = on_died
        self._log = structlog.get_logger()
        self._zygote: _Zygote | None = None
        self._pidfds: dict[int, int] = {}
        self._unsent: deque[tuple[bytes, socket.socket | None]] = deque()
        self._names: list[str] = []
        self._backoff = BACKOFF_SECONDS[0]
        self._pinged_at = 0.0
        self._on_closed: Callable[[], None] | None = None
        self.handlers: tuple[str, ...] = ()
        self.is_ready = False
        self.error = ""

    # -- for the slots ------------------------------------------------------------------------

    def open(self) -> None:
        """Start the zygote and wait until it has the handlers.

        Raises:
            HandlersError: they cannot be loaded.

        """
        linux.become_subreaper()
        born = self._spawn()
        try:
            self._await_names(born)
        except BaseException:
            born.process.kill()  # it may still be importing, and be waited for at our own end
            self._discard(born)
            raise
        self._listen(born)

    def fork(self, number: int, handler: str, channel: socket.socket) -> None:
        """Ask for job process `number`; `on_forked` or `on_exited` answers. Closes `channel`."""
        self._send(frames.encode(frames.Fork(number=number, handler=handler)), channel)

    def signal(self, number: int, number_of_signal: int) -> None:
        """Send a signal to a job process and its group; none when it is gone already."""
        self._send(frames.encode(frames.Signal(number=number, signal=number_of_signal)), None)

    def watch(self) -> None:
        """Kill a zygote that does not work any more. Called every now and then."""
        born = self._zygote
        if born is None or not self.is_ready:
            return
        now = time.monotonic()
        if self._pinged_at > born.last_word and now - self._pinged_at > SILENCE_SECONDS:
            self._log.error("zygote_hung", pid=born.process.pid)
            signal.pidfd_send_signal(born.pidfd, signal.SIGKILL)
        elif self._pinged_at <= born.last_word and now - born.last_word > PING_SECONDS:
            self._pinged_at = now
            self._send(frames.encode(frames.Ping()), None)

    def close(self, on_closed: Callable[[], None]) -> None:
        """End the zygote with all that is left of it, then call `on_closed`."""
        self._on_closed = on_closed
        self.is_ready = False
        if self._zygote is None:
            self._loop.call_soon(on_closed)
        else:
            _hang_up(self._zygote.control)

    # -- a zygote's life ----------------------------------------------------------------------

    def _spawn(self) -> _Zygote:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        process = multiprocessing.get_context("spawn").Process(
            target=zygote.main, args=(theirs, self._sources), name="warren-zygote"
        )
        # The tracker lifts the mask when it starts, so it goes first. The zygote inherits the
        # mask: a Ctrl-C at the terminal must not hit it before it has left our session.
        resource_tracker.ensure_running()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            theirs.close()
        assert process.pid is not None
        row = linux.process_row(process.pid)
        self._zygote = _Zygote(
            process=process,
            pidfd=os.pidfd_open(process.pid),
            control=ours,
            born_ticks=row.started if row else 0,
            since=time.monotonic(),
            last_word=time.monotonic(),
        )
        self._names = []
        # An interpreter that ends without `close` joins its children: this lets the zygote end.
        util.Finalize(None, _hang_up, args=(ours,), exitpriority=10)
        return self._zygote

    def _listen(self, born: _Zygote) -> None:
        self._loop.add_reader(born.control, self._on_frames, born)
        self._loop.add_reader(born.pidfd, self._on_death, born)

    def _await_names(self, born: _Zygote) -> None:
        poll = select.poll()
        poll.register(born.control, select.POLLIN)
        poll.register(born.pidfd, select.POLLIN)
        while not self.is_ready:
            poll.poll()
            frame = self._receive(born)
            if not isinstance(frame, frames.Names):
                born.process.join()
                raise _load_error(frame, born.process.exitcode)
            self._take_names(frame)

    def _take_names(self, frame: frames.Names) -> None:
        self._names.extend(frame.names)
        if frame.last:
            self.handlers = tuple(self._names)
            self.is_ready = True
            born = self._zygote
            self._log.info(
                "zygote_started",
                pid=born.process.pid if born else 0,
                handlers=len(self.handlers),
            )

    def _on_death(self, born: _Zygote) -> None:
        """End what a dead zygote leaves, then tell of its death."""
        self._on_frames(born)  # what it said last counts
        was_ready = self.is_ready
        self._discard(born)
        for pidfd in self._pidfds.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        if self._on_closed is None:
            self._log.error(
                "zygote_died", exit_code=born.process.exitcode, was_ready=was_ready, why=self.error
            )
            if time.monotonic() - born.since > GOOD_LIFE_SECONDS:
                self._backoff = BACKOFF_SECONDS[0]
        deadline = time.monotonic() + zygote.SURVIVOR_SECONDS
        self._end_orphans(born.born_ticks, deadline)

    def _end_orphans(self, born_ticks: int, deadline: float) -> None:
        orphans = _orphans(born_ticks)
        kill_and_reap(orphans)
        if orphans and time.monotonic() < deadline:
            self._loop.call_later(_LOOK_SECONDS, self._end_orphans, born_ticks, deadline)
            return
        for pidfd in self._pidfds.values():
            os.close(pidfd)
        self._pidfds.clear()
        if self._on_closed is not None:
            self._on_closed()
            return
        self._on_died(", ".join(f"{row.name} (pid {row.pid})" for row in orphans[:5]))
        self._loop.call_later(self._backoff, self._restart)
        self._backoff = min(self._backoff * 2, BACKOFF_SECONDS[1])

    def _restart(self) -> None:
        if self._on_closed is not None:
            return
        try:
            self._listen(self._spawn())
        except OSError as error:
            self._log.exception("zygote_start_failed", why=str(error))
            self._loop.call_later(self._backoff, self._restart)

    def _discard(self, born: _Zygote) -> None:
        """Let go of a zygote that is dead or will end at once."""
        self.is_ready = False
        self._loop.remove_reader(born.control)
        self._loop.remove_writer(born.control)
        self._loop.remove_reader(born.pidfd)
        born.control.close()
        born.process.join()
        os.close(born.pidfd)
        for _, channel in self._unsent:
            if channel is not None:
                channel.close()
        self._unsent.clear()
        self._zygote = None

    # -- frames -------------------------------------------------------------------------------

    def _on_frames(self, born: _Zygote) -> None:
        while (frame := self._receive(born)) is not None:
            self._take(frame)

    def _receive(self, born: _Zygote) -> frames.FromZygote | None:
        """Return the next frame; None when there is none now, or never again."""
        try:
            data, ancillary, _, _ = born.control.recvmsg(
                2 * frames.PACKET_LIMIT, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC
            )
        except (BlockingIOError, ConnectionResetError):
            return None
        except OSError:
            return None
        if not data:
            self._loop.remove_reader(born.control)  # its pidfd tells the rest
            return None
        born.last_word = time.monotonic()
        frame: frames.FromZygote = frames.decode_from_zygote(data)
        if isinstance(frame, frames.Forked):
            self._pidfds[frame.number] = int.from_bytes(ancillary[0][2][:4], "little")
        return frame

    def _take(self, frame: frames.FromZygote) -> None:
        if isinstance(frame, frames.Forked):
            self._on_forked(frame)
        elif isinstance(frame, frames.Exited):
            pidfd = self._pidfds.pop(frame.number, None)
            if pidfd is not None:
                os.close(pidfd)
            self._on_exited(frame)
        elif isinstance(frame, frames.Names):
            self._take_names(frame)
            if self.is_ready:
                self.error = ""
                self._on_ready()
        elif isinstance(frame, frames.Unloadable):
            self.error = frame.line

    def _send(self, data: bytes, channel: socket.socket | None) -> None:
        self._unsent.append((data, channel))
        self._send_more()

    def _send_more(self) -> None:
        born = self._zygote
        while born is not None and self._unsent:
            data, channel = self._unsent[0]
            fds = [] if channel is None else [channel.fileno()]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            try:
                born.control.sendmsg([data], rights)
            except BlockingIOError:
                self._loop.add_writer(born.control, self._send_more)
                return
            except OSError:
                return  # it is dead: its pidfd tells, and what is unsent is let go then
            self._unsent.popleft()
            if channel is not None:
                channel.close()
        if born is not None:
            self._loop.remove_writer(born.control)


def _orphans(born_ticks: int) -> list[linux.ProcessRow]:
    """Return our children that a dead zygote must have left: younger, unknown, of other sessions.

    Several executors may be threads of this process: their zygotes are known to multiprocessing.
    """
    known = {process.pid for process in multiprocessing.active_children()}
    session = os.getsid(0)
    return [
        row
        for row in linux.children_of(os.getpid())
        if row.pid not in known and row.session != session and row.started >= born_ticks
    ]


def _hang_up(control: socket.socket) -> None:
    """Let the zygote read the end of file."""
    with contextlib.suppress(OSError):
        control.shutdown(socket.SHUT_RDWR)


def _load_error(frame: frames.FromZygote | None, exit_code: int | None) -> HandlersError:
    if isinstance(frame, frames.Unloadable):
        return HandlersError(frame.line, frame.traceback)
    return HandlersError(_HANDLERS_ENDED.format(exit_code))
