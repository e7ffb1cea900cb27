"""Starts job processes with `multiprocessing`: the only place that forks.

A job process sees itself as a `ForkProcess`. Its parent holds only its id and its pidfd: neither a
fork nor the child's start gets slower with the number of processes, and every page that either
touches is copied.

Some are forked in advance, and belong to no job until they take their first order:

    forked ──start-up done──> spare ──takes an order──> the process of a job
                                └─ dies: replaced, a little later each time

They are forked when no order has come for a moment, so that later runs need not wait for a fork. A
spare that died before it took its order has not begun anything: its run is started again.
"""

import array
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkProcess
from typing import NamedTuple

from warren.executor.fork_server import frames
from warren.executor.fork_server.interpreter import run_child

#: Seconds without a request after which spares are forked, and how many in one go.
QUIET_SECONDS = 0.01
_FORK_LIMIT = 4
#: Seconds until another spare follows one that died or could not be forked: at first, at most.
BACKOFF_SECONDS = (0.1, 30.0)
#: From this delay in seconds on it is reported: several have failed in a row.
_TOLD_SECONDS = 0.8
#: What a spare answers once it has its order, before it acts on it.
_TAKEN = b"taken"


class Child:
    """A process as its parent holds it. Its pidfd is readable once it has ended."""

    __slots__ = ("_code", "pid", "pidfd")

    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return its exit code, negative if a signal ended it; None while it lives."""
        return self._reap(os.WNOHANG)

    def wait(self) -> int:
        """Wait until it has ended; return as `poll`."""
        code = self._reap(0)
        assert code is not None
        return code

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        os.close(self.pidfd)

    def _reap(self, options: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code


class Forker:
    """Starts processes, which inherit a descriptor that shows whether their maker lives."""

    def __init__(self) -> None:
        #: By it `multiprocessing.parent_process` knows whether the zygote lives.
        self.alive, self._end = os.pipe()
        # Each child has a copy of this one, and takes it for itself.
        self._process = _Process()

    def start(self, action: Callable[[], object]) -> Child:
        """Start a process that calls `action()` and exits. There must be no other thread.

        Raises:
            OSError: the host cannot take another process.

        """
        # Otherwise the child's first collection would write to all that was made here since the
        # last one, and with it copy the pages.
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(self._end)
                self._process.action = action
                code = run_child(self._process, self.alive)
            finally:
                os._exit(code)
        try:
            # Before any reaping, so that the pid cannot have been reused by a later process.
            return Child(pid, os.pidfd_open(pid))
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise

    def close(self) -> None:
        """Close the descriptor that shows the processes that this one lives."""
        os.close(self.alive)
        os.close(self._end)


class _Process(ForkProcess):
    # The fork context would make itself the child's start method. That is the handlers' to choose.
    _start_method = None  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__(name="warren-job")
        self.action: Callable[[], object] = bool

    def run(self) -> None:
        self.action()


#: Sizes of objects whose gaps are filled, in bytes; how many adjacent ones show that no gap is
#: left, and how many are made at most.
_GAP_SIZES = range(48, 1_040, 16)
_ENOUGH_SIDE_BY_SIDE, _FILLERS_LIMIT = 16, 600
_fillers: list[bytes] = []


def settle_memory() -> None:
    """Arrange what is in memory so that few pages of it are copied after each fork.

    Call it once, when everything is imported and before the first fork. It takes 0.8 MB for good.
    """
    gc.collect()
    # What was imported stays in memory that the children share: the collector, which would write to
    # it, never runs here, and children collect what they have made themselves.
    gc.disable()
    # A child that looks up a method would otherwise release the name cached there before.
    sys._clear_type_cache()  # noqa: SLF001 - a documented function
    for size in _GAP_SIZES:
        _fillers.extend(_fill_gaps(size))


def _fill_gaps(size: int) -> Iterator[bytes]:
    """Yield objects of this size, until they lie side by side.

    So objects made after a fork lie together, not in the gaps that imports left on many pages.
    """
    last, row = 0, 0
    for _ in range(_FILLERS_LIMIT):
        filler = bytes(size - sys.getsizeof(b""))
        yield filler
        row = row + 1 if 0 < id(filler) - last <= size + 16 else 0
        last = id(filler)
        if row == _ENOUGH_SIDE_BY_SIDE:
            return


def discard(child: Child) -> None:
    """Kill and reap a process that cannot be used."""
    child.kill()
    child.wait()
    child.close()


class Spare(NamedTuple):
    """A spare process and the zygote's end of the link by which it gets its order."""

    process: Child
    link: socket.socket

    def has_taken_order(self) -> bool:
        """Whether it had taken the order that it was sent before it ended; closes the link."""
        try:
            return self.link.recv(len(_TAKEN), socket.MSG_DONTWAIT) == _TAKEN
        except OSError:
            return False
        finally:
            self.link.close()


