"""A service started by tests, tracked and ended by process id."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.eventually import eventually
from tests.support.processes import (
    SESSION_MARK,
    Process,
    basic_environment,
    descendants,
    identify,
    started,
)

_CONTAINED = Path(__file__).with_name("contained_command.py")


class Service:
    """A running program with everything it started, in its own session, writing to a file.

    It ends with the process that makes it; or, if it is shared, with the process `owner`, and then
    it is not one of those that this session has to end.
    """

    def __init__(
        self, command: Sequence[str], *, env: dict[str, str], output: Path, owner: int | None = None
    ) -> None:
        self._output = output
        env = basic_environment() | env
        if owner is not None:
            env.pop(SESSION_MARK, None)
        with output.open("ab") as file:
            self._keeper = subprocess.Popen(
                [sys.executable, "-S", str(_CONTAINED), str(owner or os.getpid()), *command],
                env=env,
                cwd=output.parent,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if owner is None:
            started.append(identify(self._keeper.pid))

    @property
    def keeper(self) -> int:
        """The id of the process that ends the program and everything it started."""
        return self._keeper.pid

    @property
    def has_ended(self) -> bool:
        """Whether the program and everything it started are gone."""
        return self._keeper.poll() is not None

    def processes(self) -> list[Process]:
        """Return the program's live processes, without its keeper."""
        return descendants(self._keeper.pid)

    def pid_of(self, name: str) -> int:
        """Return the id of the only process with this name, waiting for it briefly."""
        found = eventually(lambda: self._named(name))
        return found[0].pid

    def _named(self, name: str) -> list[Process]:
        return [process for process in self.processes() if process.name == name]

    def signal(self, pid: int, number: signal.Signals) -> None:
        """Send a signal to one of the program's processes, if it is still there."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def wait(self, seconds: float) -> bool:
        """Wait until everything has ended; return False on timeout."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._keeper.wait(seconds)
        return self.has_ended

    def end(self) -> None:
        """End the program and everything it started, and wait for it."""
        self._keeper.terminate()
        if not self.wait(60):
            text = f"{self._keeper.args!r} did not end, see {self._output}"
            raise AssertionError(text)

    def last_words(self) -> str:
        """Return the end of the program's output."""
        return self._output.read_text(errors="replace")[-4000:]
