"""`warren scheduler` and `warren executor` on RabbitMQ and MariaDB: start, work, end, refuse."""

import json
import os
import signal
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.command import Command, run_warren
from tests.support.eventually import eventually

HANDLERS = """\
import time

from warren import job


@job("quick")
def quick(context):
    return "done"


@job("slow")
def slow(context):
    print("at work", flush=True)
    time.sleep(600)
"""
JOBS = """\
apps: [{name: shop}]
jobs:
  - {name: quick, app: shop, handler: quick}
  - {name: slow, app: shop, handler: slow}
"""


@pytest.fixture
def env(tmp_path: Path, mariadb_url: str, vhost: str) -> dict[str, str]:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    (tmp_path / "jobs.yaml").write_text(JOBS)
    env = {
        "WARREN_DATABASE_URL": mariadb_url,
        "WARREN_BROKER_URL": vhost,
        "WARREN_SECRET": "s" * 32,
        "WARREN_DRAIN_SECONDS": "60",
        "WARREN_GRACE_SECONDS": "1",
    }
    assert run_warren("db", "upgrade", folder=tmp_path, env=env).returncode == 0
    assert run_warren("jobs", "apply", "jobs.yaml", folder=tmp_path, env=env).returncode == 0
    return env


def scheduler(folder: Path, env: dict[str, str], *, cold: bool = False) -> Command:
    return Command("scheduler", folder=folder, env=env, cold=cold)


def executor(folder: Path, env: dict[str, str], *arguments: str, cold: bool = False) -> Command:
    every = ("executor", "--app", "shop", *arguments, "handlers.py")
    return Command(*every, folder=folder, env=env, cold=cold)


def listed(folder: Path, env: dict[str, str]) -> list[dict[str, str]]:
    done = run_warren("executors", "list", "--json", folder=folder, env=env)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_they_work_together_and_end_in_order(tmp_path: Path, env: dict[str, str]) -> None:
    with (
        scheduler(tmp_path, env, cold=True) as one,
        executor(tmp_path, env, "--address", "shop-1", cold=True) as two,
    ):
        one.wait_for("scheduler_started")
        two.wait_for("executor_welcomed")
        done = run_warren("jobs", "trigger", "quick", "--wait", folder=tmp_path, env=env)
        below = two.tree()

        two.send(signal.SIGTERM)
        one.send(signal.SIGTERM)

        assert (two.wait(), one.wait()) == (0, 0)

    assert done.returncode == 0, done.stderr
    assert below
    assert not [process for process in below if process.is_alive]
    assert "s" * 32 not in one.text() + two.text()
    assert all(json.loads(line) for line in one.text().splitlines())


def test_second_signal_does_not_wait_for_running_jobs(tmp_path: Path, env: dict[str, str]) -> None:
    with scheduler(tmp_path, env), executor(tmp_path, env, "--address", "shop-1") as two:
        planned = run_warren("jobs", "trigger", "slow", "--json", folder=tmp_path, env=env)
        run_id = str(json.loads(planned.stdout)["id"])
        with Command("runs", "log", run_id, "--follow", folder=tmp_path, env=env) as log:
            log.wait_for("at work")

            two.send(signal.SIGTERM)
            eventually(lambda: listed(tmp_path, env)[0]["state"] == "draining")
            two.send(signal.SIGTERM)

            assert two.wait(45) == 0  # less than WARREN_DRAIN_SECONDS
            assert log.wait(60) == 0

        shown = run_warren("runs", "show", run_id, "--json", folder=tmp_path, env=env)
        assert json.loads(shown.stdout)["status"] == "FAILED"


def test_address_of_a_living_executor_is_refused(tmp_path: Path, env: dict[str, str]) -> None:
    other = env | {"WARREN_STATE_DIR": f"{tmp_path}/other"}
    with scheduler(tmp_path, env) as one, executor(tmp_path, env, "--address", "shop-1") as first:
        one.wait_for("scheduler_started")
        first.wait_for("executor_welcomed")

        with executor(tmp_path, other, "--address", "shop-1") as second:
            assert second.wait(30.0) == 1

        assert "error: address shop-1 is in use by another running executor" in second.text()
        assert first.is_running


