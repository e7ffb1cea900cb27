"""The zygote: a single-threaded process that has imported the handlers and forks job processes.

    executor ──spawn──> zygote ──fork──> job process ──> whatever the job starts
        └──────────── one channel each ──────┘

Its loop forks and signals job processes on request, and reports their exits. End of file on the
control socket means that the executor is gone: the zygote then kills and reaps everything and
exits.

Job processes and the zygote are subreapers. While a job's process is alive, everything it started
is found below it. Once it is dead, that becomes orphans: children that the zygote did not fork. An
exit is reported only when no orphan is left.
"""

import array
import faulthandler
import importlib
import inspect
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path

from warren.broker.messages import ABOUT_LIMIT, HandlerFacts
from warren.broker.reasons import Reason, Why, Words
from warren.broker.stored_reasons import to_json
from warren.executor.errors import UserUnusable
from warren.executor.fork_server import frames, linux
from warren.executor.fork_server.confinement import Confinement
from warren.executor.fork_server.forking import (
    Child,
    Forker,
    Spare,
    Spares,
    descriptors,
    settle_memory,
)
from warren.executor.fork_server.interpreter import forget_resource_tracker
from warren.executor.fork_server.job_main import Assignment, JobSetup, main_of_job, main_of_spare
from warren.executor.fork_server.output import Output
from warren.executor.fork_server.process_state import ProcessState, reset_signals
from warren.executor.fork_server.termination import (
    BLOCKED,
    Termination,
    is_helper,
    kill_and_reap,
    take_off_link_mark,
)
from warren.executor.handlers.handler_registry import (
    NAME_LIMIT,
    Handler,
    Handlers,
    HandlersError,
    load_handlers,
)
from warren.executor.handlers.hooks import JobCode, load_hooks
from warren.executor.handlers.outcomes import clean

#: Most job processes of one zygote.
PROCESS_LIMIT = 8_192
#: How many of the processes that a run has left running are named.
NAMED_LIMIT = 3
#: Seconds after which what SIGKILL does not end (a setuid program, a dead disk) is reported.
SURVIVOR_SECONDS = 10.0
#: Seconds between two looks at what was killed as the zygote itself ends.
_POLL_SECONDS = 0.002
#: Requests between two looks at exits. Those that come together have their processes forked in one
#: go: what the zygote touches between two forks is copied once.
_REQUEST_LIMIT = 16
_RECEIVING = socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
#: This many children delay the next look by a millisecond. A look takes a twentieth of that: with
#: thousands of idle processes, exits that come together share one.
_CHILDREN_PER_MS = 200
#: Handlers in one packet: even of the longest names, they are below its limit.
HANDLERS_PER_PACKET = 25
#: Longest error line and traceback reported when the handlers cannot be loaded, in characters.
_LINE_CHARS, _TRACE_CHARS = 2_000, 16_000


