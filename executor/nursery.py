"""Keeps a zygote alive: replaces a dead one, with backoff, and ends what it left behind.

When the zygote dies, its job processes die with it (parent-death signal) and become children of
this process, with all that they started. They are killed and reaped before anybody is told.
"""

import asyncio
import multiprocessing
import os
import socket
import time
from collections.abc import Callable, Sequence

import structlog

from executor import frames, linux
from executor.brood import SURVIVOR_SECONDS
from executor.handlers import HandlersError
from executor.strangers import kill_and_reap
from executor.zygote_link import ZygoteLink

#: Seconds before a dead zygote is replaced: at first, and at most.
BACKOFF_SECONDS = (0.1, 10.0)
#: A zygote that lived this long was a good one: the next backoff starts from the beginning.
GOOD_LIFE_SECONDS = 60.0
#: A zygote is asked this often whether it works, and killed after this long without an answer.
PING_SECONDS, SILENCE_SECONDS = 3.0, 12.0
#: Seconds between two looks for orphans of a dead zygote that were killed and are not gone yet.
_LOOK_SECONDS = 0.005


class Nursery:
    """The zygote of one executor. Used from the thread of its event loop.

    `on_died(survivors)` is called when nothing is left of a dead zygote but what could not be
    killed; `on_ready` when another has taken its place. `handlers` are the names that the last
    zygote told, `error` is why the last one could not load them.
    """

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
        self._link: ZygoteLink | None = None
        self._names: list[str] = []
        self._backoff = BACKOFF_SECONDS[0]
        self._pinged_at = 0.0
        self._is_clearing = False
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
        link = self._link = ZygoteLink(self._loop, self._sources)
        try:
            while not self.is_ready:
                link.wait()
                self._take_first(link)
        except BaseException:
            link.kill()  # it may still be importing, and would be waited for at our own end
            link.close()
            self._link = None
            raise
        self._listen(link)

    def fork(self, number: int, handler: str | None, channel: socket.socket) -> None:
        """Ask for job process `number`; `on_forked` or `on_exited` answers. Closes `channel`."""
        if self._link is None:
            channel.close()  # `on_died` is on its way
        else:
            self._link.send(frames.Fork(number=number, handler=handler), channel)

    def signal(self, number: int, number_of_signal: int) -> None:
        """Send a signal to a job process and its group; none when it is gone already."""
        if self._link is not None:
            self._link.send(frames.Signal(number=number, signal=number_of_signal))

    def watch(self) -> None:
        """Kill a zygote that does not work any more. Called every now and then."""
        link = self._link
        if link is None or not self.is_ready:
            return
        now = time.monotonic()
        if self._pinged_at <= link.last_word:
            if now - link.last_word > PING_SECONDS:
                self._pinged_at = now
                link.send(frames.Ping())
        elif now - self._pinged_at > SILENCE_SECONDS:
            self._log.error("zygote_hung", pid=link.pid)
            link.kill()

    def close(self, on_closed: Callable[[], None]) -> None:
        """End the zygote with all that is left of it, then call `on_closed`."""
        self._on_closed = on_closed
        self.is_ready = False
        if self._link is not None:
            self._link.hang_up()
        elif not self._is_clearing:
            self._loop.call_soon(on_closed)

    # -- a zygote's life ----------------------------------------------------------------------

    def _take_first(self, link: ZygoteLink) -> None:
        frame = link.receive()
        if isinstance(frame, frames.Names):
            self._take_names(link, frame)
        elif isinstance(frame, frames.Unloadable):
            raise HandlersError(frame.line, frame.traceback)
        else:
            raise HandlersError(
                f"the process that imports the handlers ended with exit code {link.join()}"
            )

    def _listen(self, link: ZygoteLink) -> None:
        link.listen(self._take, self._on_death)

    def _take(self, frame: frames.FromZygote) -> None:
        if isinstance(frame, frames.Forked):
            self._on_forked(frame)
        elif isinstance(frame, frames.Exited):
            self._on_exited(frame)
        elif isinstance(frame, frames.Unloadable):
            self.error = frame.line
        elif isinstance(frame, frames.Names) and self._link is not None:
            self._take_names(self._link, frame)
            if self.is_ready:
                self._on_ready()

    def _take_names(self, link: ZygoteLink, frame: frames.Names) -> None:
        self._names.extend(frame.names)
        if not frame.last:
            return
        self.handlers, self._names = tuple(self._names), []
        self.is_ready = True
        self.error = ""
        self._log.info("zygote_started", pid=link.pid, handlers=len(self.handlers))

    def _on_death(self) -> None:
        link, self._link = self._link, None
        assert link is not None
        self.is_ready = False
        self._names = []
        link.kill_jobs()
        code = link.close()
        if self._on_closed is None:
            self._log.error("zygote_died", pid=link.pid, exit_code=code, why=self.error)
        if time.monotonic() - link.since > GOOD_LIFE_SECONDS:
            self._backoff = BACKOFF_SECONDS[0]
        self._is_clearing = True
        self._end_orphans(link.born_ticks, time.monotonic() + SURVIVOR_SECONDS)

    def _end_orphans(self, born_ticks: int, deadline: float) -> None:
        """End what a dead zygote leaves, then tell of its death and start another."""
        orphans = _orphans(born_ticks)
        kill_and_reap(orphans)
        if orphans and time.monotonic() < deadline:
            self._loop.call_later(_LOOK_SECONDS, self._end_orphans, born_ticks, deadline)
            return
        self._is_clearing = False
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
            self._link = ZygoteLink(self._loop, self._sources)
        except OSError as error:
            self._log.exception("zygote_start_failed", why=str(error))
            self._loop.call_later(self._backoff, self._restart)
        else:
            self._listen(self._link)


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
