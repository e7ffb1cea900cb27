"""`warren up`: one command, everything runs; Ctrl-C, nothing is left."""

import json
import signal
import stat
import sys
from pathlib import Path

import pytest

from tests.support.command import Command, run_warren
from tests.support.eventually import eventually
from tests.support.processes import Process

#: It takes less than 5 s, except on a machine that is busy with other things. Some jobs here would
#: go on for ten minutes.
STOPS_SECONDS = 60

HANDLERS = """\
import signal
import subprocess
import time

from warren import job


@job("quick")
def quick(context):
    print("working")
    return f"done {context.run_id}"


@job("stubborn")
def stubborn(context):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    print("refusing to end", flush=True)
    time.sleep(600)


@job("failing")
def failing(context):
    raise ValueError(f"attempt {context.attempt}")
"""
JOBS = """\
apps:
  - {name: shop, title: Shop}
jobs:
  - {name: often, app: shop, schedule: {every: 1}, handler: quick, route: ROUND, enabled: true}
  - {name: stubborn, app: shop, handler: stubborn}
  - {name: failing, app: shop, handler: failing, retries: 1}
  - {name: unknown, app: shop, handler: nowhere}
"""
#: The real command on a disk that is full once the console has started.
FULL = """\
if __name__ == "__main__":
    import warren
    from warren.errors import CommandError
    from warren.jobfile.apply import UpJobs

    def apply(*_):
        raise CommandError("the disk is full")

    UpJobs.apply = apply
    warren.main()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    (tmp_path / "jobs.yaml").write_text(JOBS)
    return tmp_path


def up(folder: Path, *arguments: str) -> Command:
    return Command("up", "--jobs", "handlers.py", "--apply", "jobs.yaml", *arguments, folder=folder)


def listed(folder: Path, *arguments: str) -> list[dict[str, object]]:
    done = run_warren(*arguments, "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def alive(processes: list[Process]) -> list[Process]:
    return [process for process in processes if process.is_alive]


def end(command: Command) -> list[Process]:
    """Press Ctrl-C; return what lived below the command before, once it has ended."""
    below = command.tree()
    command.send(signal.SIGINT)
    assert command.wait(STOPS_SECONDS) == 0, command.text()
    return below


def test_jobs_run_and_another_terminal_sees_and_acts(folder: Path) -> None:
    with up(folder) as command:
        command.wait_for("Ctrl-C stops everything")
        command.wait_for("shop/often")
        said = command.text()

        jobs = {str(one["name"]): one for one in listed(folder, "jobs", "list")}
        executors = listed(folder, "executors", "list")
        waited = run_warren("jobs", "trigger", "often", "--wait", "--json", folder=folder)
        failed = run_warren("jobs", "trigger", "failing", "--wait", folder=folder)
        run = json.loads(waited.stdout)
        log = run_warren("runs", "log", str(run["id"]), folder=folder)
        end(command)

    assert "created job shop/often" in said
    assert "no online executor has 'nowhere'" in said
    assert set(jobs) == {"often", "stubborn", "failing", "unknown"}
    assert [one["address"] for one in executors] == ["shop-1", "shop-2", "shop-3"]
    assert {one["state"] for one in executors} == {"alive"}
    assert (waited.returncode, run["status"]) == (0, "SUCCEEDED")
    assert log.stdout == "working\n"
    assert failed.returncode == 1
    assert "FAILED after 2 attempts: ValueError: attempt 1" in failed.stdout


def test_ctrl_c_leaves_no_process_even_of_a_stubborn_job(folder: Path) -> None:
    with up(folder, "--executors", "1") as command:
        command.wait_for("Ctrl-C stops everything")
        [planned] = listed(folder, "jobs", "trigger", "stubborn")
        log = eventually(lambda: list(folder.glob(f".warren/logs/*/{planned['id']}.log")))[0]
        eventually(lambda: "refusing" in log.read_text())

        below = end(command)

    assert len(below) >= 3
    eventually(lambda: not alive(below))
    done = run_warren("runs", "show", str(planned["id"]), "--json", folder=folder)
    shown = json.loads(done.stdout)
    words = "stopped because its executor shut down; still running 2 s after SIGTERM"
    assert (shown["status"], shown["message"]) == ("FAILED", f"{words}, killed with SIGKILL")


def test_started_again_it_goes_on_with_the_same_data(folder: Path) -> None:
    with up(folder) as command:
        command.wait_for("shop/often")
        end(command)
    before = {run["id"] for run in listed(folder, "runs", "list", "--status", "SUCCEEDED")}

    with Command("up", "--jobs", "handlers.py", folder=folder) as command:
        command.wait_for("app 'shop'")
        command.wait_for("shop/often")
        end(command)

    after = {run["id"] for run in listed(folder, "runs", "list", "--status", "SUCCEEDED")}
    assert after - before
    audit = run_warren("audit", folder=folder)
    assert audit.returncode == 0, audit.stdout


def test_second_one_on_the_folder_is_refused_in_one_line(folder: Path) -> None:
    with up(folder, "--executors", "1") as command:
        command.wait_for("Ctrl-C stops everything")

        done = run_warren("up", folder=folder)

        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        assert line.startswith("error: another `warren up` is using ")
        end(command)


def test_scheduler_on_the_same_sqlite_file_is_refused_in_one_line(folder: Path, vhost: str) -> None:
    env = {
        "WARREN_DATABASE_URL": f"sqlite:///{folder}/.warren/warren.db",
        "WARREN_BROKER_URL": vhost,
        "WARREN_SECRET": "s" * 32,
    }
    with up(folder, "--executors", "1") as command:
        command.wait_for("Ctrl-C stops everything")

        done = run_warren("scheduler", folder=folder, env=env)

        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        assert "another scheduler is using" in line
        end(command)


def test_its_own_secret_is_kept_from_others_and_from_every_output(folder: Path) -> None:
    with up(folder, "--executors", "1") as command:
        command.wait_for("shop/often")
        end(command)

    secret = folder / ".warren/secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / ".warren").stat().st_mode) == 0o700
    assert secret.read_text() not in command.text()
    assert secret.read_text() not in (folder / ".warren/warren.log").read_text()


@pytest.mark.release
def test_killed_outright_it_starts_again(folder: Path) -> None:
    with up(folder, "--executors", "1") as command:
        command.wait_for("shop/often")
        below = command.tree()
        command.kill()
        eventually(lambda: not alive(below))

    with up(folder, "--executors", "1") as command:
        command.wait_for("Ctrl-C stops everything")
        command.wait_for("shop/often")
        end(command)

    assert run_warren("audit", folder=folder).returncode == 0


@pytest.mark.parametrize(
    ("files", "arguments", "words"),
    [
        ({"x.py": "import nowhere\n"}, ("--jobs", "x.py"), "No module named 'nowhere'"),
        pytest.param(
            {"x.py": "1 +\n"}, ("--jobs", "x.py"), "SyntaxError", marks=pytest.mark.release
        ),
        pytest.param(
            {}, ("--jobs", "x.py"), "cannot load handlers from 'x.py'", marks=pytest.mark.release
        ),
        pytest.param(
            {"x.py": "from warren import job\njob('a')(lambda c: 1)\njob('a')(lambda d: 2)\n"},
            ("--jobs", "x.py"),
            "two handlers are named 'a'",
            marks=pytest.mark.release,
        ),
        ({"j.yaml": "jops: []\n"}, ("--apply", "j.yaml"), "j.yaml:1: unknown field 'jops'"),
        pytest.param({}, ("--apply", "j.yaml"), "cannot read j.yaml", marks=pytest.mark.release),
        ({"j.yaml": JOBS}, ("--apply", "j.yaml", "--seed", "j.yaml"), "one of --apply and --seed"),
        ({}, ("--app", "X"), "expected app to be"),
        pytest.param({}, ("--app", "by-id"), "not to be named 'by-id'", marks=pytest.mark.release),
    ],
)
def test_what_cannot_be_started_ends_with_one_line_and_leaves_nothing(
    tmp_path: Path, files: dict[str, str], arguments: tuple[str, ...], words: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)

    with Command("up", *arguments, folder=tmp_path) as command:
        assert command.wait() == 1

    last = command.text().splitlines()[-1]
    assert last.startswith("error: ")
    assert words in last
    assert not (tmp_path / ".warren").exists()


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        pytest.param(
            "{name: a, app: shop, handler: quick, children: [nobody]}",
            "unknown child 'nobody'",
            marks=pytest.mark.release,
        ),
        ("{name: a, app: shop, handler: quick, children: [a]}", "cycle"),
    ],
)
def test_nothing_is_made_before_the_job_file_is_found_good_in_the_database(
    folder: Path, jobs: str, words: str
) -> None:
    (folder / "jobs.yaml").write_text(f"apps: [{{name: shop}}]\njobs:\n  - {jobs}\n")

    with up(folder, "--executors", "1") as command:
        assert command.wait() == 1
        refused = command.text()
    left = (folder / ".warren").exists()
    (folder / "jobs.yaml").write_text(JOBS)
    with up(folder, "--executors", "1") as command:
        command.wait_for("admin password: ")
        end(command)

    assert words in refused.splitlines()[-1]
    assert "admin password" not in refused
    assert not left


@pytest.mark.parametrize("is_there", [False, True])
def test_a_start_that_fails_late_shows_no_password_that_is_then_lost(
    folder: Path, is_there: bool
) -> None:
    (folder / "full.py").write_text(FULL)
    arguments = ("full.py", "up", "--jobs", "handlers.py", "--apply", "jobs.yaml")
    if is_there:
        (folder / ".warren").mkdir()

    with Command(*arguments, folder=folder, program=Path(sys.executable)) as command:
        assert command.wait() == 1

    assert command.text().splitlines()[-1] == "error: the disk is full"
    assert ("admin password: " in command.text()) is is_there
    assert (folder / ".warren/warren.db").exists() is is_there


def test_the_job_file_has_its_values(folder: Path) -> None:
    text = JOBS.replace("handler: failing, retries: 1", "handler: failing, retries: '${RETRIES}'")
    (folder / "jobs.yaml").write_text(text.replace("often,", "'${NAME}',"))
    (folder / "values.yaml").write_text("RETRIES: 2\nNAME: often\n")

    refused = run_warren("up", "--apply", "jobs.yaml", "--set", "NAME=other", folder=folder)
    homeless = run_warren("up", "--set", "NAME=other", folder=folder)
    with up(folder, "--values", "values.yaml", "--set", "NAME=other") as command:
        command.wait_for("Ctrl-C stops everything")
        jobs = {str(one["name"]) for one in listed(folder, "jobs", "list")}
        end(command)

    words = "error: jobs.yaml:6: no value for ${RETRIES}; give one by --values or --set RETRIES=…"
    assert refused.stderr.splitlines() == [words]
    assert "--values and --set need a job file" in homeless.stderr
    assert jobs == {"other", "stubborn", "failing", "unknown"}


@pytest.mark.release
def test_applied_again_it_says_what_it_sets_back(folder: Path) -> None:
    with up(folder, "--executors", "1") as command:
        command.wait_for("5 changed, 0 unchanged")
        end(command)
    assert run_warren("jobs", "stop", "often", folder=folder).returncode == 0
    edited = JOBS.replace("handler: failing, retries: 1", "handler: failing, retries: 2")
    (folder / "other.yaml").write_text(edited)
    assert run_warren("jobs", "apply", "other.yaml", folder=folder).returncode == 0
    assert run_warren("jobs", "stop", "often", folder=folder).returncode == 0

    with up(folder, "--executors", "1") as command:
        command.wait_for("2 changed, 2 unchanged")
        end(command)

    said = command.text()
    assert "~ started job shop/often\n" in said
    assert "~ updated job shop/failing\n    retries: 2 -> 1\n" in said


@pytest.mark.release
def test_a_seed_is_applied_once_and_leaves_alone_what_people_made_of_it(folder: Path) -> None:
    seeded = ("up", "--jobs", "handlers.py", "--seed", "jobs.yaml", "--executors", "1")
    with Command(*seeded, folder=folder) as command:
        command.wait_for("created job shop/often")
        command.wait_for("Ctrl-C stops everything")
        end(command)
    for job in ("often", "stubborn", "failing", "unknown"):
        done = run_warren("jobs", "stop", job, folder=folder)
        done = run_warren("jobs", "delete", job, folder=folder) if job != "often" else done
        assert done.returncode == 0, done.stderr

    with Command(*seeded, folder=folder) as command:
        command.wait_for("Ctrl-C stops everything")
        [job] = listed(folder, "jobs", "list")
        deleted = run_warren("jobs", "delete", "often", folder=folder)
        end(command)
    with Command(*seeded, folder=folder) as command:
        command.wait_for("app 'shop'")
        left = listed(folder, "jobs", "list")
        end(command)

    assert (job["name"], job["enabled"], deleted.returncode, left) == ("often", False, 0, [])
    assert "jobs.yaml is applied at the first start only; skipped" in command.text()


@pytest.mark.parametrize("name", ["WARREN_DATABASE_URL", "WARREN_BROKER_URL"])
def test_services_of_a_cluster_are_not_mixed_in(tmp_path: Path, name: str) -> None:
    value = "amqp://127.0.0.1/" if "BROKER" in name else "mysql+pymysql://u@127.0.0.1/d"

    done = run_warren("up", folder=tmp_path, env={name: value})

    assert done.returncode == 1
    assert f"{name} is set, but `warren up` uses its own" in done.stderr
    assert not (tmp_path / ".warren").exists()


def test_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / ".warren").touch()

    done = run_warren("up", folder=tmp_path)

    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
