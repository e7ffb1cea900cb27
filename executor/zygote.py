"""The zygote: one single-threaded process that has the handlers imported and forks job processes.

    executor ──spawn──> zygote ──fork──> job process ──> whatever the job starts
        └──────────── one channel each ──────┘

It is a subreaper, and so is each job process: what a job started is found below its process while
that lives, and as a child of the zygote, a stranger, once it is dead. An exit is told only when no
stranger is left. End of file on the control socket means that the executor is gone.
"""

import faulthandler
import gc
import mmap
import multiprocessing
import os
import select
import signal
import socket
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkProcess

from executor import child, frames, linux
from executor.failures import clean
from executor.handlers import Handlers, HandlersError, load_handlers
from executor.output import Output
from executor.strangers import kill_and_reap
from executor.surroundings import Surroundings, reset_signals

#: Most job processes of one zygote: each has one byte of a page of memory.
PROCESS_LIMIT = mmap.PAGESIZE
#: Seconds until what SIGKILL does not end (a setuid program, a dead disk) is reported instead.
SURVIVOR_SECONDS = 10.0
#: Seconds between two looks for strangers that were killed and are not gone yet.
_LOOK_SECONDS = 0.002
#: Names of handlers told in one packet.
_NAMES_PER_PACKET = 100
#: Characters told of why the handlers cannot be loaded.
_LINE_CHARS, _TRACE_CHARS = 2_000, 16_000


def main(control: socket.socket, sources: Sequence[str]) -> None:
    """Live the life of a zygote. Called in a process made by multiprocessing's spawn context."""
    control.set_inheritable(False)
    _settle()
    try:
        _work(control, sources)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the executor went before it was told of the handlers
    except BaseException:  # noqa: BLE001 - the last words of a process that ends here in any case
        traceback.print_exc()
    os._exit(0)  # an `atexit` or a thread of the handlers must not hold the zygote back


def _work(control: socket.socket, sources: Sequence[str]) -> None:
    output = Output()
    own_files = _open_files()
    try:
        handlers = load_handlers(sources)
        _check_threads()
    except HandlersError as error:
        line, trace = clean(error.line[:_LINE_CHARS]), clean(error.traceback[-_TRACE_CHARS:])
        control.send(frames.encode(frames.Unloadable(line=line, traceback=trace)))
        return
    linux.outlive_parent()
    output.adopt_logging()
    reset_signals()
    _shut_out_signals()
    surroundings = Surroundings()
    _tell_names(control, sorted(handlers))
    # What was imported stays shared with the job processes: the collector must not touch it.
    gc.collect()
    gc.freeze()
    kept = frozenset(_open_files() - own_files)
    Zygote(control, handlers, output, surroundings, kept).serve()


def _settle() -> None:
    """Leave the executor's session and signals; keep its settings from the jobs."""
    os.setsid()
    # While it imports it does not listen: an import that never ends must not outlive the executor.
    linux.die_with_parent(os.getppid())
    _shut_out_signals()
    linux.become_subreaper()
    linux.set_process_name("warren-zygote")
    faulthandler.enable(2)  # a crash in C shows its Python lines in the run's log
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for name in [name for name in os.environ if name.startswith("WARREN_")]:
        del os.environ[name]


def _shut_out_signals() -> None:
    """Ignore SIGINT and SIGTERM.

    They are blocked as well: one for a job that is just being forked waits until it is answered.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, (signal.SIGINT, signal.SIGTERM))


def _check_threads() -> None:
    others = [each.name for each in threading.enumerate() if each is not threading.main_thread()]
    if others:
        raise HandlersError(
            f"importing the handlers started threads ({', '.join(others)}): "
            "start them in init=, a process with threads cannot be forked safely"
        )


def _tell_names(control: socket.socket, names: list[str]) -> None:
    parts = [names[at : at + _NAMES_PER_PACKET] for at in range(0, len(names), _NAMES_PER_PACKET)]
    for part in parts:
        control.send(frames.encode(frames.Names(names=tuple(part), last=False)))
    control.send(frames.encode(frames.Names(names=(), last=True)))


def _open_files() -> set[int]:
    # The descriptor by which the folder was read is in the list, and is gone by now.
    entries = os.listdir("/proc/self/fd")  # noqa: PTH208 - names, not paths
    return {int(entry) for entry in entries if os.path.lexists(f"/proc/self/fd/{entry}")}


@dataclass(slots=True)
class _Job:
    number: int
    process: ForkProcess
    pid: int
    pidfd: int
    index: int


@dataclass(frozen=True, slots=True)
class _Dead:
    number: int
    code: int
    since: float


class Zygote:
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
        self._context = multiprocessing.get_context("fork")
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
        """Work until the executor is gone; then end everything."""
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
            self._fork(order, int.from_bytes(ancillary[0][2][:4], "little"))
        elif isinstance(order, frames.Signal):
            self._signal(order)
        else:
            self._control.send(frames.encode(frames.Pong()))
        return True

    def _fork(self, order: frames.Fork, channel: int) -> None:
        index = self._free_indexes.pop()
        self._page[index] = 0
        birth = child.Birth(
            zygote_pid=self._pid,
            channel=channel,
            handler=self._handlers[order.handler],
            output=self._output,
            surroundings=self._surroundings,
            page=self._page,
            index=index,
            kept=self._kept,
        )
        process = self._context.Process(target=child.main, args=(birth,))
        try:
            process.start()
        except OSError as error:
            self._free_indexes.append(index)
            words = f"cannot start a process: {error.strerror}"
            self._tell(frames.Exited(number=order.number, error=words))
            return
        finally:
            os.close(channel)
        self._register(order.number, process, index)

    def _register(self, number: int, process: ForkProcess, index: int) -> None:
        assert process.pid is not None
        # Before any reaping, so that the descriptor cannot name a later process of this id.
        pidfd = os.pidfd_open(process.pid)
        job = _Job(number, process, process.pid, pidfd, index)
        self._jobs[number] = self._by_pidfd[pidfd] = job
        self._poll.register(pidfd, select.POLLIN)
        born = frames.Forked(number=number, pid=job.pid, started_at_ms=int(time.time() * 1000))
        socket.send_fds(self._control, [frames.encode(born)], [pidfd])

    def _signal(self, order: frames.Signal) -> None:
        job = self._jobs.get(order.number)
        # `exitcode` None: it was not reaped, so its id is still its own.
        if job is None or job.process.exitcode is not None:
            return
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
        code = job.process.exitcode
        assert code is not None
        job.process.close()
        del self._jobs[job.number]
        is_clean = code == 0 and self._page[job.index] == 1
        self._free_indexes.append(job.index)
        if is_clean:
            self._tell(frames.Exited(number=job.number, code=0))
        else:
            self._dead.append(_Dead(job.number, code, time.monotonic()))

    def _end_strangers(self) -> None:
        """Kill what dead runs left behind; tell of the dead once there is nothing more."""
        strangers = self._strangers()
        kill_and_reap(strangers)
        overdue = time.monotonic() - SURVIVOR_SECONDS
        told = [dead for dead in self._dead if not strangers or dead.since < overdue]
        survivors = ", ".join(f"{row.name} (pid {row.pid})" for row in strangers[:5])
        for dead in told:
            self._dead.remove(dead)
            self._tell(frames.Exited(number=dead.number, code=dead.code, survivors=survivors))
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
            alive = {job.pid for job in self._jobs.values() if job.process.exitcode is None}
            strangers = [row for row in linux.children_of(self._pid) if row.pid not in alive]
            if not alive and not strangers:
                return
            kill_and_reap(strangers)
            time.sleep(_LOOK_SECONDS)
