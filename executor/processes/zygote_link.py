"""One zygote as its executor sees it: its process, its pidfd, its control socket."""

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
from collections.abc import Callable
from multiprocessing import resource_tracker, util
from multiprocessing.context import SpawnProcess

from warren.executor.fork_server import frames, linux, zygote
from warren.executor.fork_server.confinement import Confinement
from warren.executor.fork_server.termination import marked
from warren.executor.handlers.hooks import JobCode


class ZygoteLink:
    """A zygote, from its start until it is reaped. Used from the thread of the event loop.

    `started_at` and `last_heard_at` are by the monotonic clock, `started_ticks` is as
    `linux.ProcessRow.started`.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, code: JobCode, confinement: Confinement
    ) -> None:
        self._loop = loop
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        self._control_file = self._control.fileno()
        self._process = _spawn(theirs, code, confinement)
        assert self._process.pid is not None
        self.pid = self._process.pid
        self._pidfd = os.pidfd_open(self.pid)
        row = linux.process_row(self.pid)
        self.started_ticks = row.started if row else 0
        self.started_at = self.last_heard_at = time.monotonic()
        self._job_pidfds: dict[int, int] = {}
        self._unsent: deque[tuple[bytes, socket.socket | None, int | None]] = deque()
        # An interpreter that exits without `close` joins its children: this lets the zygote exit.
        self._at_exit = util.Finalize(None, _hang_up, args=(self._control,), exitpriority=10)

    def listen(
        self, on_frame: Callable[[frames.FromZygote], None], on_death: Callable[[], None]
    ) -> None:
        """Call back from the loop for each frame, and when the zygote is dead."""

        def read() -> None:
            while (frame := self.receive()) is not None:
                on_frame(frame)

        def read_last() -> None:
            read()  # its last frames count
            on_death()

        self._loop.add_reader(self._control_file, read)
        self._loop.add_reader(self._pidfd, read_last)

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds`; return whether there is a frame, or the zygote is dead."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def receive(self) -> frames.FromZygote | None:
        """Return the next frame; None if there is none now, or never will be."""
        try:
            data, ancillary, _, _ = self._control.recvmsg(
                2 * frames.PACKET_LIMIT, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC
            )
        except OSError:
            return None
        if not data:
            self._loop.remove_reader(self._control_file)  # the pidfd shows the exit
            return None
        self.last_heard_at = time.monotonic()
        frame: frames.FromZygote = frames.decode_from_zygote(data)
        if isinstance(frame, frames.Forked) and ancillary:
            self._job_pidfds[frame.number] = int.from_bytes(ancillary[0][2][:4], "little")
        elif isinstance(frame, frames.Exited) and frame.number in self._job_pidfds:
            os.close(self._job_pidfds.pop(frame.number))
        return frame

    def send(
        self,
        frame: frames.ToZygote,
        channel: socket.socket | None = None,
        note: int | None = None,
    ) -> None:
        """Send a frame, with a job process's end of its channel, which is closed once sent.

        With that goes the file of its begin note, which stays open.
        """
        self._unsent.append((frames.encode(frame), channel, note))
        self._send_more()

    def hang_up(self) -> None:
        """Let the zygote read end of file, so that it ends everything and exits."""
        _hang_up(self._control)

    def kill(self) -> None:
        """Send SIGKILL to the zygote."""
        _kill(self._pidfd)

    def kill_jobs(self) -> None:
        """Send SIGKILL to every job process of a dead zygote."""
        for pidfd in self._job_pidfds.values():
            _kill(pidfd)

    def join(self) -> int | None:
        """Wait for a dead or dying zygote; return its exit code."""
        self._process.join()
        return self._process.exitcode

    def close(self) -> int | None:
        """Release a dead or dying zygote; return its exit code."""
        self._at_exit.cancel()
        self._loop.remove_reader(self._control_file)
        self._loop.remove_writer(self._control_file)
        self._loop.remove_reader(self._pidfd)
        self._control.close()
        code = self.join()
        for pidfd in (self._pidfd, *self._job_pidfds.values()):
            os.close(pidfd)
        self._job_pidfds.clear()
        for _, channel, _ in self._unsent:
            if channel is not None:
                channel.close()
        self._unsent.clear()
        return code

    def _send_more(self) -> None:
        while self._unsent:
            data, channel, note = self._unsent[0]
            fds = [] if channel is None else [channel.fileno()]
            fds += [] if note is None else [note]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            try:
                self._control.sendmsg([data], rights)
            except BlockingIOError:
                self._loop.add_writer(self._control_file, self._send_more)
                return
            except OSError:
                break  # it is dead: its pidfd shows that, and `close` drops what is unsent
            self._unsent.popleft()
            if channel is not None:
                channel.close()
        self._loop.remove_writer(self._control_file)


def _spawn(control: socket.socket, code: JobCode, confinement: Confinement) -> SpawnProcess:
    process = multiprocessing.get_context("spawn").Process(
        target=zygote.main, args=(control, code, confinement), name="warren-zygote"
    )
    # The tracker unblocks signals when it starts, so it goes first. The zygote inherits the mask:
    # Ctrl-C at the terminal must not reach it before it has left our session.
    resource_tracker.ensure_running()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        with marked(confinement.script_folder):
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
