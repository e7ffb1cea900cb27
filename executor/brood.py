"""The job processes of one zygote: forked on order, signalled on order, told of when gone.

A job process is a subreaper, and so is the zygote: what a job started is found below its process
while that lives, and as a child of the zygote, a stranger, once it is dead. An exit is told only
when no stranger is left.
"""

import mmap
import os
import select
import signal
import socket
import time
from dataclasses import dataclass, field

from executor import child, frames, linux
from executor.forking import exit_code, fork
from executor.handlers import Handler, Handlers
from executor.output import Output
from executor.strangers import kill_and_reap
from executor.surroundings import Surroundings

#: Most job processes of one zygote: each has one byte of a page of memory.
PROCESS_LIMIT = mmap.PAGESIZE
#: Seconds until what SIGKILL does not end (a setuid program, a dead disk) is reported instead.
SURVIVOR_SECONDS = 10.0
#: Seconds between two looks for strangers that were killed and are not gone yet.
_LOOK_SECONDS = 0.002

_CANNOT_START = "cannot start a process"


@dataclass(slots=True)
class _Job:
    number: int
    pid: int
    pidfd: int
    index: int


@dataclass(frozen=True, slots=True)
class _Dead:
    number: int
    code: int = 0
    error: str = ""
    since: float = field(default_factory=time.monotonic)