class Orphans:
    """The orphans among this process's children.

    `known` are the ids of the others: its forks, and processes that handlers started while they
    were imported, which are left alone.
    """

    def __init__(
        self,
        child_pids: Callable[[], list[int]] = linux.own_child_pids,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._child_pids = child_pids
        self._clock = clock
        self._own_pid = os.getpid()
        self._next_look_at = 0.0
        self.known = set(child_pids())

    def due_in(self) -> float:
        """Return in how many seconds they may be looked for, 0 for at once."""
        return max(0.0, self._next_look_at - self._clock())

    def find(self) -> list[linux.ProcessRow]:
        """Return them, dead or alive.

        Raises:
            OSError: no descriptor is free to read /proc.

        """
        now = self._clock()
        self._next_look_at = now + len(self.known) // _CHILDREN_PER_MS / 1000
        pids = self._child_pids()
        if self.known.issuperset(pids):
            return []
        rows = map(linux.process_row, set(pids) - self.known)
        orphans = [row for row in rows if row is not None and row.parent == self._own_pid]
        if orphans:
            self._next_look_at = now + _POLL_SECONDS
        return orphans


@dataclass(slots=True)
class _Job:
    number: int
    process: Child
    spare: Spare | None = None


@dataclass(slots=True)
class _PendingExit:
    """An exit to be reported; `left` are the names of what it left running, by process id."""

    number: int
    pid: int = 0
    code: int = 0
    left: dict[int, str] = field(default_factory=dict)
    failure: Words = ""
    is_untaken: bool = False
    since: float = field(default_factory=time.monotonic)


class ForkServer:
    """Serves the executor's requests; reports each exit once nothing of the process is left."""

    def __init__(self, control: socket.socket, setup: JobSetup, forker: Forker) -> None:
        self._control = control
        self._setup = setup
        self._handlers = dict(setup.handlers)
        self._forker = forker
        self._pid = os.getpid()
        self._jobs: dict[int, _Job] = {}
        self._by_pidfd: dict[int, _Job] = {}
        self._pending_exits: list[_PendingExit] = []
        self._orphans = Orphans()
        # With thousands of processes a poll would look at each of them each time.
        self._epoll = select.epoll()
        self._epoll.register(control.fileno(), select.EPOLLIN)
        self._spares = Spares(
            lambda link: self._start(partial(main_of_spare, setup, link)),
            reap=self._release,
            on_failing=lambda why, again_in: self._send(
                frames.SparesFailing(why=why, again_in=again_in)
            ),
        )

    def serve(self) -> None:
        """Serve requests until the executor is gone; then kill everything."""
        try:
            while self._serve_once():
                pass
        except (BrokenPipeError, ConnectionResetError):
            pass  # the executor went away while something was being sent to it
        self._end_all()

    def _serve_once(self) -> bool:
        seconds = self._spares.due_in()
        if self._pending_exits:
            seconds = self._orphans.due_in()
        for fd, _ in self._epoll.poll(seconds):
            if fd == self._control.fileno():
                if not self._take_requests():
                    return False
            elif fd in self._by_pidfd:
                self._on_exit(self._by_pidfd.pop(fd))
            else:
                self._spares.take_exit(fd)
        if self._pending_exits and not self._orphans.due_in():
            self._end_orphans()
        self._spares.fork_some()
        return True

    def _start(self, action: Callable[[], object]) -> Child:
        process = self._forker.start(action)
        self._orphans.known.add(process.pid)
        self._epoll.register(process.pidfd, select.EPOLLIN)
        return process

    def _release(self, process: Child) -> int:
        """Release a process that has ended, or is about to; return its exit code."""
        self._epoll.unregister(process.pidfd)
        code = process.wait()
        self._orphans.known.discard(process.pid)
        process.close()
        return code

    # -- requests -----------------------------------------------------------------------------

    def _take_requests(self) -> bool:
        """Serve pending requests; return False when the executor is gone."""
        for _ in range(_REQUEST_LIMIT):
            try:
                data, ancillary, _, _ = self._control.recvmsg(
                    frames.PACKET_LIMIT, socket.CMSG_SPACE(8), _RECEIVING
                )
            except BlockingIOError:
                break
            if not data:
                return False
            self._take(data, ancillary)
        return True

    def _take(self, data: bytes, ancillary: list[tuple[int, int, bytes]]) -> None:
        order = frames.decode_to_zygote(data)
        if isinstance(order, frames.Fork):
            self._spares.put_off()
            self._take_fork(order, data, descriptors(ancillary))
        elif isinstance(order, frames.Signal):
            self._signal(order)
        elif isinstance(order, frames.KeepSpares):
            self._spares.keep(order.count)
        else:
            self._control.send(frames.encode(frames.Pong()))

    def _take_fork(self, order: frames.Fork, packet: bytes, files: list[int]) -> None:
        if not files:
            self._refuse(order.number, Why.NO_PROCESS(why=Why.TOO_MANY_FILES()), no_room=True)
            return
        handler = None if order.handler is None else self._handlers.get(order.handler)
        try:
            if handler is None and order.handler is not None:
                # The run waited while this zygote replaced one that had the handler.
                self._refuse(order.number, Why.HANDLER_GONE(name=order.handler))
            elif spare := self._spares.give(packet, files):
                self._register(order.number, spare.process, spare)
            else:
                self._fork(order.number, Assignment(handler, *files))
        finally:
            for file in files:
                os.close(file)

    def _refuse(self, number: int, why: Reason, *, no_room: bool = False) -> None:
        self._send(
            frames.Exited(
                number=number, error=frames.note_of(why), why=to_json(why), no_room=no_room
            )
        )

    def _fork(self, number: int, assignment: Assignment) -> None:
        try:
            process = self._start(partial(main_of_job, self._setup, assignment))
        except OSError as error:
            reason = Why.NO_PROCESS(why=str(error.strerror))
            self._pending_exits.append(_PendingExit(number, failure=reason))
            return
        self._register(number, process)

    def _register(self, number: int, process: Child, spare: Spare | None = None) -> None:
        job = _Job(number, process, spare)
        self._jobs[number] = self._by_pidfd[process.pidfd] = job
        now_ms = int(time.time() * 1000)
        forked = frames.Forked(number=number, pid=process.pid, started_at_ms=now_ms)
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", (process.pidfd,)))
        self._control.sendmsg((frames.encode(forked),), (rights,))

    def _signal(self, order: frames.Signal) -> None:
        job = self._jobs.get(order.number)
        if job is None or job.process.poll() is not None:
            return
        # Only this process reaps it, so its pid has not been reused.
        for call in (os.killpg, os.kill):
            try:
                call(job.process.pid, order.signal)
            except (ProcessLookupError, PermissionError):
                continue  # it has no group yet, or is a setuid program by now
            if order.signal != signal.SIGKILL:
                return

    # -- exits --------------------------------------------------------------------------------

    def _on_exit(self, job: _Job) -> None:
        code = self._release(job.process)
        del self._jobs[job.number]
        is_untaken = job.spare is not None and not job.spare.has_taken_order()
        self._pending_exits.append(
            _PendingExit(job.number, job.process.pid, code, is_untaken=is_untaken)
        )

    def _end_orphans(self) -> None:
        """Kill what dead runs left behind; report their exits once nothing is left."""
        try:
            orphans = self._orphans.find()
        except OSError:
            return  # no descriptor is free to read /proc: the next round may have one
        if orphans:
            self._note_left(orphans)
            kill_and_reap(orphans)
        overdue = time.monotonic() - SURVIVOR_SECONDS
        due = [each for each in self._pending_exits if not orphans or each.since < overdue]
        for pending in due:
            self._pending_exits.remove(pending)
            if orphans or pending.left or pending.failure:
                self._send(_exited(pending, orphans))
            else:  # most do, and each page that this process touches is copied
                self._send(
                    frames.Exited(
                        number=pending.number, code=pending.code, is_untaken=pending.is_untaken
                    )
                )
        if orphans and due:
            # They have been reported; no other exit waits for them.
            self._orphans.known.update(row.pid for row in orphans)

    def _note_left(self, orphans: list[linux.ProcessRow]) -> None:
        """Note which run's orphans are still running: by session, or of the only run that ended."""
        owners = {pending.pid: pending for pending in self._pending_exits if pending.pid}
        only = next(iter(owners.values())) if len(owners) == 1 else None
        for row in orphans:
            owner = owners.get(row.session, only)
            if owner is not None and not row.is_dead and not is_helper(row.pid):
                owner.left.setdefault(row.pid, row.name)

    def _send(self, frame: frames.FromZygote) -> None:
        self._control.send(frames.encode(frame))

    def _end_all(self) -> None:
        """Kill and reap everything; the executor is gone, so nothing is reported."""
        deadline = time.monotonic() + SURVIVOR_SECONDS
        self._spares.kill()
        for job in self._jobs.values():
            self._signal(frames.Signal(number=job.number, signal=signal.SIGKILL))
        while time.monotonic() < deadline:
            self._reap()
            alive = {job.process.pid for job in self._jobs.values()}
            orphans = [row for row in linux.children_of(self._pid) if row.pid not in alive]
            if not alive and not orphans:
                return
            kill_and_reap(orphans)
            time.sleep(_POLL_SECONDS)

    def _reap(self) -> None:
        for job in list(self._jobs.values()):
            if job.process.poll() is not None:
                del self._jobs[job.number]


def _exited(pending: _PendingExit, orphans: list[linux.ProcessRow]) -> frames.Exited:
    """Return the report of an exit, with what the process left and what could not be killed."""
    return frames.Exited(
        number=pending.number,
        code=pending.code,
        error=frames.note_of(pending.failure),
        why=to_json(pending.failure),
        no_room=bool(pending.failure),
        survivors=", ".join(f"{row.name} (pid {row.pid})" for row in orphans[:5]),
        left=", ".join(sorted(pending.left.values())[:NAMED_LIMIT]),
        left_count=len(pending.left),
        is_untaken=pending.is_untaken,
    )


def main(control: socket.socket, code: JobCode, confinement: Confinement) -> None:
    """Run the zygote. Called in a process made by multiprocessing's spawn context."""
    control.set_inheritable(False)
    take_off_link_mark()
    _detach()
    try:
        _run(control, code, confinement)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the executor went away before it got the handlers
    except BaseException:  # noqa: BLE001 - printed as the process exits here in any case
        traceback.print_exc()
    os._exit(0)  # an `atexit` function or a thread of the handlers must not delay the exit


def _run(control: socket.socket, code: JobCode, confinement: Confinement) -> None:
    output = Output()
    own_files = linux.open_files()
    try:
        _become_user(confinement)
        sys.dont_write_bytecode = sys.dont_write_bytecode or code.is_reloaded
        sys.breakpointhook = BreakpointHook(code.terminal)
        handlers = load_handlers(
            code.sources,
            lambda source: _tell_source(control, source),
            lambda: _declare_builtin(code),
        )
        hooks = load_hooks(code.hooks)
        if handlers.are_awaited:
            importlib.import_module("warren.executor.fork_server.coroutines")
        _check_threads()
    except HandlersError as error:
        line, trace = clean(error.line[:_LINE_CHARS]), clean(error.traceback[-_TRACE_CHARS:])
        control.send(frames.encode(frames.LoadFailed(line=line, traceback=trace)))
        return
    linux.outlive_parent()
    output.adopt_logging(code.log_level)
    output.flush()  # otherwise each job process would write what the imports left in the buffer
    _ignore_signals()  # the imports may have changed that
    reset_signals()
    process_state, termination = ProcessState(confinement.limits), Termination()
    termination.handle_signals(process_state)
    handler_fds = frozenset(linux.open_files() - own_files)
    forker = Forker()
    setup = JobSetup(
        zygote_pid=os.getpid(),
        handlers=handlers,
        hooks=hooks,
        output=output,
        process_state=process_state,
        termination=termination,
        kept_fds=frozenset({forker.alive}),
        handler_fds=handler_fds,
        fd_limit=os.sysconf("SC_OPEN_MAX"),
    )
    fork_server = ForkServer(control, setup, forker)
    _tell_handlers(control, handlers)
    settle_memory()
    fork_server.serve()


def _detach() -> None:
    """Leave the executor's session and signals; keep jobs from reading or tracing this process."""
    os.setsid()
    # An import that never returns must not outlive the executor, and nothing listens meanwhile.
    linux.die_with_parent(os.getppid())
    _ignore_signals()
    linux.become_subreaper()
    linux.set_process_name(b"warren-zygote")
    _drop_resource_tracker()
    faulthandler.enable(2)  # a crash in C code leaves a Python traceback in the run's log
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    linux.hide_from_others()


def _become_user(confinement: Confinement) -> None:
    """Become the jobs' user, which makes the kernel reset parent-death signal and dumpability."""
    try:
        confinement.become_user()
    except UserUnusable as error:
        raise HandlersError(str(error)) from error
    linux.die_with_parent(os.getppid())
    linux.hide_from_others()


def _drop_resource_tracker() -> None:
    """Drop the executor's resource tracker; handlers that share memory start their own."""
    inherited = resource_tracker.getfd()
    assert inherited is not None
    forget_resource_tracker()
    importlib.reload(resource_tracker)
    os.close(inherited)


def _ignore_signals() -> None:
    """Ignore SIGINT and SIGTERM.

    They are blocked as well, so that one sent to a job process being forked waits for its handler.
    """
    for number in BLOCKED:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, BLOCKED)


