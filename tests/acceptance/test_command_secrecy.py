"""No other process of the same user reads the settings of a command, however short it is."""

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.command import WARREN, Command
from tests.support.eventually import eventually
from tests.support.spy import POWERLESS

SECRET = "hush-hush, a secret of at least thirty-two characters"


def environment_while_it_reads(
    folder: Path, program: Path, *arguments: str, env: dict[str, str]
) -> str:
    """Return what another process reads in a command's environment, or why it cannot.

    The command gets a pipe for the argument FILE, at which it waits.
    """
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    given = [str(pipe) if each == "FILE" else each for each in arguments]
    first, *others = [*POWERLESS, str(program), *given]
    found = shutil.which(first)
    assert found is not None
    with Command(*others, folder=folder, env=env, program=Path(found)) as command:
        writer = eventually(lambda: open_for_writing(pipe))
        done = subprocess.run(
            [*POWERLESS, "cat", f"/proc/{command.pid}/environ"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert command.is_running
        os.close(writer)
        command.wait()
    return done.stdout + done.stderr


def open_for_writing(pipe: Path) -> int | None:
    """Return a descriptor of a pipe that somebody reads; None if nobody does yet."""
    with suppress(OSError):
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    return None


@pytest.mark.parametrize(
    "arguments",
    [("jobs", "apply", "FILE"), ("import", "crontab", "FILE", "--app", "nightly")],
    ids=["with settings", "without settings"],
)
def test_nobody_reads_the_settings_of_a_short_command(
    tmp_path: Path, sqlite_schema_url: str, arguments: tuple[str, ...]
) -> None:
    env = {"WARREN_SECRET": SECRET, "WARREN_DATABASE_URL": sqlite_schema_url}

    found = environment_while_it_reads(tmp_path, WARREN, *arguments, env=env)

    assert SECRET not in found
    assert "Permission denied" in found


def test_those_of_another_program_are_read(tmp_path: Path) -> None:
    cat = Path("/bin/cat")

    found = environment_while_it_reads(tmp_path, cat, "FILE", env={"WARREN_SECRET": SECRET})

    assert SECRET in found
