"""`warren try` on a terminal: `breakpoint()` and `--pdb` stop there; elsewhere a line says how."""

import contextlib
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.command import run_warren
from tests.support.eventually import eventually

SOURCE = """
from dataclasses import dataclass
from warren import job

@job("stops")
def stops(context):
    wanted = "before"
    breakpoint()
    return wanted

@job("fails")
def fails(context):
    inner = 41
    raise ValueError(f"inner is {inner}")

@dataclass
class Params:
    day: str
    parts: int = 1

@job("typed")
def typed(context, params: Params):
    return f"{params.day} in {params.parts}"
"""


class Terminal:
    """A command that runs on a terminal of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        os.set_blocking(self._ours, False)
        self._text = ""
        script = str(Path(sys.executable).with_name("warren"))
        self.process = subprocess.Popen(
            [script, "try", "handlers.py", *arguments],
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def wait_for(self, words: str) -> None:
        """Wait for words in what comes next."""

        def is_there() -> bool:
            with contextlib.suppress(OSError):  # there is nothing yet
                self._text += os.read(self._ours, 65_536).decode()
            return words in self._text

        eventually(is_there, 60)
        self._text = self._text.partition(words)[2]

    def type(self, line: str) -> None:
        os.write(self._ours, f"{line}\n".encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    (tmp_path / "handlers.py").write_text(SOURCE)
    opened: list[Terminal] = []

    def terminal(*arguments: str) -> Terminal:
        opened.append(Terminal(tmp_path, *arguments))
        return opened[-1]

    yield terminal
    for each in opened:
        each.close()


def test_breakpoint_stops_on_the_terminal_and_goes_on(terminal: Callable[..., Terminal]) -> None:
    command = terminal("stops")

    command.wait_for("(Pdb) ")
    command.type("p wanted")
    command.wait_for("'before'")
    command.type("wanted = 'after'")
    command.type("c")

    command.wait_for("SUCCEEDED")
    command.wait_for("after")
    assert command.process.wait(30) == 0


def test_a_failure_is_looked_at_where_it_happened(terminal: Callable[..., Terminal]) -> None:
    command = terminal("fails", "--pdb")

    command.wait_for("(Pdb) ")
    command.type("p inner + 1")
    command.wait_for("42")
    command.type("q")

    command.wait_for("FAILED")
    assert command.process.wait(30) == 1


def test_without_a_terminal_a_line_says_how(tmp_path: Path) -> None:
    (tmp_path / "handlers.py").write_text(SOURCE)

    passed = run_warren("try", "handlers.py", "stops", folder=tmp_path)
    refused = run_warren("try", "handlers.py", "fails", "--pdb", folder=tmp_path)

    assert passed.returncode == 0
    assert "was passed: it needs the terminal of `warren try`" in passed.stdout
    assert refused.returncode == 2
    assert "--pdb needs a terminal as standard input and output" in refused.stderr


def test_params_are_set_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "handlers.py").write_text(SOURCE)

    done = run_warren(
        *("try", "handlers.py", "typed", "--set", "day=2026-12-01", "--set", "parts=3"),
        folder=tmp_path,
    )
    both = run_warren(
        *("try", "handlers.py", "typed", "--set", "day=x", "--param", "{}"), folder=tmp_path
    )

    assert "2026-12-01 in 3" in done.stdout
    assert (both.returncode, "expected --param or --set, got both" in both.stderr) == (2, True)