class BreakpointHook:
    """What `breakpoint()` does: it stops on this terminal; "" = there is none."""

    def __init__(self, terminal: str) -> None:
        self.terminal = terminal

    def __call__(self, *_args: object, **_more: object) -> None:
        """Stop in the caller."""
        from warren.executor.handlers.debugging import pause  # noqa: PLC0415 - most jobs need no debugger

        pause(sys._getframe(1), self.terminal)  # noqa: SLF001 - as `pdb` does


def _declare_builtin(code: JobCode) -> None:
    """Declare the handlers for jobs without code; executors without them import nothing."""
    for name in code.builtin:
        try:
            module = importlib.import_module(f"warren.executor.builtin.{name}")
        except ModuleNotFoundError as error:
            raise HandlersError(
                f"WARREN_BUILTIN={name} needs {error.name}, which is not installed: "
                f"install Warren's wheel with [{name}]"
            ) from None
        module.declare(code)


def _check_threads() -> None:
    others = [each.name for each in threading.enumerate() if each is not threading.main_thread()]
    if others:
        raise HandlersError(
            f"importing the handlers started threads ({', '.join(others)}): "
            "start them in init=, a process with threads cannot be forked safely"
        )


def _tell_source(control: socket.socket, source: str) -> None:
    control.send(frames.encode(frames.Importing(source=clean(source[:_LINE_CHARS]))))