class Spares:
    """The spares of one zygote.

    `start(link)` forks one that waits at its end of the link, `reap(process)` releases one that has
    ended and returns its exit code. `on_failing(why, again_in)` is called when they keep failing.
    """

    def __init__(
        self,
        start: Callable[[socket.socket], Child],
        *,
        reap: Callable[[Child], int],
        on_failing: Callable[[str, float], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start = start
        self._reap = reap
        self._on_failing = on_failing
        self._clock = clock
        self._wanted = 0
        self._all: dict[int, Spare] = {}
        self._due_at = 0.0
        self._backoff = BACKOFF_SECONDS[0]

    def keep(self, count: int) -> None:
        """Keep this many from now on; end the surplus."""
        self._wanted = count
        for spare in list(self._all.values())[count:]:
            spare.link.shutdown(socket.SHUT_RDWR)

    def due_in(self) -> float | None:
        """Return in how many seconds `fork_some` is due; None if none is missing."""
        if len(self._all) >= self._wanted:
            return None
        return max(0.0, self._due_at - self._clock())

    def put_off(self) -> None:
        """Note that a request came: spares can wait."""
        self._due_at = max(self._due_at, self._clock() + QUIET_SECONDS)

    def fork_some(self) -> None:
        """Fork some of those that are missing, if it is time."""
        if self._clock() < self._due_at:
            return
        try:
            for _ in range(min(self._wanted - len(self._all), _FORK_LIMIT)):
                self._fork()
        except OSError as error:
            self._back_off(str(error.strerror))

    def give(self, order: bytes, files: list[int]) -> Spare | None:
        """Hand an order with its files to a spare; return the spare, or None if there is none.

        It is no longer a spare, but still watched.
        """
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))
        for pidfd, spare in list(self._all.items()):
            try:
                spare.link.sendmsg((order,), (rights,), socket.MSG_DONTWAIT)
            except OSError:
                continue  # it is dead, which will show
            del self._all[pidfd]
            self._backoff = BACKOFF_SECONDS[0]
            return spare
        return None

    def take_exit(self, pidfd: int) -> None:
        """Reap a spare that has ended, and replace it later."""
        spare = self._all.pop(pidfd)
        spare.link.close()
        code = self._reap(spare.process)
        if len(self._all) < self._wanted:
            self._back_off(f"ended with exit code {code}")

    def kill(self) -> None:
        """Kill and reap all of them."""
        self._wanted = 0
        for spare in self._all.values():
            spare.process.kill()
        for pidfd in list(self._all):
            self.take_exit(pidfd)

    def _fork(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            process = self._start(theirs)
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._all[process.pidfd] = Spare(process, ours)

    def _back_off(self, why: str) -> None:
        self._due_at = self._clock() + self._backoff
        if self._backoff >= _TOLD_SECONDS:
            self._on_failing(why, self._backoff)
        self._backoff = min(2 * self._backoff, BACKOFF_SECONDS[1])


def await_order(link: socket.socket) -> tuple[frames.Fork, list[int]] | None:
    """Wait, in a spare, for its order and the files that came with it; None when it is to end."""
    data, ancillary, _, _ = link.recvmsg(
        frames.PACKET_LIMIT, socket.CMSG_SPACE(8), socket.MSG_CMSG_CLOEXEC
    )
    if not data:
        return None
    # That it has been read proves nothing: a process that is being killed still reads.
    link.send(_TAKEN)
    link.close()
    order = frames.decode_to_zygote(data)
    assert isinstance(order, frames.Fork), "a zygote passes on nothing else"
    return order, descriptors(ancillary)


def descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """Return the descriptors that came with a packet, as many as there was room for."""
    numbers = array.array("i")
    for _level, _kind, data in ancillary:
        numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    return list(numbers)
