"""Termination: SIGTERM in a job process, and killing what dead runs left behind.

What SIGTERM does depends on what the process is doing.

When an executor and its zygote die together, nothing is left to adopt what their runs started. At
the executor's next start it is found by a mark in its environment.
"""

import _thread
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from pathlib import Path
from types import FrameType
from typing import Any

from warren.executor.fork_server import linux
from warren.executor.fork_server.interpreter import set_signal_mask
from warren.executor.fork_server.linux import ProcessRow
from warren.executor.fork_server.process_state import ProcessState
from warren.executor.handlers.context import JobStopped

#: In the environment of all that an executor's zygote starts: a folder that is this executor's own.
MARK = "WARREN_EXECUTOR_FOLDER"
#: How long an earlier boot's processes may take to end, and between two looks.
_END_SECONDS, _POLL_SECONDS = 10.0, 0.01
#: Executors may be threads of one process, which share its environment.
_environment = threading.Lock()


@contextlib.contextmanager
def marked(folder: Path | None) -> Iterator[None]:
    """Mark the program that is started in this context, and everything that it starts.

    It is linked as it starts, too: see `linux.LINK_AT_START`.
    """
    with _environment:
        added = {} if linux.LINK_AT_START in os.environ else {linux.LINK_AT_START: MARK}
        if folder is not None:
            added[MARK] = str(folder)
        os.environ.update(added)
        try:
            yield
        finally:
            for name in added:
                del os.environ[name]


def take_off_link_mark() -> None:
    """Remove what `marked` added for the linker, which nothing started here may inherit."""
    if os.environ.get(linux.LINK_AT_START) == MARK:
        del os.environ[linux.LINK_AT_START]


def end_marked(folder: Path) -> list[str]:
    """Kill the processes that carry an executor's mark; return their names.

    Call it before that executor starts anything. A process that clears its environment is missed.
    """
    entry = f"{MARK}={folder}".encode()
    names: dict[int, str] = {}
    deadline = time.monotonic() + _END_SECONDS
    while (living := _carriers(entry)) and time.monotonic() < deadline:
        names |= living
        for pid in living:
            _kill(os.kill, pid)
        time.sleep(_POLL_SECONDS)
    return sorted(names.values())


def _carriers(entry: bytes) -> dict[int, str]:
    carriers = {}
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if entry in path.read_bytes().split(b"\0"):
                carriers[int(path.parent.name)] = (path.parent / "comm").read_text().strip()
    return carriers


def is_helper(pid: int) -> bool:
    """Whether a process is a helper of `multiprocessing`, or is already ending by itself."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True  # it has ended
    named = (b"multiprocessing.resource_tracker", b"multiprocessing.forkserver")
    return not words or any(name in words for name in named)


def kill_and_reap(orphans: Iterable[ProcessRow]) -> None:
    """Kill each orphan with its process group, and reap those that are already dead.

    Their children become ours in turn, so the caller repeats this until none is left.
    """
    own_group = os.getpgrp()
    for orphan in orphans:
        # As long as a member has not been reaped, the group's id cannot have been reused.
        if orphan.group != own_group:
            _kill(os.killpg, orphan.group)
        _kill(os.kill, orphan.pid)
        try:
            os.waitid(os.P_PID, orphan.pid, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            continue


def _kill(call: object, target: int) -> None:
    assert callable(call)
    try:
        call(target, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        # Already gone, or another user's (a setuid program): the next round shows which.
        return


#: What the zygote blocks, so that one which reaches a job process being forked waits for it.
BLOCKED = (signal.SIGINT, signal.SIGTERM)


class Phase(Enum):
    """What a job process is doing."""

    WAITING = auto()  # for work: SIGTERM ends the wait with `WaitInterrupted`
    RUNNING = auto()  # user code: the first SIGTERM stops it, by `JobStopped` or by cancelling it
    BETWEEN = auto()  # our own code, which must not be interrupted: SIGTERM is only noted


#: By names of this module: each look into an enum takes an exception, and pages of a new process.
WAITING, RUNNING, BETWEEN = Phase


class WaitInterrupted(BaseException):
    """SIGTERM arrived while the process waited for work."""


class Termination:
    """Handles SIGTERM; once it `is_requested`, the process exits after its current step.

    `has_interrupted` says that SIGTERM arrived before the user's code returned.
    The process sets `phase`, and `cancel` while a coroutine runs, to cancel it.
    """

    def __init__(self) -> None:
        self.phase = BETWEEN
        self.is_requested = False
        self.has_interrupted = False
        self.cancel: Callable[[], Any] | None = None
        self._is_listening = False
        self._is_forking = False
        self._ignore_nudges: Callable[[], object] = lambda: None

    def handle_signals(self, process_state: ProcessState) -> None:
        """Handle SIGTERM and SIGINT once they are not blocked any more.

        The zygote does this for its job processes, which are spared the work, and keeps them
        blocked. A signal to a process that is just being forked waits until it listens.
        """
        process_state.take_signal(signal.SIGINT, signal.default_int_handler)
        process_state.take_signal(signal.SIGTERM, self._on_sigterm)
        # A signal that comes between Python's last look and a system call is noticed when the call
        # ends, which may be never. The SIGCONT that follows interrupts the call, but no later one.
        process_state.take_signal(signal.SIGCONT, _do_nothing)
        self._ignore_nudges = linux.default_action(signal.SIGCONT)

    def listen(self) -> None:
        """Receive the signals from now on; idempotent."""
        if self._is_listening:
            return
        self._is_listening = True
        set_signal_mask(signal.SIG_SETMASK, ())
        # Python drops a signal that reaches a forked copy before its fork hooks have run, so a pool
        # worker that is terminated at once would survive. While blocked, it waits for the hook.
        os.register_at_fork(
            before=self._before_fork,
            after_in_parent=self._after_fork,
            after_in_child=self._after_fork_in_copy,
        )

    def _on_sigterm(self, _number: int, frame: FrameType | None) -> None:
        # Python looks for signals as it enters a function, so also before a hook's first line.
        is_in_hook = frame is not None and frame.f_code in _HOOKS
        if self._is_forking or is_in_hook:
            # Python ignores exceptions raised in fork hooks: send the signal again afterwards.
            _thread.start_new_thread(self._resend, ())
            return
        if signal.getsignal(signal.SIGCONT) is _do_nothing:
            self._ignore_nudges()
        is_first, self.is_requested = not self.is_requested, True
        if self.phase is WAITING:
            raise WaitInterrupted
        if self.phase is RUNNING and is_first:
            self.has_interrupted = True
            self._stop_user_code()

    def _stop_user_code(self) -> None:
        if self.cancel is not None:
            self.cancel()
        else:
            raise JobStopped

    def _resend(self) -> None:
        while self._is_forking:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGTERM)

    # -- forks made by user code --------------------------------------------------------------

    def _before_fork(self) -> None:
        self._is_forking = True
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))

    def _after_fork(self) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))
        self._is_forking = False

    def _after_fork_in_copy(self) -> None:
        """Let SIGTERM end a forked copy as it ends any program."""
        self._is_forking = False
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))


#: The hooks of forks that user code makes, in the process that forks.
_HOOKS = {Termination._before_fork.__code__, Termination._after_fork.__code__}  # noqa: SLF001


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    pass
