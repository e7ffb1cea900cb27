"""Forks job processes and reaps them, each by its own id.

Not by `multiprocessing.Process`, whose pipes, finalizers and bootstrap are a fifth of what a short
run in a fresh process costs. What that does for the objects of `multiprocessing` that the handlers
made while they were imported is done here too.
"""

import itertools
import os
import threading
import traceback
from collections.abc import Callable
from multiprocessing import process, util
from typing import NoReturn


def fork(live: Callable[[], NoReturn]) -> int:
    """Start a process that does `live`; return its id. There must be no other thread.

    Raises:
        OSError: there is no room for another process.

    """
    pid = os.fork()
    if pid == 0:
        try:
            _leave_the_parent()
            live()
        except BaseException:  # noqa: BLE001 - whatever it is, the parent's code must not go on here
            traceback.print_exc()
        finally:
            os._exit(1)
    return pid


def exit_code(pid: int) -> int | None:
    """Reap a child that is dead; return its exit code, negative for a signal, None if it lives."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _leave_the_parent() -> None:
    """Make the libraries see that this is another process, as `multiprocessing` would."""
    state = vars(process)
    state["_children"] = set()
    state["_process_counter"] = itertools.count(1)
    vars(util)["_finalizer_registry"].clear()
    vars(util)["_run_after_forkers"]()
    threading.main_thread()._set_native_id()  # type: ignore[attr-defined] # noqa: SLF001 - fork does not
