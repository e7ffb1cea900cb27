"""The real `warren` command as a separate process, as users run it."""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Self, TextIO

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
#: Commands that do one thing and exit, without threads or processes.
SHORT = {
    *("alarms", "apps", "audit", "check", "db", "executors", "jobs", "pause", "report", "resume"),
    *("runs", "schedulers", "users"),
}
_WARM = Path(__file__).with_name("warm_command.py")


class Command:
    """A running `warren` in its own session, with both outputs in one file.

    It is not supervised: processes it leaves behind stay, so that a test can see them. `close` ends
    the whole tree, so a command is best used with `with`.
    """

    def __init__(
        self,
        *arguments: str,
        folder: Path,
        env: Mapping[str, str] | None = None,
        program: Path = WARREN,
    ) -> None:
        """Start `warren ARGUMENTS` in `folder` with a minimal environment plus `env`."""
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

    def wait_for(self, words: str, seconds: float = 60.0) -> str:
        """Wait for a line that contains `words` and return it; fail at once if the command ends."""
        return eventually(lambda: self._line_with(words), seconds)

    def tree(self) -> list[Process]:
        """Return every live process that it started, and remember them for `close`."""
        found = descendants(self.pid)
        self._seen |= {process.pid: process for process in found}
        return found

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the command itself, if it is still running."""
        self.tree()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kill only the command itself by SIGKILL and wait until it is gone."""
        self.send(signal.SIGKILL)
        self._process.wait(30.0)

    def wait(self, seconds: float = 60.0) -> int:
        """Wait for the command's end and return its exit status; negative for a signal."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            text = f"{self._process.args!r} still runs after {seconds} s: {self.text()[-4000:]}"
            raise AssertionError(text) from error

    def close(self) -> None:
        """Kill it and every process known to come from it."""
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
    seconds: float = 120.0,
    said: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run `warren ARGUMENTS` and return its status and both outputs.

    `said` is its standard input. Short commands run in a fork of a process that has already
    imported them; `tests/acceptance/test_cli_usage.py` runs each one as a program too.
    """
    environment = basic_environment() | {"HOME": str(folder)} | dict(env or {})
    if arguments[:1] and arguments[0] in SHORT:
        return _warm.run(arguments, folder, environment, seconds, said)
    return run_program(*arguments, folder=folder, env=env, seconds=seconds, said=said)


def run_program(
    *arguments: str,
    folder: Path,
    env: Mapping[str, str] | None = None,
    seconds: float = 120.0,
    said: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run `warren ARGUMENTS` as a separate program, even if the command is short."""
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


class WarmCommands:
    """Runs commands in forks of a process that has imported them; it is started on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    def run(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        seconds: float,
        said: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run one command as `subprocess.run` does, with the same errors."""
        request = {"arguments": arguments, "folder": str(folder), "environment": environment}
        with (
            _file(json.dumps(request)) as wanted,
            _file(said) as stdin,
            _file() as stdout,
            _file() as stderr,
        ):
            reading, writing = os.pipe()
            files = (wanted.fileno(), writing, stdin.fileno(), stdout.fileno(), stderr.fileno())
            with os.fdopen(reading, encoding="ascii") as answers:
                try:
                    socket.send_fds(self._started(), [b"1"], files)
                finally:
                    os.close(writing)
                status = _status(answers, arguments, seconds)
            return subprocess.CompletedProcess(arguments, status, _text(stdout), _text(stderr))

    def end(self) -> None:
        """Let the process exit and wait until it is gone."""
        if self._process is not None and self._requests is not None:
            self._requests.close()
            self._process.wait(30.0)
            self._process = self._requests = None

    def _started(self) -> socket.socket:
        with self._lock:
            if self._requests is None:
                self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    self._process = subprocess.Popen(
                        [sys.executable, "-P", str(_WARM), str(theirs.fileno()), *sorted(SHORT)],
                        env=basic_environment(),
                        pass_fds=[theirs.fileno()],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        start_new_session=True,
                    )
                started.append(identify(self._process.pid))
            return self._requests


_warm = WarmCommands()
end_warm_commands = _warm.end


def _file(content: str = "") -> BinaryIO:
    file = os.fdopen(os.memfd_create("warm"), "w+b", buffering=0)
    file.write(content.encode())
    file.seek(0)
    return file


def _text(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode()


def _status(answers: TextIO, arguments: Sequence[str], seconds: float) -> int:
    pid = int(answers.readline())
    if not select.select([answers], [], [], seconds)[0]:
        os.kill(pid, signal.SIGKILL)
        raise subprocess.TimeoutExpired(list(arguments), seconds)
    return int(answers.readline())


def _die_with_the_tests() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
