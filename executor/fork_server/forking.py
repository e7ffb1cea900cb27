"""Starts job processes with `multiprocessing`: the only place that forks."""

import contextlib
import multiprocessing
import os
from collections import defaultdict
from collections.abc import Callable
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

from warren.executor.fork_server import linux

_FORK = multiprocessing.get_context("fork")


class Forker:
    """Starts processes with the fork context. Create it before the first of them."""

    def __init__(self) -> None:
        self._own_fds = linux.open_files()

    def start(self, target: Callable[..., Any], *args: Any) -> ForkProcess:
        """Start a process that calls `target(*args)` and exits. There must be no other thread.

        Raises:
            OSError: the host cannot take another process.

        """
        method = multiprocessing.get_start_method(allow_none=True)
        process = _FORK.Process(target=_run_child, args=(method, target, args), name="warren-job")
        try:
            process.start()
        except OSError:
            self._close_abandoned_pipes()
            raise
        return process

    def _close_abandoned_pipes(self) -> None:
        """Close the two pipes that `multiprocessing` leaves open when it cannot fork.

        Both of their ends are here; of the pipes of a live process only one end is.
        """
        ends = defaultdict(list)
        for file in linux.open_files() - self._own_fds:
            with contextlib.suppress(OSError):
                ends[str(Path(f"/proc/self/fd/{file}").readlink())].append(file)
        for name, files in ends.items():
            if name.startswith("pipe:") and len(files) > 1:
                for file in files:
                    os.close(file)


def _run_child(method: str | None, target: Callable[..., Any], args: tuple[Any, ...]) -> None:
    # The fork context makes itself the child's default, but the handlers may have chosen another.
    multiprocessing.set_start_method(method, force=True)
    target(*args)


def discard(process: ForkProcess) -> None:
    """Kill and reap a process that cannot be used."""
    process.kill()
    process.join()
    process.close()
