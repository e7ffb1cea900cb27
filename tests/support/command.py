"""The real `warren` command as a separate process, as users run it."""

import contextlib
import ctypes
import itertools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Self, TextIO

from tests.support import fault_injection
from tests.support.eventually import eventually
from tests.support.processes import (
    Process,
    basic_environment,
    descendants,
    find,
    identify,
    started,
)

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)

_PYTHON = Path(sys.executable)
_numbers = itertools.count()

#: The console script of the environment that the tests run in.
WARREN = Path(sys.executable).with_name("warren")
#: Commands that do one thing and exit, without threads or processes.
SHORT = {
    *(
        "alarms",
        "apps",
        "audit",
        "check",
        "db",
        "executors",
        "import",
        "incidents",
        "jobs",
        "login",
        "logout",
        "pause",
    ),
    *("report", "resume", "runs", "schedulers", "secrets", "tokens", "users"),
}
#: Commands that start threads or processes, and whose imports cost more than they do in most tests.
LONG = {"api", "console", "executor", "gateway", "scheduler", "try", "up"}
_WARM = Path(__file__).with_name("warm_command.py")


class Command:
    """A running `warren` in its own session, with both outputs in one file.

    It is not supervised: processes it leaves behind stay, so that a test can see them. `close` ends
    the whole tree, so a command is best used with `with`.

    Those in `LONG` run in a fork of a process that has already imported them, with the command line
    of that, unless `cold`: some tests in tests/acceptance start each as a program.
    """

    def __init__(
        self,
        *arguments: str,
        folder: Path,
        env: Mapping[str, str] | None = None,
        program: Path = WARREN,
        cold: bool = False,
    ) -> None:
        """Start `warren ARGUMENTS` in `folder` with a minimal environment plus `env`.

        If `program` is a Python, its first argument is the script that calls the command.
        """
        # The parent-death signal is sent when the starting thread ends.
        assert threading.current_thread() is threading.main_thread(), "start it in the main thread"
        folder.mkdir(parents=True, exist_ok=True)
        self.output = folder / f"{program.name}-{next(_numbers)}.log"
        environment = basic_environment() | {"HOME": str(folder)} | dict(env or {})
        script, *rest = arguments if program == _PYTHON else (str(program), *arguments)
        with self.output.open("wb") as file:
            self._process: subprocess.Popen[bytes] | Forked
            if not cold and _can_be_forked(script, rest, environment):
                self._process = _warm_long.start(script, rest, folder, environment, file)
            else:
                self._process = subprocess.Popen(
                    [str(program), *arguments],
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=_die_with_the_tests,  # noqa: PLW1509 - one system call, no lock, no import
                )
        found = find(self.pid)
        if found is not None:
            started.append(found)
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

    `said` is its standard input. Commands in `SHORT` and `LONG` run in a fork of a process that has
    already imported them; `tests/acceptance/test_cli_usage.py` runs each one as a program too.
    """
    environment = basic_environment() | {"HOME": str(folder)} | dict(env or {})
    if arguments[:1] and arguments[0] in SHORT:
        return _warm_short.run(arguments, folder, environment, seconds, said)
    if _can_be_forked(str(WARREN), arguments, environment):
        return _warm_long.run(arguments, folder, environment, seconds, said, session=True)
    return run_program(*arguments, folder=folder, env=env, seconds=seconds, said=said)


def run_program(
    *arguments: str,
    folder: Path,
    env: Mapping[str, str] | None = None,
    seconds: float = 120.0,
    said: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run `warren ARGUMENTS` as a separate program."""
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

    def __init__(self, commands: Collection[str]) -> None:
        self._commands = sorted(commands)
        self._forked: list[Forked] = []
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
        *,
        session: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run one command as `subprocess.run` does, with the same errors.

        With `session` it has a session of its own, and ends as a program does, with its threads.
        """
        with _file(said) as stdin, _file() as stdout, _file() as stderr:
            streams = (stdin.fileno(), stdout.fileno(), stderr.fileno())
            forked = self._fork(
                str(WARREN), arguments, folder, environment, streams, session=session
            )
            try:
                status = forked.wait(seconds)
            except subprocess.TimeoutExpired:
                os.kill(forked.pid, signal.SIGKILL)
                raise
            return subprocess.CompletedProcess(arguments, status, _text(stdout), _text(stderr))

    def start(
        self,
        script: str,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        output: BinaryIO,
    ) -> "Forked":
        """Start one command in a session of its own, with both outputs in one file."""
        with Path(os.devnull).open("rb") as stdin:
            streams = (stdin.fileno(), output.fileno(), output.fileno())
            forked = self._fork(script, arguments, folder, environment, streams, session=True)
        self._forked.append(forked)
        return forked

    def end(self) -> None:
        """Let the process exit and wait until it is gone; no command may still run."""
        left = [forked.args for forked in self._forked if forked.poll() is None]
        if self._process is not None and self._requests is not None:
            self._requests.close()
            self._process.wait(30.0)
            self._process = self._requests = None
        assert not left, f"still running: {left}"

    def _fork(
        self,
        script: str,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        streams: tuple[int, int, int],
        *,
        session: bool = False,
    ) -> "Forked":
        request = {
            "script": script,
            "arguments": arguments,
            "folder": str(folder),
            "environment": environment,
            "session": session,
        }
        reading, writing = os.pipe()
        with _file(json.dumps(request, default=str)) as wanted:
            try:
                files = (wanted.fileno(), writing, *streams)
                socket.send_fds(self._started(), [b"1"], files)
            finally:
                os.close(writing)
        return Forked([script, *arguments], os.fdopen(reading, encoding="ascii"))

    def _started(self) -> socket.socket:
        with self._lock:
            if self._requests is None:
                self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    self._process = subprocess.Popen(
                        [sys.executable, str(_WARM), str(theirs.fileno()), *self._commands],
                        env=basic_environment(),
                        pass_fds=[theirs.fileno()],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        start_new_session=True,
                    )
                started.append(identify(self._process.pid))
            return self._requests


class Forked:
    """A command in a fork, with the part of `subprocess.Popen` that is used here."""

    def __init__(self, args: Sequence[str], answers: TextIO) -> None:
        self.args = args
        self.returncode: int | None = None
        self.pid = int(answers.readline())
        self._answers = answers
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Return its exit status, negative for a signal; None while it runs."""
        return self._status_within(0)

    def wait(self, timeout: float) -> int:
        """Wait for its end and return its exit status."""
        status = self._status_within(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(list(self.args), timeout)
        return status

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to it, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def _status_within(self, seconds: float) -> int | None:
        with self._lock:
            if self.returncode is None and select.select([self._answers], [], [], seconds)[0]:
                # Without an answer, what forked it has ended, and it with that.
                self.returncode = int(self._answers.readline() or -signal.SIGKILL)
                self._answers.close()
            return self.returncode


_warm_short = WarmCommands(SHORT)
_warm_long = WarmCommands(LONG)


def end_warm_commands() -> None:
    """End the processes from which commands are forked."""
    try:
        _warm_long.end()
    finally:
        _warm_short.end()


def _can_be_forked(script: str, arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether a script calls a long command, in an environment without words to Python itself."""
    place = {str(WARREN): 0, fault_injection.__file__: 2}.get(script, len(arguments))
    return not LONG.isdisjoint(arguments[place : place + 1]) and not any(
        name.startswith(("PYTHON", "LD_", "LC_")) for name in environment
    )


def _file(content: str = "") -> BinaryIO:
    file = os.fdopen(os.memfd_create("warm"), "w+b", buffering=0)
    file.write(content.encode())
    file.seek(0)
    return file


def _text(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode()


def _die_with_the_tests() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
