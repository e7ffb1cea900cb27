"""One zygote as its executor sees it: its process, its pidfd, the control socket to it."""

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
from multiprocessing import resource_tracker, util
from multiprocessing.context import SpawnProcess

from executor import frames, linux, zygote


class ZygoteLink:
    """A zygote, from its start to its burial. Used from the thread of the event loop.

    `since` and `last_word` are by the monotonic clock, `born_ticks` as in `linux.ProcessRow`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, sources: Sequence[str]) -> None:
        self._loop = loop
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        self._process = _spawn(theirs, sources)
        assert self._process.pid is not None
        self.pid = self._process.pid
        self._pidfd = os.pidfd_open(self.pid)
        row = linux.process_row(self.pid)
        self.born_ticks = row.started if row else 0
        self.since = self.last_word = time.monotonic()
        self._job_pidfds: dict[int, int] = {}
        self._unsent: deque[tuple[bytes, socket.socket | None]] = deque()
        # An interpreter that ends without `close` joins its children: this lets the zygote end.
        self._at_exit = util.Finalize(None, _hang_up, args=(self._control,), exitpriority=10)

    def listen(
        self, on_frame: Callable[[frames.FromZygote], None], on_death: Callable[[], None]
    ) -> None:
        """Have the loop call for each frame, and when the zygote is dead."""

        def read() -> None:
            while (frame := self.receive()) is not None:
                on_frame(frame)

        def bury() -> None:
            read()  # what it said last counts
            on_death()

        self._loop.add_reader(self._control, read)
        self._loop.add_reader(self._pidfd, bury)

    def wait(self) -> None:
        """Block until there is a frame, or the zygote is dead."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._pidfd, select.POLLIN)
        poll.poll()

    def receive(self) -> frames.FromZygote | None:
        """Return the next frame; None when there is none now, or never again."""
        try:
            data, ancillary, _, _ = self._control.recvmsg(
                2 * frames.PACKET_LIMIT, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC
            )
        except OSError:
            return None
        if not data:
            self._loop.remove_reader(self._control)  # the pidfd tells the rest
            return None
        self.last_word = time.monotonic()
        frame: frames.FromZygote = frames.decode_from_zygote(data)
        if isinstance(frame, frames.Forked) and ancillary:
            self._job_pidfds[frame.number] = int.from_bytes(ancillary[0][2][:4], "little")
        elif isinstance(frame, frames.Exited) and frame.number in self._job_pidfds:
            os.close(self._job_pidfds.pop(frame.number))
        return frame

    def send(self, frame: frames.ToZygote, channel: socket.socket | None = None) -> None:
        """Send a frame, with a job process's end of its channel; closes that when it is sent."""
        self._unsent.append((frames.encode(frame), channel))
        self._send_more()

    def hang_up(self) -> None:
        """Let the zygote read the end of file: it ends everything, and itself."""
        _hang_up(self._control)

    def kill(self) -> None:
        """Send SIGKILL to the zygote."""
        _kill(self._pidfd)

    def kill_jobs(self) -> None:
        """Send SIGKILL to every job process of a zygote that is dead."""
        for pidfd in self._job_pidfds.values():
            _kill(pidfd)

    def join(self) -> int | None:
        """Wait for the end of a zygote that is dead or dying; return its exit code."""
        self._process.join()
        return self._process.exitcode

    def close(self) -> int | None:
        """Let go of a zygote that is dead or dying; return its exit code."""
        self._at_exit.cancel()
        self._loop.remove_reader(self._control)
        self._loop.remove_writer(self._control)
        self._loop.remove_reader(self._pidfd)
        self._control.close()
        code = self.join()
        for pidfd in (self._pidfd, *self._job_pidfds.values()):
            os.close(pidfd)
        self._job_pidfds.clear()
        for _, channel in self._unsent:
            if channel is not None:
                channel.close()
        self._unsent.clear()
        return code

    def _send_more(self) -> None:
        while self._unsent:
            data, channel = self._unsent[0]
            fds = [] if channel is None else [channel.fileno()]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            try:
                self._control.sendmsg([data], rights)
            except BlockingIOError:
                self._loop.add_writer(self._control, self._send_more)
                return
            except OSError:
                break  # it is dead: its pidfd tells, and what is unsent is let go then
            self._unsent.popleft()
            if channel is not None:
                channel.close()
        self._loop.remove_writer(self._control)


def _spawn(control: socket.socket, sources: Sequence[str]) -> SpawnProcess:
    process = multiprocessing.get_context("spawn").Process(
        target=zygote.main, args=(control, tuple(sources)), name="warren-zygote"
    )
    # The tracker lifts the mask when it starts, so it goes first. The zygote inherits the mask:
    # a Ctrl-C at the terminal must not hit it before it has left our session.
    resource_tracker.ensure_running()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        control.close()
    return process


def _hang_up(control: socket.socket) -> None:
    with contextlib.suppress(OSError):
        control.shutdown(socket.SHUT_RDWR)


def _kill(pidfd: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
