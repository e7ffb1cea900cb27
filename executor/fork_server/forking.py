"""Starts job processes with `multiprocessing`: the only place that forks.

A job process is a `ForkProcess`. What differs from the library's own is how it is held: by its
pidfd instead of two pipes, so that neither a fork nor what follows in the child grows dearer with
the number of processes that live.
"""

import contextlib
import gc
import os
import signal
from collections.abc import Callable
from multiprocessing import popen_fork
from multiprocessing.context import ForkProcess

from warren.executor.fork_server.interpreter import forget_child, run_child


class Forker:
    """Starts processes, which inherit a descriptor that shows whether their maker lives."""

    def __init__(self) -> None:
        #: By it `multiprocessing.parent_process` knows whether the zygote lives.
        self.alive, self._end = os.pipe()

    def start(self, action: Callable[[], object]) -> ForkProcess:
        """Start a process that calls `action()` and exits. There must be no other thread.

        Its `sentinel` is a pidfd.

        Raises:
            OSError: the host cannot take another process.

        """
        process = _Process(action, self.alive, self._end)
        # Otherwise the child's first collection would write to all that was made here since the
        # last one, and with it copy the pages.
        gc.freeze()
        process.start()
        # With each start `multiprocessing` waits for each of its children, thousands perhaps; and
        # it would have every child take them apart. Whoever starts this one waits for it.
        forget_child(process)
        return process

    def close(self) -> None:
        """Close the descriptor that shows the processes that this one lives."""
        os.close(self.alive)
        os.close(self._end)


class _Process(ForkProcess):
    # The fork context would make itself the child's start method. That is the handlers' to choose.
    _start_method = None  # type: ignore[assignment]

    def __init__(self, action: Callable[[], object], alive: int, end: int) -> None:
        super().__init__(name="warren-job")
        self._action = action
        self.alive = alive
        self.end = end

    def run(self) -> None:
        self._action()

    @staticmethod
    def _Popen(process_obj: "_Process") -> "_Popen":  # type: ignore[override] # noqa: N802 - the library's name
        return _Popen(process_obj)


class _Popen(popen_fork.Popen):
    sentinel: int

    def __init__(self, process: _Process) -> None:  # nothing is left to flush: the zygote is silent
        self.returncode = None
        self.finalizer = None
        self._launch(process)

    def _launch(self, process: _Process) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.close(process.end)
                code = run_child(process, process.alive)
            finally:
                os._exit(code)
        try:
            # Before any reaping, so that the pid cannot have been reused by a later process.
            self.sentinel = os.pidfd_open(self.pid)
        except OSError:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            raise

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.sentinel)


def discard(process: ForkProcess) -> None:
    """Kill and reap a process that cannot be used."""
    process.kill()
    process.join()
    process.close()