def _tell_handlers(control: socket.socket, handlers: Handlers) -> None:
    listed = [handlers[name] for name in sorted(handlers)]
    for packet in _packets(listed):
        control.send(frames.encode(frames.HandlersLoaded(handlers=packet)))
    folder = str(Path(_place(listed[0])[0]).parent) if listed else ""
    native_threads = linux.count_threads() - 1
    last = frames.HandlersLoaded(folder=clean(folder), last=True, native_threads=native_threads)
    control.send(frames.encode(last))


def _packets(listed: Sequence[Handler]) -> Iterator[tuple[HandlerFacts, ...]]:
    """Yield the facts of the handlers in packets; one with a schema has a packet of its own."""
    packet: list[HandlerFacts] = []
    for facts in map(_facts, listed):
        if packet and (facts.schema or packet[-1].schema or len(packet) == HANDLERS_PER_PACKET):
            yield tuple(packet)
            packet = []
        packet.append(facts)
    if packet:
        yield tuple(packet)


def _facts(handler: Handler) -> HandlerFacts:
    function = inspect.unwrap(handler.function)
    about, module = (getattr(function, name, None) for name in ("__doc__", "__module__"))
    text = about.lstrip()[:ABOUT_LIMIT] if isinstance(about, str) else ""
    return HandlerFacts(
        name=handler.name,
        about=clean(text.partition("\n")[0].rstrip())[:ABOUT_LIMIT],
        module=clean(module)[:NAME_LIMIT] if isinstance(module, str) else "",
        line=_place(handler)[1],
        process=handler.process,
        schema=handler.params.schema if handler.params else "",
    )


def _place(handler: Handler) -> tuple[str, int]:
    """Return the file of a handler and its line there; 0 if that is not known."""
    file, _, line = handler.where.rpartition(":")
    return (file, int(line)) if line.isdecimal() else ("", 0)
