"""The zygote: a single-threaded process that has imported the handlers and forks job processes.

    executor ──spawn──> zygote ──fork──> job process ──> whatever the job starts
        └──────────── one channel each ──────┘

This module starts it; `fork_server` is its loop. End of file on the control socket means that the
executor is gone: the zygote then kills and reaps everything and exits.
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
from multiprocessing import resource_tracker

from warren.executor.errors import UserUnusable
from warren.executor.fork_server import frames, linux
from warren.executor.fork_server.confinement import Confinement
from warren.executor.fork_server.fork_server import ForkServer
from warren.executor.fork_server.output import Output
from warren.executor.fork_server.process_state import ProcessState, reset_signals
from warren.executor.handlers.handler_registry import HandlersError, load_handlers
from warren.executor.handlers.outcomes import clean

#: Handlers' names in one packet.
_NAMES_PER_PACKET = 100
#: Longest error line and traceback reported when the handlers cannot be loaded, in characters.
_LINE_CHARS, _TRACE_CHARS = 2_000, 16_000


def main(control: socket.socket, sources: Sequence[str], confinement: Confinement) -> None:
    """Run the zygote. Called in a process made by multiprocessing's spawn context."""
    control.set_inheritable(False)
    _detach()
    try:
        _run(control, sources, confinement)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the executor went away before it got the handlers' names
    except BaseException:  # noqa: BLE001 - printed as the process exits here in any case
        traceback.print_exc()
    os._exit(0)  # an `atexit` function or a thread of the handlers must not delay the exit


def _run(control: socket.socket, sources: Sequence[str], confinement: Confinement) -> None:
    output = Output()
    own_files = linux.open_files()
    try:
        _become_user(confinement)
        handlers = load_handlers(sources, lambda source: _tell_source(control, source))
        if handlers.are_awaited:
            importlib.import_module("warren.executor.fork_server.coroutines")
        _check_threads()
    except HandlersError as error:
        line, trace = clean(error.line[:_LINE_CHARS]), clean(error.traceback[-_TRACE_CHARS:])
        control.send(frames.encode(frames.LoadFailed(line=line, traceback=trace)))
        return
    linux.outlive_parent()
    output.adopt_logging()
    output.flush()  # otherwise each job process would write what the imports left in the buffer
    reset_signals()
    _ignore_signals()
    process_state = ProcessState(confinement.limits)
    # Imported objects stay in memory shared with job processes: the collector must not touch them.
    gc.collect()
    gc.freeze()
    handler_fds = frozenset(linux.open_files() - own_files)
    fork_server = ForkServer(control, handlers, output, process_state, handler_fds)
    _tell_names(control, sorted(handlers))
    fork_server.serve()


def _detach() -> None:
    """Leave the executor's session and signals; keep jobs from reading or tracing this process."""
    os.setsid()
    # An import that never returns must not outlive the executor, and nothing listens meanwhile.
    linux.die_with_parent(os.getppid())
    _ignore_signals()
    linux.become_subreaper()
    linux.set_process_name("warren-zygote")
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
    importlib.reload(resource_tracker)
    os.close(inherited)


def _ignore_signals() -> None:
    """Ignore SIGINT and SIGTERM.

    They are blocked as well, so that one sent to a job process being forked waits for its handler.
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


def _tell_source(control: socket.socket, source: str) -> None:
    control.send(frames.encode(frames.Importing(source=clean(source[:_LINE_CHARS]))))


def _tell_names(control: socket.socket, names: list[str]) -> None:
    packets = [names[at : at + _NAMES_PER_PACKET] for at in range(0, len(names), _NAMES_PER_PACKET)]
    for packet in packets:
        control.send(frames.encode(frames.HandlerNames(names=tuple(packet), last=False)))
    last = frames.HandlerNames(names=(), last=True, native_threads=linux.count_threads() - 1)
    control.send(frames.encode(last))
