"""The zygote: a single-threaded process that has imported the handlers and forks job processes.

    executor ──spawn──> zygote ──fork──> job process ──> whatever the job starts
        └──────────── one channel each ──────┘

This module starts it; `fork_server` is its loop. End of file on the control socket means that the
executor is gone: the zygote then kills and reaps everything and exits.
"""

import faulthandler
import importlib
import inspect
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing import resource_tracker
from pathlib import Path

from warren.broker.messages.values import ABOUT_LIMIT, HandlerFacts
from warren.executor.errors import UserUnusable
from warren.executor.fork_server import frames, linux
from warren.executor.fork_server.confinement import Confinement
from warren.executor.fork_server.fork_server import ForkServer
from warren.executor.fork_server.forking import Forker, settle_memory
from warren.executor.fork_server.interpreter import forget_resource_tracker
from warren.executor.fork_server.job_main import JobSetup
from warren.executor.fork_server.output import Output
from warren.executor.fork_server.process_state import ProcessState, reset_signals
from warren.executor.fork_server.termination import BLOCKED, Termination, take_off_link_mark
from warren.executor.handlers.handler_registry import (
    NAME_LIMIT,
    Handler,
    Handlers,
    HandlersError,
    load_handlers,
)
from warren.executor.handlers.hooks import JobCode, load_hooks
from warren.executor.handlers.outcomes import clean

#: Handlers in one packet: even of the longest names, they are below its limit.
HANDLERS_PER_PACKET = 25
#: Longest error line and traceback reported when the handlers cannot be loaded, in characters.
_LINE_CHARS, _TRACE_CHARS = 2_000, 16_000


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
    """Declare the handlers for jobs without code; executors without any import nothing of them."""
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
