"""Commands under test: started, watched, signalled and ended by process id."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import Command
from tests.support.eventually import eventually
from tests.support.processes import processes_with_env

# Says who it is, starts a child in another session, and counts hang-ups until it is ended.
SCRIPT = """#!/bin/sh
trap 'echo hung up' HUP
echo "started $1 with $GIVEN and ${HIDDEN:-nothing}"
setsid sleep 304 &
echo "child runs"
while :; do wait; done
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "warren"
    path.write_text(SCRIPT)
    path.chmod(0o755)
    return path


@pytest.fixture
def command(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    monkeypatch.setenv("HIDDEN", "secret")
    with Command("up", folder=tmp_path / "here", env={"GIVEN": "this"}, program=program) as command:
        command.wait_for("child runs")
        yield command


def test_command_gets_its_arguments_and_no_stray_environment(command: Command) -> None:
    assert command.wait_for("started") == "started up with this and nothing"
    assert command.is_running


def test_signal_reaches_the_command(command: Command) -> None:
    command.send(signal.SIGHUP)

    assert command.wait_for("hung up") == "hung up"


def test_kill_ends_the_command_alone_and_close_the_rest(command: Command) -> None:
    [child] = eventually(lambda: [p for p in command.tree() if p.name == "sleep"])

    command.kill()

    assert not command.is_running
    assert command.wait() == -signal.SIGKILL
    assert child.is_alive

    command.close()

    eventually(lambda: not child.is_alive)
    assert processes_with_env("GIVEN", "this") == []


def test_wait_for_words_that_cannot_come_any_more_fails_at_once(command: Command) -> None:
    command.kill()

    with pytest.raises(RuntimeError, match=r"(?s)ended with -9 before 'never'.*child runs"):
        command.wait_for("never", seconds=300)


def test_command_that_does_not_end_is_told_with_its_output(command: Command) -> None:
    with pytest.raises(AssertionError, match=r"still runs after 0\.01 s: started"):
        command.wait(0.01)
