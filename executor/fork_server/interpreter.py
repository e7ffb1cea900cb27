"""All private names of the standard library that job processes use, each with the reason.

Tested on CPython 3.11, 3.12 and 3.13 (tests/integration/executor/fork_server/test_interpreter.py).
"""

import _thread
import atexit
import os
import signal
import threading
from collections.abc import Callable, Iterable
from multiprocessing import process, resource_tracker
from typing import Any

#: Number of live threads that Python has started. `threading.active_count` misses those started
#: by `_thread`; /proc also counts threads of C libraries, which are no leftovers.
count_threads: Callable[[], int] = vars(_thread)["_count"]

#: Waits for threads, including pools of `concurrent.futures`, as the interpreter does when it
#: exits. A forked process exits with `os._exit`, so no public function does it.
join_threads: Callable[[], None] = vars(threading)["_shutdown"]

#: Calls the functions registered with `atexit`, including `multiprocessing`'s: see `join_threads`.
call_exit_functions: Callable[[], None] = vars(atexit)["_run_exitfuncs"]


def run_child(own: process.BaseProcess, parent_sentinel: int) -> int:
    """Return the exit code of a process that has just been forked, once it has run.

    What `multiprocessing.popen_fork.Popen` does in the child.
    """
    code: int = own._bootstrap(parent_sentinel)  # type: ignore[attr-defined] # noqa: SLF001 - see above
    return code


#: `signal.getsignal` wraps each answer in an enum. After every run all 60 signals are read, which
#: would take 60 of the 200 us of a short run; this takes 3.
get_signal_handler: Callable[[int], Any] = vars(signal)["_signal"].getsignal


#: `signal.pthread_sigmask` wraps its answer likewise: that takes 20 pages of a new process.
set_signal_mask: Callable[[int, Iterable[int]], Any] = vars(signal)["_signal"].pthread_sigmask


def forget_resource_tracker() -> None:
    """Have the resource tracker forget its descriptor, which is closed next.

    Since 3.14 (gh-146313), Python closes what a tracker writes to in every process that is forked,
    even if its number has become that process's channel.
    """
    vars(resource_tracker)["_resource_tracker"]._fd = None  # noqa: SLF001 - nothing public does it


def environment() -> dict[bytes, bytes]:
    """Return the live dict behind `os.environ`.

    It is compared after every run: that takes 0.7 us, and 50 us through `os.environb`.
    """
    data: dict[bytes, bytes] = vars(os.environ)["_data"]
    return data
