"""Commands in forks of one process: each as if it were a program of its own."""

import os
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.command import LONG, Command, WarmCommands, run_program, run_warren
from tests.support.eventually import eventually
from tests.support.processes import basic_environment, identify
from tests.support.schemas import SQLiteSchema
from tests.support.stored_rows import Rows


def test_commands_at_one_time_have_their_own_folders_settings_and_statuses(
    tmp_path: Path, sqlite_schema: SQLiteSchema
) -> None:
    folders = [tmp_path / f"desk-{number}" for number in range(4)]
    for folder in folders[:3]:
        folder.mkdir()
        Rows(sqlite_schema.copy(folder / "own.db")).job(f"job-of-{folder.name}")
        (folder / "warren.toml").write_text('database_url = "sqlite:///own.db"')
    folders[3].mkdir()

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda folder: run_warren("jobs", "list", folder=folder), folders))

    assert [one.returncode for one in done] == [0, 0, 0, 1]
    for folder, one in zip(folders[:3], done, strict=False):
        assert f"job-of-{folder.name}" in one.stdout
    assert done[3].stderr.startswith("error: no database")


def test_a_command_says_what_the_program_says(tmp_path: Path, sqlite_schema_url: str) -> None:
    env = {"WARREN_DATABASE_URL": sqlite_schema_url, "TZ": "Asia/Shanghai"}
    Rows(sqlite_schema_url).job("nightly", schedule_kind="CRON", schedule_value="0 0 2 * * ?")
    arguments = ("jobs", "next", "nightly")

    warm = run_warren(*arguments, folder=tmp_path, env=env)

    program = run_program(*arguments, folder=tmp_path, env=env)
    assert (warm.returncode, warm.stdout, warm.stderr) == (
        program.returncode,
        program.stdout,
        program.stderr,
    )
    assert "02:00:00" in warm.stdout


def test_a_command_reads_what_is_said_to_it(tmp_path: Path, sqlite_schema_url: str) -> None:
    said = "correct horse battery\n"

    done = run_warren(
        *("users", "add", "alice", "--role", "administrator"),
        folder=tmp_path,
        env={"WARREN_DATABASE_URL": sqlite_schema_url},
        said=said,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"mysql+pymysql://root:x@127.0.0.1:{silent.getsockname()[1]}/warren"

        with pytest.raises(subprocess.TimeoutExpired):
            run_warren(
                "jobs", "list", folder=tmp_path, env={"WARREN_DATABASE_URL": url}, seconds=0.1
            )


@pytest.mark.parametrize(
    "name",
    [
        "executor",
        *(pytest.param(one, marks=pytest.mark.release) for one in sorted(LONG - {"executor"})),
    ],
)
def test_a_long_command_says_what_the_program_says(tmp_path: Path, name: str) -> None:
    said = []

    for cold in (False, True):
        with Command(name, "--unknown", folder=tmp_path, cold=cold) as command:
            assert command.wait() == 2
            said.append(command.text())

    assert said[0] == said[1]
    assert f"see: warren {name} --help" in said[0]


def test_a_long_command_has_its_session_and_folder_and_gets_signals(
    tmp_path: Path, sqlite_schema_url: str, vhost: str
) -> None:
    env = {
        "WARREN_DATABASE_URL": sqlite_schema_url,
        "WARREN_BROKER_URL": vhost,
        "WARREN_SECRET": "s" * 32,
    }
    with Command("scheduler", folder=tmp_path, env=env) as command:
        command.wait_for("scheduler_started")
        assert os.getsid(command.pid) == os.getpgid(command.pid) == command.pid
        assert Path(f"/proc/{command.pid}/cwd").readlink() == tmp_path

        command.send(signal.SIGTERM)

        assert command.wait() == 0


def test_a_long_command_that_is_left_running_is_named_and_ended(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text("import sys, time\nprint(sys.argv, flush=True)\ntime.sleep(600)\n")
    output = tmp_path / "output"
    warm = WarmCommands(())
    with output.open("wb") as file:
        left = warm.start(str(script), ["on"], tmp_path, basic_environment(), file)
    process = identify(left.pid)
    eventually(lambda: output.read_text() == f"{[str(script), 'on']}\n")

    with pytest.raises(AssertionError, match=r"still running: .*endless"):
        warm.end()

    eventually(lambda: not process.is_alive)
    assert left.wait(30) == -signal.SIGKILL