class Brood:
    """Forks on order, signals on order, and tells of each exit once nothing of it is left."""

    def __init__(
        self,
        control: socket.socket,
        handlers: Handlers,
        output: Output,
        surroundings: Surroundings,
        kept: frozenset[int],
    ) -> None:
        self._control = control
        self._handlers = handlers
        self._output = output
        self._surroundings = surroundings
        self._kept = kept
        self._pid = os.getpid()
        self._page = mmap.mmap(-1, PROCESS_LIMIT)
        self._free_indexes = list(range(PROCESS_LIMIT))
        self._jobs: dict[int, _Job] = {}
        self._by_pidfd: dict[int, _Job] = {}
        self._dead: list[_Dead] = []
        # Children that the handlers started while they were imported are theirs.
        self._spared = {row.pid for row in linux.children_of(self._pid)}
        self._poll = select.poll()
        self._poll.register(control.fileno(), select.POLLIN)

    def serve(self) -> None:
        """Work on orders until the executor is gone; then end everything."""
        try:
            while self._turn():
                pass
        except (BrokenPipeError, ConnectionResetError):
            pass  # the executor went while it was being told something
        self._end_all()

    def _turn(self) -> bool:
        wait_ms = int(_LOOK_SECONDS * 1000) if self._dead else None
        for fd, _ in self._poll.poll(wait_ms):
            if fd == self._control.fileno():
                if not self._take_order():
                    return False
            else:
                self._bury(self._by_pidfd.pop(fd))
        if self._dead:
            self._end_strangers()
        return True

    # -- orders -------------------------------------------------------------------------------

    def _take_order(self) -> bool:
        data, ancillary, _, _ = self._control.recvmsg(
            frames.PACKET_LIMIT, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC
        )
        if not data:
            return False
        order = frames.decode_to_zygote(data)
        if isinstance(order, frames.Fork):
            self._take_fork(order, ancillary)
        elif isinstance(order, frames.Signal):
            self._signal(order)
        else:
            self._control.send(frames.encode(frames.Pong()))
        return True

    def _take_fork(self, order: frames.Fork, ancillary: list[tuple[int, int, bytes]]) -> None:
        if not ancillary:
            words = f"{_CANNOT_START}: too many open files"
            self._tell(frames.Exited(number=order.number, error=words))
            return
        channel = int.from_bytes(ancillary[0][2][:4], "little")
        handler = None if order.handler is None else self._handlers.get(order.handler)
        if handler is None and order.handler is not None:
            # This zygote has replaced one that had it, and the run had waited meanwhile.
            os.close(channel)
            words = f"no handler named {order.handler!r} here"
            self._tell(frames.Exited(number=order.number, error=words))
            return
        self._fork(order.number, handler, channel)

    def _fork(self, number: int, handler: Handler | None, channel: int) -> None:
        index = self._free_indexes.pop()
        self._page[index] = 0
        birth = child.Birth(
            zygote_pid=self._pid,
            channel=channel,
            handler=handler,
            output=self._output,
            surroundings=self._surroundings,
            page=self._page,
            index=index,
            kept=self._kept,
        )
        try:
            pid = fork(lambda: child.main(birth))
            # Before any reaping, so that the descriptor cannot name a later process of this id.
            pidfd = os.pidfd_open(pid)
        except OSError as error:
            # One that was forked all the same, and for which there is no descriptor, is a stranger.
            self._dead.append(_Dead(number, error=f"{_CANNOT_START}: {error.strerror}"))
            self._free_indexes.append(index)
        else:
            self._register(_Job(number, pid, pidfd, index))
        finally:
            os.close(channel)

    def _register(self, job: _Job) -> None:
        self._jobs[job.number] = self._by_pidfd[job.pidfd] = job
        self._poll.register(job.pidfd, select.POLLIN)
        born = frames.Forked(number=job.number, pid=job.pid, started_at_ms=int(time.time() * 1000))
        socket.send_fds(self._control, [frames.encode(born)], [job.pidfd])

    def _signal(self, order: frames.Signal) -> None:
        job = self._jobs.get(order.number)
        if job is None:
            return
        # It is in the list, so nobody has reaped it, and its id is still its own.
        for call in (os.killpg, os.kill):
            try:
                call(job.pid, order.signal)
            except (ProcessLookupError, PermissionError):
                continue  # no group yet, it is just being born; or a setuid program by now
            if order.signal != signal.SIGKILL:
                return

    # -- exits --------------------------------------------------------------------------------

    def _bury(self, job: _Job) -> None:
        self._poll.unregister(job.pidfd)
        os.close(job.pidfd)
        code = exit_code(job.pid)
        assert code is not None
        del self._jobs[job.number]
        is_clean = code == 0 and self._page[job.index] == 1
        self._free_indexes.append(job.index)
        if is_clean:
            self._tell(frames.Exited(number=job.number, code=0))
        else:
            self._dead.append(_Dead(job.number, code))

    def _end_strangers(self) -> None:
        """Kill what dead runs left behind; tell of the dead once there is nothing more."""
        try:
            strangers = self._strangers()
        except OSError:
            return  # no descriptor is left to look with: the next round may have one
        kill_and_reap(strangers)
        overdue = time.monotonic() - SURVIVOR_SECONDS
        told = [dead for dead in self._dead if not strangers or dead.since < overdue]
        survivors = ", ".join(f"{row.name} (pid {row.pid})" for row in strangers[:5])
        for dead in told:
            self._dead.remove(dead)
            self._tell(
                frames.Exited(
                    number=dead.number, code=dead.code, error=dead.error, survivors=survivors
                )
            )
        if strangers and told:
            # They are reported; nothing waits for them any more.
            self._spared.update(row.pid for row in strangers)

    def _strangers(self) -> list[linux.ProcessRow]:
        known = self._spared | {job.pid for job in self._jobs.values()}
        return [row for row in linux.children_of(self._pid) if row.pid not in known]

    def _tell(self, frame: frames.Exited) -> None:
        self._control.send(frames.encode(frame))

    def _end_all(self) -> None:
        """Kill and reap everything; the executor is gone, so nobody is told."""
        deadline = time.monotonic() + SURVIVOR_SECONDS
        for job in self._jobs.values():
            self._signal(frames.Signal(number=job.number, signal=signal.SIGKILL))
        while time.monotonic() < deadline:
            self._reap()
            alive = {job.pid for job in self._jobs.values()}
            strangers = [row for row in linux.children_of(self._pid) if row.pid not in alive]
            if not alive and not strangers:
                return
            kill_and_reap(strangers)
            time.sleep(_LOOK_SECONDS)

    def _reap(self) -> None:
        for job in list(self._jobs.values()):
            if exit_code(job.pid) is not None:
                del self._jobs[job.number]
