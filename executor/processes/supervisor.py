"""Keeps a zygote running: replaces a dead one, with backoff, and kills what it left behind.

When the zygote dies, its job processes die with it (parent-death signal), and what they started
becomes children of this process. All of it is killed and reaped before the death is reported.

In a succession another zygote takes over with reloaded handlers, while old runs finish with theirs.
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
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import resource_tracker, util
from multiprocessing.context import SpawnProcess

import structlog

from warren.broker.messages import HandlerFacts
from warren.executor.fork_server import frames, linux, zygote
from warren.executor.fork_server.confinement import Confinement, keep_settings_secret
from warren.executor.fork_server.termination import kill_and_reap, marked
from warren.executor.fork_server.zygote import SURVIVOR_SECONDS
from warren.executor.handlers.handler_registry import HandlersError
from warren.executor.handlers.hooks import JobCode
from warren.executor.run_life import describe_signal

#: Seconds before a dead zygote is replaced: at first, and at most.
BACKOFF_SECONDS = (0.1, 30.0)
#: After a zygote has been ready for this long the backoff starts from the beginning.
GOOD_LIFE_SECONDS = 60.0
#: Seconds after which a slow import of handlers is logged, for the first time and again.
SLOW_IMPORT_SECONDS = (5.0, 30.0)
#: A spare that lives for longer has not failed like those before it.
_SPARE_LIFE_SECONDS = 5.0
#: Seconds between two checks whether the zygote that imports the handlers is still wanted.
_WANTED_SECONDS = 0.25
#: Seconds between two checks for orphans of a dead zygote that were killed but still exist.
_POLL_SECONDS = 0.005


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

        The file of its begin note is sent along, and stays open.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a zygote has loaded."""

    handlers: tuple[HandlerFacts, ...]
    folder: str


