"""The real `warren` command as a process of its own, as a user runs it."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.support.eventually import eventually
from tests.support.processes import (
    Process,
    basic_environment,
    descendants,
    identify,
    started,
)

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)

#: The console script of the environment that the tests run in.
WARREN = Path(sys.executable).with_name("warren")


class Command:
    """A running `warren`, in its own session, both outputs in one file.

    It is not watched over: what it leaves behind stays, so that a test can see it. `close` ends the
    whole tree, so a command is best used with `with`.
    """

    def __init__(
        self,
        *arguments: str,
        folder: Path,
        env: Mapping[str, str] | None = None,
        program: Path = WARREN,
    ) -> None:
        """Start `warren ARGUMENTS` in `folder` with little more than `env` in its environment."""
        # The parent-death signal is sent when the starting thread ends.
        assert threading.current_thread() is threading.main_thread(), "start it in the main thread"
        folder.mkdir(parents=True, exist_ok=True)
        self.output = folder / f"{program.name}-{len(started)}.log"
        with self.output.open("wb") as file:
            self._process = subprocess.Popen(
                [str(program), *arguments],
                cwd=folder,
                env=basic_environment() | {"HOME": str(folder)} | dict(env or {}),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_the_tests,  # noqa: PLW1509 - one system call, no lock, no import
            )
        started.append(identify(self.pid))
        self._seen: dict[int, Process] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process id of the command itself."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the command itself still runs."""
        return self._process.poll() is None

    def text(self) -> str:
        """Return everything it has written so far."""
        return self.output.read_text(errors="replace")

    def wait_for(self, words: str, seconds: float = 30.0) -> str:
        """Wait until a line holds `words` and return it; fail at once when the command ends."""
        return eventually(lambda: self._line_with(words), seconds)

    def tree(self) -> list[Process]:
        """Return every living process that it started, and remember them for `close`."""
        found = descendants(self.pid)
        self._seen |= {process.pid: process for process in found}
        return found

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the command itself; ended already is fine."""
        self.tree()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """End the command itself, and nothing else, by SIGKILL and wait until it is gone."""
        self.send(signal.SIGKILL)
        self._process.wait(30.0)

    def wait(self, seconds: float = 30.0) -> int:
        """Wait for the command's end and return its exit status; negative for a signal."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            text = f"{self._process.args!r} still runs after {seconds} s: {self.text()[-4000:]}"
            raise AssertionError(text) from error

    def close(self) -> None:
        """End it and every process known to come from it, at once."""
        self.kill()
        for process in self._seen.values():
            if process.is_alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)

    def _line_with(self, words: str) -> str:
        ended = not self.is_running
        for line in self.text().splitlines():
            if words in line:
                return line
        if ended:
            status = self._process.returncode
            raise RuntimeError(f"ended with {status} before {words!r}: {self.text()[-4000:]}")
        return ""


def run_warren(
    *arguments: str,
    folder: Path,
    env: Mapping[str, str] | None = None,
    seconds: float = 60.0,
    said: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run `warren ARGUMENTS` to its end and return its status and its two outputs.

    `said` is what it reads from its standard input.
    """
    return subprocess.run(
        [str(WARREN), *arguments],
        cwd=folder,
        env=basic_environment() | {"HOME": str(folder)} | dict(env or {}),
        input=said,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def _die_with_the_tests() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
