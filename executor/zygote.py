"""The zygote: one single-threaded process that has the handlers imported and forks job processes.

    executor ──spawn──> zygote ──fork──> job process ──> whatever the job starts
        └──────────── one channel each ──────┘

This file is its start; `brood` is its work. End of file on the control socket means that the
executor is gone: the zygote kills and reaps everything and ends.
"""

import faulthandler
import gc
import importlib
import os
import signal
import socket
import threading
import traceback
from collections.abc import Sequence

from executor import frames, linux
from executor.brood import Brood
from executor.failures import clean
from executor.handlers import HandlersError, load_handlers
from executor.output import Output
from executor.surroundings import Surroundings, reset_signals

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
        if handlers.are_awaited:
            importlib.import_module("executor.coroutines")
        _check_threads()
    except HandlersError as error:
        line, trace = clean(error.line[:_LINE_CHARS]), clean(error.traceback[-_TRACE_CHARS:])
        control.send(frames.encode(frames.Unloadable(line=line, traceback=trace)))
        return
    linux.outlive_parent()
    output.adopt_logging()
    output.flush()  # or each process would write what is left of an import's output again
    reset_signals()
    _shut_out_signals()
    surroundings = Surroundings()
    # What was imported stays shared with the job processes: the collector must not touch it.
    gc.collect()
    gc.freeze()
    kept = frozenset(_open_files() - own_files)
    brood = Brood(control, handlers, output, surroundings, kept)
    _tell_names(control, sorted(handlers))
    brood.serve()


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
