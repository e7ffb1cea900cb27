"""SIGTERM in a job process: what it does depends on what the process is doing."""

import _thread
import os
import signal
import time
from collections.abc import Callable
from enum import Enum, auto
from types import FrameType
from typing import Any

from executor.context import JobStopped
from executor.surroundings import Surroundings


class Phase(Enum):
    """What a job process is doing."""

    WAITING = auto()  # for work: SIGTERM ends the wait, by `Woken`
    RUNNING = auto()  # the user's code: SIGTERM stops it, once, by `JobStopped` or by cancelling
    BETWEEN = auto()  # our own code, which must not be interrupted: SIGTERM is remembered


class Woken(BaseException):
    """SIGTERM came while the process waited for work."""


class Termination:
    """Answers SIGTERM; once it `is_ordered`, the process ends after what it is doing.

    `phase` is set by the process, `cancel` while a coroutine runs, which then is cancelled.
    """

    def __init__(self) -> None:
        self.phase = Phase.BETWEEN
        self.is_ordered = False
        self.cancel: Callable[[], Any] | None = None
        self._is_forking = False

    def listen(self, surroundings: Surroundings) -> None:
        """Answer SIGTERM from now on, also one that came while the zygote had it blocked."""
        surroundings.take_signal(signal.SIGTERM, self._on_sigterm)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        # Python forgets a signal that reaches a forked copy before its hooks have run, so a pool's
        # worker that is terminated at once would live on. Blocked, it waits for the hook.
        os.register_at_fork(
            before=self._before_fork,
            after_in_parent=self._after_fork,
            after_in_child=self._after_fork_in_copy,
        )

    def _on_sigterm(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_forking:
            # Python ignores what is raised in the hooks of a fork: come back afterwards.
            _thread.start_new_thread(self._repeat, ())
            return
        is_first, self.is_ordered = not self.is_ordered, True
        if self.phase is Phase.WAITING:
            raise Woken
        if self.phase is Phase.RUNNING and is_first:
            self._stop_user_code()

    def _stop_user_code(self) -> None:
        if self.cancel is not None:
            self.cancel()
        else:
            raise JobStopped

    def _repeat(self) -> None:
        while self._is_forking:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGTERM)

    # -- copies that the user's code forks ----------------------------------------------------

    def _before_fork(self) -> None:
        self._is_forking = True
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))

    def _after_fork(self) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))
        self._is_forking = False

    def _after_fork_in_copy(self) -> None:
        """Let SIGTERM end a copy as it ends any program."""
        self._is_forking = False
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))
