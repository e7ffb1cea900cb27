"""Starts job processes with `multiprocessing`: the only place that forks.

A job process sees itself as a `ForkProcess`. The one that forked it holds its id and its pidfd, and
no more: neither a fork nor what follows in the child grows dearer with the number of processes that
live, and what a fork touches in either is copied page by page.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkProcess

from warren.executor.fork_server.interpreter import run_child


class Child:
    """A process as the one that forked it holds it. Its pidfd is readable once it has ended."""

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
        """Send SIGKILL."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the pidfd."""
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


#: Sizes of objects of which the gaps are filled, in bytes; how many that lie side by side show that
#: there is none left, and how many are made at most.
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
    # A child that looks up a method would otherwise give back the name that was noted there before.
    sys._clear_type_cache()  # noqa: SLF001 - a documented function
    for size in _GAP_SIZES:
        _fillers.extend(_fill_gaps(size))


def _fill_gaps(size: int) -> Iterator[bytes]:
    """Yield objects of this size, until they lie side by side.

    So what is made after a fork lies together, not in the gaps that imports left on many pages.
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
