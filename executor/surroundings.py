"""What a run may change in its process and the next run must find as it was."""

import contextlib
import os
import signal
from collections.abc import Callable
from types import FrameType

#: Names a run in its environment, so that whatever it starts can be told in /proc/*/environ.
RUN_MARK = "WARREN_RUN_ID"

_SignalHandler = Callable[[int, FrameType | None], object] | int | None


def reset_signals() -> None:
    """Give every signal the meaning that a fresh Python process gives it, and block none."""
    ignored = {signal.SIGPIPE, signal.SIGXFSZ}
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        wanted = signal.SIG_IGN if number in ignored else signal.SIG_DFL
        if signal.getsignal(number) not in (wanted, None):
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
        self._numbers = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
        self._handlers = self._read_handlers()

    def enter(self, run_id: int) -> None:
        """Put everything back and mark the environment with the run's id."""
        with contextlib.suppress(OSError):
            os.chdir(self._folder)
        os.umask(self._umask)
        if self._environ != self._expected:
            self._restore_environment()
        os.environ[RUN_MARK] = str(run_id)
        self._expected[RUN_MARK.encode()] = self._environ[RUN_MARK.encode()]
        self._restore_signals()

    def _restore_environment(self) -> None:
        for name in [name for name in self._environ if name not in self._expected]:
            del os.environ[os.fsdecode(name)]
        for name, value in self._expected.items():
            os.environ[os.fsdecode(name)] = os.fsdecode(value)

    def _restore_signals(self) -> None:
        if self._read_handlers() != self._handlers:
            for number, handler in zip(self._numbers, self._handlers, strict=True):
                if handler is not None:
                    signal.signal(number, handler)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def _read_handlers(self) -> list[_SignalHandler]:
        return [signal.getsignal(number) for number in self._numbers]