def test_state_folder_of_a_living_executor_is_refused(tmp_path: Path, env: dict[str, str]) -> None:
    with executor(tmp_path, env, "--address", "shop-1") as first:
        first.wait_for("zygote_started")

        done = run_warren(
            *("executor", "--app", "shop", "--address", "shop-1", "handlers.py"),
            folder=tmp_path,
            env=env,
        )

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: cannot start executor shop-1")


@pytest.mark.parametrize("name", ["WARREN_DATABASE_URL", "WARREN_BROKER_URL"])
def test_refused_password_is_one_line(tmp_path: Path, env: dict[str, str], name: str) -> None:
    parts = urlsplit(env[name])
    wrong = parts._replace(netloc=f"{parts.username}:hush@{parts.hostname}:{parts.port}")

    done = run_warren("scheduler", folder=tmp_path, env=env | {name: wrong.geturl()})

    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: cannot ")
    assert "hush" not in done.stderr
    assert "Traceback" not in done.stderr


def test_other_schema_stops_the_start(tmp_path: Path, env: dict[str, str], vhost: str) -> None:
    empty = env | {"WARREN_DATABASE_URL": f"sqlite:///{tmp_path}/empty.db"}

    done = run_warren("scheduler", folder=tmp_path, env=empty)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "error: the database has no schema yet; run: warren db upgrade"
    )


def test_handlers_that_do_not_import_stop_the_start(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "handlers.py").write_text("import nowhere\n")

    done = run_warren("executor", "--app", "shop", "handlers.py", folder=tmp_path, env=env)

    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: cannot load handlers from 'handlers.py'")


def test_file_that_declares_no_handler_stops_the_start_in_one_line(
    tmp_path: Path, env: dict[str, str]
) -> None:
    (tmp_path / "handlers.py").write_text("def nightly(context): ...\n")

    done = run_warren("executor", "--app", "shop", "handlers.py", folder=tmp_path, env=env)

    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    said = "error: 'handlers.py' declares no handler; declare one with @job"
    assert done.stderr.splitlines()[-1] == said


def test_signal_ends_an_import_of_handlers_that_hangs(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "handlers.py").write_text(
        "import pathlib, time\npathlib.Path('importing').touch()\ntime.sleep(600)\n"
    )

    with executor(tmp_path, env) as one:
        eventually((tmp_path / "importing").exists)
        below = one.tree()
        one.send(signal.SIGTERM)

        assert one.wait(45) == 0

    assert below
    # multiprocessing's own tracker ends with its last pipe.
    eventually(lambda: not [process for process in below if process.is_alive])


def test_default_address_holds_host_and_app(tmp_path: Path, env: dict[str, str]) -> None:
    with scheduler(tmp_path, env), executor(tmp_path, env):
        run_warren("jobs", "trigger", "quick", "--wait", folder=tmp_path, env=env)
        [one] = listed(tmp_path, env)

    assert one["address"] == f"{os.uname().nodename}-shop"


def test_further_executors_take_the_next_free_address(tmp_path: Path, env: dict[str, str]) -> None:
    elsewhere = env | {"WARREN_STATE_DIR": f"{tmp_path}/elsewhere"}
    host = os.uname().nodename

    # The third does not see the others' locks: it is the schedulers who tell it.
    with (
        scheduler(tmp_path, env),
        executor(tmp_path, env),
        executor(tmp_path, env),
    ):
        eventually(lambda: addresses(tmp_path, env) == {f"{host}-shop", f"{host}-shop-2"})
        with executor(tmp_path, elsewhere):
            wanted = {f"{host}-shop", f"{host}-shop-2", f"{host}-shop-3"}
            eventually(lambda: addresses(tmp_path, env) == wanted, 60)

    journals = {path.parent.name for path in tmp_path.glob(".warren/state/*/journal")}
    assert journals == {f"{host}-shop", f"{host}-shop-2"}


def addresses(folder: Path, env: dict[str, str]) -> set[str]:
    return {one["address"] for one in listed(folder, env)}