class Successor:
    """A zygote that imports the handlers beside the present one.

    `on_end` is called once: with the zygote and what it has loaded, or with a line that says why
    it has not.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        code: JobCode,
        confinement: Confinement,
        on_end: Callable[[ZygoteLink, Loaded | str], None],
    ) -> None:
        self._on_end = on_end
        self._handlers: list[HandlerFacts] = []
        self._line = ""
        self._is_over = False
        self._link = ZygoteLink(loop, code, confinement)
        self._link.listen(self._take, self._on_death)

    def cancel(self) -> None:
        """End it, because what it imports is out of date."""
        self._is_over = True
        self._link.kill()

    def _take(self, frame: frames.FromZygote) -> None:
        if isinstance(frame, frames.LoadFailed):
            self._line = frame.line
        elif isinstance(frame, frames.HandlersLoaded):
            self._handlers += frame.handlers
            if frame.last and not self._is_over:
                self._is_over = True
                loaded = Loaded(handlers=tuple(self._handlers), folder=frame.folder)
                self._on_end(self._link, loaded)

    def _on_death(self) -> None:
        code = self._link.close()
        if not self._is_over:
            self._is_over = True
            self._on_end(self._link, self._line or _ended(code))


@dataclass(slots=True)
class _Retired:
    link: ZygoteLink
    numbers: set[int] = field(default_factory=set)


class RetiredZygotes:
    """Zygotes that no longer fork, until the last of their job processes has exited."""

    def __init__(
        self,
        on_forked: Callable[[frames.Forked], None],
        on_exited: Callable[[frames.Exited], None],
    ) -> None:
        self._on_forked = on_forked
        self._on_exited = on_exited
        self._all: list[_Retired] = []

    def add(self, link: ZygoteLink, numbers: set[int]) -> None:
        """Take over a zygote that has these job processes."""
        retired = _Retired(link, numbers)
        self._all.append(retired)

        def take(frame: frames.FromZygote) -> None:
            if isinstance(frame, frames.Forked):
                self._on_forked(frame)
            elif isinstance(frame, frames.Exited):
                self._forget(retired, frame)

        link.listen(take, lambda: self._on_death(retired))
        link.send(frames.KeepSpares(count=0))
        if not numbers:
            link.hang_up()

    def link_of(self, number: int) -> ZygoteLink | None:
        """Return the zygote that a job process belongs to; None if it is none of these."""
        return next((each.link for each in self._all if number in each.numbers), None)

    def kill(self) -> None:
        """End them and everything they have started, and wait for that."""
        retired, self._all = self._all, []
        for each in retired:
            each.link.kill()
            each.link.kill_jobs()
            each.link.close()

    def _forget(self, retired: _Retired, exited: frames.Exited) -> None:
        retired.numbers.discard(exited.number)
        if not retired.numbers:
            retired.link.hang_up()
        self._on_exited(exited)

    def _on_death(self, retired: _Retired) -> None:
        if retired not in self._all:
            return
        self._all.remove(retired)
        retired.link.kill_jobs()
        code = retired.link.close() or 0
        for number in sorted(retired.numbers):
            self._on_exited(frames.Exited(number=number, code=code))


class ForkServerSupervisor:
    """The fork server of one executor. Used from the thread of its event loop, except `fault`.

    `on_died(survivors)` is called when nothing is left of a dead zygote except what could not be
    killed, `on_ready` when another one has replaced it. `handlers` are those that the last
    zygote loaded, `by_name` the same by name, `folder` where their files are; `error` is why the
    last one could not load them or be started.
    """

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        code: JobCode,
        confinement: Confinement,
        on_ready: Callable[[], None],
        on_forked: Callable[[frames.Forked], None],
        on_exited: Callable[[frames.Exited], None],
        on_died: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._code = code
        self._confinement = confinement
        self._spares = 0
        self._spares_lack_until = 0.0
        self._on_ready = on_ready
        self._on_forked = on_forked
        self._on_exited = on_exited
        self._on_died = on_died
        self._log = structlog.get_logger()
        self._link: ZygoteLink | None = None
        self._loaded: list[HandlerFacts] = []
        self._importing = ""
        self._backoff = BACKOFF_SECONDS[0]
        self._pinged_at = 0.0
        self._ready_at = 0.0
        self._has_told_error = False
        self._is_ending_orphans = False
        self._on_closed: Callable[[], None] | None = None
        #: The job processes of the present zygote.
        self._numbers: set[int] = set()
        self._successor: Successor | None = None
        self._retired = RetiredZygotes(on_forked, on_exited)
        self.handlers: tuple[HandlerFacts, ...] = ()
        self.by_name: dict[str, HandlerFacts] = {}
        self.folder = ""
        self.is_ready = False
        self.error = ""

    # -- for the slots ------------------------------------------------------------------------

    def fault(self, slow_seconds: float) -> str:
        """Return why a dead zygote is not replaced soon; empty if there is one, or soon will be.

        One that is still importing the handlers after `slow_seconds` is not expected soon. May be
        called from any thread.
        """
        link, error = self._link, self.error
        if self.is_ready or self._on_closed is not None:
            return ""
        if error or link is None:
            return error
        is_slow = time.monotonic() - link.started_at > slow_seconds
        return f"importing the handlers takes over {slow_seconds:g} s" if is_slow else ""

    @property
    def lacks_spares(self) -> bool:
        """Whether spares keep failing, the last one a short time ago."""
        return self._loop.time() < self._spares_lack_until

    def open(self, is_unwanted: Callable[[], bool]) -> None:
        """Start the zygote and wait until it has loaded the handlers, or is no longer wanted.

        Raises:
            HandlersError: they cannot be loaded, or not soon enough.

        """
        linux.become_subreaper()
        keep_settings_secret()
        link = self._link = ZygoteLink(self._loop, self._code, self._confinement)
        first, again = SLOW_IMPORT_SECONDS
        told_at = time.monotonic() + first
        try:
            while not self.is_ready:
                _check_wanted(is_unwanted)
                if time.monotonic() >= told_at:
                    self._log_slow_import(link)
                    told_at += again
                if link.wait(_WANTED_SECONDS):
                    self._take_initial(link)
        except BaseException:
            link.kill()  # it may still be importing, and our own exit would wait for it
            link.close()
            self._link = None
            raise
        self._listen(link)

    def fork(
        self, number: int, handler: str | None, channel: socket.socket, note: int | None
    ) -> None:
        """Request job process `number`; `on_forked` or `on_exited` follows. Closes `channel`."""
        if self._link is None:
            channel.close()  # `on_died` is on its way
        else:
            self._numbers.add(number)
            self._link.send(frames.Fork(number=number, handler=handler), channel, note)

    def keep_spares(self, count: int) -> None:
        """Keep this many processes forked in advance from now on."""
        if count != self._spares:
            self._spares = count
            if self._link is not None and self.is_ready:
                self._link.send(frames.KeepSpares(count=count))

    def signal(self, number: int, number_of_signal: int) -> None:
        """Send a signal to a job process and its group, unless the process is gone."""
        link = self._retired.link_of(number) or self._link
        if link is not None:
            link.send(frames.Signal(number=number, signal=number_of_signal))

    def reload(self, then: Callable[[str], None]) -> None:
        """Reload the handlers in another zygote, which takes over once that is done.

        `then` gets "" then, or a line that says why it failed and the present zygote stays. A call
        during another one replaces that, whose `then` is not called.
        """
        if self._on_closed is not None or not self.is_ready:
            return  # it ends, or what is being imported is new
        if self._successor is not None:
            self._successor.cancel()

        def take_over(link: ZygoteLink, loaded: Loaded | str) -> None:
            self._successor = None
            if isinstance(loaded, Loaded):
                self._take_over(link, loaded)
            then(loaded if isinstance(loaded, str) else "")

        try:
            self._successor = Successor(self._loop, self._code, self._confinement, take_over)
        except (OSError, MemoryError) as error:
            then(str(error) or "out of memory")

    def watch(self, ping_seconds: float, silence_seconds: float) -> None:
        """Ping a zygote that is silent for `ping_seconds`, and kill one that does not answer.

        Called periodically.
        """
        link = self._link
        if link is None or not self.is_ready:
            return
        now = time.monotonic()
        if self._pinged_at <= link.last_heard_at:
            if now - link.last_heard_at > ping_seconds:
                self._pinged_at = now
                link.send(frames.Ping())
        elif now - self._pinged_at > silence_seconds:
            self._log.error("zygote_hung", pid=link.pid)
            link.kill()

    def close(self, on_closed: Callable[[], None]) -> None:
        """End the zygote and everything it started, then call `on_closed`."""
        self._on_closed = on_closed
        if self._successor is not None:
            self._successor.cancel()
        was_ready, self.is_ready = self.is_ready, False
        if self._link is not None:
            if was_ready:
                self._link.hang_up()
            else:  # it may be importing without end, and has no job processes yet
                self._link.kill()
        elif not self._is_ending_orphans:
            self._loop.call_soon(on_closed)

    # -- the zygote's life cycle --------------------------------------------------------------

    def _take_initial(self, link: ZygoteLink) -> None:
        frame = link.receive()
        if isinstance(frame, frames.HandlersLoaded):
            self._take_handlers(link, frame)
        elif isinstance(frame, frames.Importing):
            self._importing = frame.source
        elif isinstance(frame, frames.LoadFailed):
            raise HandlersError(frame.line, frame.traceback)
        else:
            raise HandlersError(_ended(link.join()))

    def _take_over(self, link: ZygoteLink, loaded: Loaded) -> None:
        if self._on_closed is not None or self._link is None:
            link.kill()  # ours has died meanwhile: its replacement has the new code too
            return
        old, self._link = self._link, link
        self._listen(link)
        numbers, self._numbers = self._numbers, set()
        self._retired.add(old, numbers)
        self._loaded = list(loaded.handlers)
        self._take_handlers(link, frames.HandlersLoaded(folder=loaded.folder, last=True))
        self._on_ready()

    def _listen(self, link: ZygoteLink) -> None:
        link.listen(self._take, self._on_death)

    def _take(self, frame: frames.FromZygote) -> None:
        if isinstance(frame, frames.Forked):
            self._on_forked(frame)
        elif isinstance(frame, frames.Exited):
            self._numbers.discard(frame.number)
            self._on_exited(frame)
        elif isinstance(frame, frames.LoadFailed):
            self.error, self._has_told_error = frame.line, True
        elif isinstance(frame, frames.SparesFailing):
            self._log.warning("spares_failed", why=frame.why, again_in=frame.again_in)
            # Unless the next one fails as well, they no longer fail.
            self._spares_lack_until = self._loop.time() + 2 * frame.again_in + _SPARE_LIFE_SECONDS
        elif isinstance(frame, frames.Importing):
            self._importing = frame.source
        elif isinstance(frame, frames.HandlersLoaded) and self._link is not None:
            self._take_handlers(self._link, frame)
            if self.is_ready:
                self._on_ready()

    def _take_handlers(self, link: ZygoteLink, frame: frames.HandlersLoaded) -> None:
        self._loaded.extend(frame.handlers)
        if not frame.last:
            return
        self.handlers, self._loaded = tuple(self._loaded), []
        self.by_name = {handler.name: handler for handler in self.handlers}
        self.folder = frame.folder
        self.is_ready = True
        if self._spares:
            link.send(frames.KeepSpares(count=self._spares))
        self._ready_at = self._loop.time()
        self.error = ""
        self._log.info("zygote_started", pid=link.pid, handlers=len(self.handlers))
        if frame.native_threads:
            self._log.warning("native_threads_left", count=frame.native_threads)

    def _log_slow_import(self, link: ZygoteLink) -> None:
        seconds = round(time.monotonic() - link.started_at)
        self._log.warning("handlers_awaited", source=self._importing, seconds=seconds)

    def _watch_import(self, pid: int) -> None:
        """Log repeatedly that a replacement is still importing the handlers."""
        # By its id: a timer that held a dead one would hold its descriptors too.
        link = self._link
        if link is not None and link.pid == pid and not self.is_ready:
            self._log_slow_import(link)
            self._loop.call_later(SLOW_IMPORT_SECONDS[1], self._watch_import, pid)

    def _on_death(self) -> None:
        link, self._link = self._link, None
        assert link is not None
        was_ready, self.is_ready = self.is_ready, False
        self._loaded = []
        self._numbers.clear()
        self._retired.kill()  # what is said of this one's processes is said of all
        link.kill_jobs()
        code = link.close()
        if not was_ready and not self._has_told_error:
            self.error = _ended(code)
        if self._on_closed is None:
            self._log.error("zygote_died", pid=link.pid, exit_code=code, why=self.error)
        # A long import that then fails does not count as having been ready.
        if was_ready and self._loop.time() - self._ready_at > GOOD_LIFE_SECONDS:
            self._backoff = BACKOFF_SECONDS[0]
        self._is_ending_orphans = True
        self._end_orphans(link.started_ticks, time.monotonic() + SURVIVOR_SECONDS)

    def _end_orphans(self, started_ticks: int, deadline: float) -> None:
        """Kill what a dead zygote left behind, then report its death and start another."""
        orphans = _orphans(started_ticks)
        kill_and_reap(orphans)
        if orphans and time.monotonic() < deadline:
            self._loop.call_later(_POLL_SECONDS, self._end_orphans, started_ticks, deadline)
            return
        self._is_ending_orphans = False
        if self._on_closed is not None:
            self._on_closed()
            return
        self._on_died(", ".join(f"{row.name} (pid {row.pid})" for row in orphans[:5]))
        self._restart_later()

    def _restart_later(self) -> None:
        self._loop.call_later(self._backoff, self._restart)
        self._backoff = min(self._backoff * 2, BACKOFF_SECONDS[1])

    def _restart(self) -> None:
        if self._on_closed is not None:
            return
        self._has_told_error = False
        try:
            self._link = ZygoteLink(self._loop, self._code, self._confinement)
        except (OSError, MemoryError) as error:
            self.error = str(error) or "out of memory"
            self._log.error("zygote_start_failed", why=self.error, again_in=self._backoff)
            self._restart_later()
        else:
            self._listen(self._link)
            self._loop.call_later(SLOW_IMPORT_SECONDS[0], self._watch_import, self._link.pid)


def _check_wanted(is_unwanted: Callable[[], bool]) -> None:
    if is_unwanted():
        raise HandlersError("stopped while it imported the handlers")


def _ended(exit_code: int | None) -> str:
    ended = f"exit code {exit_code}"
    if exit_code is not None and exit_code < 0:
        ended = str(describe_signal(-exit_code))
    return f"the process that imports the handlers ended with {ended}"


def _orphans(started_ticks: int) -> list[linux.ProcessRow]:
    """Return our children that a dead zygote left: started after it, unknown, in other sessions.

    Several executors may be threads of this process: multiprocessing knows their zygotes.
    """
    known = {process.pid for process in multiprocessing.active_children()}
    session = os.getsid(0)
    return [
        row
        for row in linux.children_of(os.getpid())
        if row.pid not in known and row.session != session and row.started >= started_ticks
    ]
