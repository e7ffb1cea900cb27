"""What a run may change in its process and the next run must find as it was."""

import contextlib
import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

#: Names a run in its environment, so that whatever it starts can be told in /proc/*/environ.
RUN_MARK = "WARREN_RUN_ID"

#: Of `_signal`, not `signal`: that one makes an enum of each, 64 times for every run.
_get_handler: Callable[[int], Any] = vars(signal)["_signal"].getsignal
_NUMBERS = tuple(sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))


def reset_signals() -> None:
    """Give every signal the meaning that a fresh Python process gives it."""
    ignored = {signal.SIGPIPE, signal.SIGXFSZ}
    for number in _NUMBERS:
        wanted = signal.SIG_IGN if number in ignored else signal.SIG_DFL
        if _get_handler(number) not in (wanted, None):
            signal.signal(number, wanted)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.set_wakeup_fd(-1)


class Surroundings:
    """Working folder, environment, umask and signals, as they were when this was made."""

    def __init__(self) -> None:
        self._folder = os.getcwd()  # noqa: PTH109 - compared and set as text, once per run
        # The dict behind os.environ: comparing it costs 0.5 us, a copy through its API 15.
        self._environ: dict[bytes, bytes] = vars(os.environ)["_data"]
        self._expected = dict(self._environ)
        self._umask = os.umask(0)
        os.umask(self._umask)
        self._handlers = list(map(_get_handler, _NUMBERS))

    def take_signal(
        self, number: signal.Signals, handler: Callable[[int, FrameType | None], Any]
    ) -> None:
        """Answer a signal, from now on and after every run."""
        signal.signal(number, handler)
        self._handlers[_NUMBERS.index(number)] = handler

    def mark(self, run_id: int) -> None:
        """Name the run in the environment."""
        os.environ[RUN_MARK] = str(run_id)
        self._expected[RUN_MARK.encode()] = self._environ[RUN_MARK.encode()]

    def restore(self) -> None:
        """Put everything back, but for the mark; at once after a run, lest its timers go on."""
        with contextlib.suppress(OSError):  # removed meanwhile: the next run starts where we are
            os.chdir(self._folder)
        os.umask(self._umask)
        if self._environ != self._expected:
            self._restore_environment()
        self._restore_signals()

    def _restore_environment(self) -> None:
        for name in [name for name in self._environ if name not in self._expected]:
            del os.environ[os.fsdecode(name)]
        for name, value in self._expected.items():
            os.environ[os.fsdecode(name)] = os.fsdecode(value)

    def _restore_signals(self) -> None:
        if list(map(_get_handler, _NUMBERS)) != self._handlers:
            for number, handler in zip(_NUMBERS, self._handlers, strict=True):
                if handler is not None:  # None: set by something that is not Python
                    signal.signal(number, handler)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
