"""The process state that a run may change and that is restored before the next run."""

import os
import resource
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from warren.executor.fork_server.confinement import JobLimits
from warren.executor.fork_server.interpreter import environment, get_signal_handler, set_signal_mask

#: Holds the run's id in its environment, so that /proc/*/environ shows what the run has started.
RUN_MARK = "WARREN_RUN_ID"
_MARK = RUN_MARK.encode()

_NUMBERS = tuple(sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))
_LIMITS = tuple(
    sorted({number for name, number in vars(resource).items() if name.startswith("RLIMIT_")})
)
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


def reset_signals() -> None:
    """Give every signal the disposition that it has in a fresh Python process."""
    ignored = {signal.SIGPIPE, signal.SIGXFSZ}
    for number in _NUMBERS:
        wanted = signal.SIG_IGN if number in ignored else signal.SIG_DFL
        if get_signal_handler(number) not in (wanted, None):
            signal.signal(number, wanted)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.set_wakeup_fd(-1)


#: Where programs look for the trace that they belong to.
TRACEPARENT = "TRACEPARENT"


def _resource_limits() -> list[tuple[int, int]]:
    return [resource.getrlimit(limit) for limit in _LIMITS]


class ProcessState:
    """Working folder, environment, umask and signals, as they were when this was created.

    `limits` apply to every job process.
    """

    def __init__(self, limits: JobLimits | None = None) -> None:
        self.limits = limits or JobLimits()
        self.has_limits = self.limits != JobLimits()
        self._folder = os.getcwd()  # noqa: PTH109 - compared and set as text, once per run
        self._environ = environment()
        self._expected = dict(self._environ)
        self._umask = os.umask(0)
        os.umask(self._umask)
        self._handlers = list(map(get_signal_handler, _NUMBERS))
        self._granted: list[tuple[int, int]] = []

    def take_signal(
        self, number: signal.Signals, handler: Callable[[int, FrameType | None], Any]
    ) -> None:
        """Handle a signal, from now on and again after every run."""
        signal.signal(number, handler)
        self._handlers[_NUMBERS.index(number)] = handler

    def mark(self, run_id: int, traceparent: str = "") -> None:
        """Put the run's id and trace into the environment, and grant the run its CPU time."""
        self.limits.renew()
        # As `os.environ` does it, with fewer pages of a new process.
        value = b"%d" % run_id
        os.putenv(_MARK, value)
        self._environ[_MARK] = self._expected[_MARK] = value
        if traceparent:
            os.environ[TRACEPARENT] = traceparent

    def restore(self) -> None:
        """Restore everything but the run's id, right after the run, so that its timers stop."""
        try:  # noqa: SIM105 - `suppress` takes eight more pages of a new process
            os.chdir(self._folder)
        except OSError:
            pass  # it was removed: the next run starts in this one
        os.umask(self._umask)
        if self._environ != self._expected:
            self._restore_environment()
        self._restore_signals()

    def remember_limits(self) -> None:
        """Remember the resource limits as they are now."""
        self._granted = _resource_limits()

    def has_other_limits(self) -> bool:
        """Whether a resource limit was changed since, which nothing restores."""
        return _resource_limits() != self._granted

    def _restore_environment(self) -> None:
        for name in [name for name in self._environ if name not in self._expected]:
            del os.environ[os.fsdecode(name)]
        for name, value in self._expected.items():
            os.environ[os.fsdecode(name)] = os.fsdecode(value)
        time.tzset()  # `TZ` may have been changed

    def _restore_signals(self) -> None:
        for timer in _TIMERS:  # first: without the run's handler, its signal would be deadly
            signal.setitimer(timer, 0)
        if list(map(get_signal_handler, _NUMBERS)) != self._handlers:
            for number, handler in zip(_NUMBERS, self._handlers, strict=True):
                if handler is not None:  # None: it was not set from Python
                    signal.signal(number, handler)
        set_signal_mask(signal.SIG_SETMASK, ())
