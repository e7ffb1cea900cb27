"""The zygote's loop: forks and signals job processes on request, and reports their exits.

Job processes and the zygote are subreapers. While a job's process is alive, everything it started
is found below it. Once it is dead, that becomes orphans: children that the zygote did not fork. An
exit is reported only when no orphan is left.
"""

import array
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from warren.broker.reasons.codes import Reason, Why, Words, to_json
from warren.executor.fork_server import frames, linux
from warren.executor.fork_server.forking import Child, Forker
from warren.executor.fork_server.job_main import Assignment, JobSetup, main_of_job, main_of_spare
from warren.executor.fork_server.spares import Spare, Spares, descriptors
from warren.executor.fork_server.termination import is_helper, kill_and_reap

#: Seconds until those are looked for again that were killed and are not gone yet.
#: Each so many children delay the next look by a millisecond. A look takes a twentieth of that:
#: with thousands of idle processes, exits that come together share one.
_CHILDREN_PER_MS = 200


class Orphans:
    """The orphans among this process's children.

    `known` are the ids of the others: of what it has forked, and of what the handlers started while
    they were imported, which is left alone.
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
        """Note whose orphans are still running: of its session, or of the only run that ended."""
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
