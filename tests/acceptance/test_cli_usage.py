"""Wrong usage, wrong settings and dead services: a few words and a status, never a trace."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.command import LONG, SHORT, WARREN, run_program, run_warren
from tests.support.ports import free_port
from tests.support.processes import basic_environment
from tests.support.stored_rows import Rows

SECRET = "s" * 32


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    done = subprocess.run(
        [WARREN.with_name("python"), "-X", "importtime", WARREN, "--help"],
        cwd=tmp_path,
        env=basic_environment(),
        capture_output=True,
        text=True,
        check=True,
    )

    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "warren.cli" in loaded
    assert not {"sqlalchemy", "pydantic", "structlog", "pika", "yaml"} & loaded


@pytest.mark.parametrize(
    "command",
    [
        "jobs",
        *(
            pytest.param(one, marks=pytest.mark.release)
            for one in sorted((SHORT | LONG) - {"jobs"})
        ),
    ],
)
def test_a_command_works_as_a_program_of_its_own(tmp_path: Path, command: str) -> None:
    """Other tests run it in a process that has imported everything already."""
    done = run_program(command, "--help", folder=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: warren {command} ")


def test_a_program_lists_what_a_database_holds(tmp_path: Path, sqlite_schema_url: str) -> None:
    Rows(sqlite_schema_url).job("nightly")

    done = run_program(
        "jobs", "list", folder=tmp_path, env={"WARREN_DATABASE_URL": sqlite_schema_url}
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "nightly" in done.stdout


def test_wrong_usage_is_one_line_and_status_two(tmp_path: Path) -> None:
    done = run_warren("jobs", "nix", folder=tmp_path)

    assert done.returncode == 2
    assert done.stderr == "error: No such command 'nix'. (see: warren jobs --help)\n"


@pytest.mark.parametrize(
    "arguments", [("jobs", "list"), ("runs", "list"), ("pause",), ("db", "upgrade"), ("audit",)]
)
def test_without_a_database_one_line_says_what_to_do(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = run_warren(*arguments, folder=tmp_path)

    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("error: no database: set WARREN_DATABASE_URL, or run `warren up`")
    assert not (tmp_path / ".warren").exists()


@pytest.mark.parametrize(
    "arguments", [("jobs", "list"), ("runs", "list"), ("executors", "list"), ("pause",)]
)
def test_database_without_tables_is_one_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    env = {"WARREN_DATABASE_URL": f"sqlite:///{tmp_path}/empty.db"}

    done = run_warren(*arguments, folder=tmp_path, env=env)

    assert done.returncode == 1
    assert done.stderr == "error: the database has no schema yet; run: warren db upgrade\n"


def test_every_wrong_setting_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "warren.toml").write_text("slotz = 3\n")

    done = run_warren(
        "jobs", "list", folder=tmp_path, env={"WARREN_SLOTS": "x", "WARREN_SECRET": "hush"}
    )

    assert done.returncode == 1
    assert sorted(done.stderr.splitlines()) == [
        "error: WARREN_SECRET: expected at least 32 characters (it has 4)",
        "error: WARREN_SLOTS: expected an integer from 1 to 1000, got: 'x'",
        "error: warren.toml: unknown setting 'slotz', did you mean 'slots'?",
    ]


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        (("scheduler",), ["WARREN_DATABASE_URL", "WARREN_BROKER_URL", "WARREN_SECRET"]),
        (("executor", "--app", "reports", "x.py"), ["WARREN_BROKER_URL", "WARREN_APP_SECRET"]),
    ],
)
def test_service_names_every_setting_that_it_lacks(
    tmp_path: Path, command: tuple[str, ...], missing: list[str]
) -> None:
    done = run_warren(*command, folder=tmp_path)

    assert done.returncode == 1
    assert [line.split(":")[1].strip() for line in done.stderr.splitlines()] == missing


def test_an_empty_address_is_not_the_default_one(tmp_path: Path) -> None:
    done = run_warren("executor", "--app", "reports", "--address", "", "x.py", folder=tmp_path)

    assert done.returncode == 1
    assert done.stderr.startswith("error: expected ")
    assert done.stderr.endswith(", got: ''\n")


@pytest.mark.parametrize(
    "command",
    [
        ("scheduler",),
        ("executor", "--app", "reports", "x.py"),
        ("check", "--for", "executor"),
    ],
)
def test_memory_broker_is_refused_outside_up(tmp_path: Path, command: tuple[str, ...]) -> None:
    env = {
        "WARREN_BROKER_URL": "memory://",
        "WARREN_SECRET": SECRET,
        "WARREN_DATABASE_URL": f"sqlite:///{tmp_path}/x.db",
    }

    done = run_warren(*command, folder=tmp_path, env=env)

    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "memory:// works only inside `warren up`" in line


@pytest.mark.parametrize("command", [("scheduler",), ("executor", "--app", "reports", "x.py")])
def test_broker_that_does_not_answer_is_one_line_without_its_password(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    env = {
        "WARREN_BROKER_URL": f"amqp://guest:hush@127.0.0.1:{free_port()}/",
        "WARREN_SECRET": SECRET,
        "WARREN_DATABASE_URL": f"sqlite:///{tmp_path}/x.db",
    }

    done = run_warren(*command, folder=tmp_path, env=env)

    assert done.returncode == 1
    [line] = [line for line in done.stderr.splitlines() if "jobs_unconfined" not in line]
    assert line.startswith("error: cannot reach the broker")
    assert "hush" not in line


def test_database_that_does_not_answer_is_one_line_without_its_password(tmp_path: Path) -> None:
    env = {"WARREN_DATABASE_URL": f"mysql+pymysql://root:hush@127.0.0.1:{free_port()}/warren"}

    done = run_warren("jobs", "list", folder=tmp_path, env=env)

    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("error: cannot use the database mysql+pymysql://root:***@127.0.0.1")
    assert "hush" not in line


def test_file_that_is_no_database_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("I am no database, whatever my name says.\n" * 100)

    done = run_warren(
        "jobs", "list", folder=tmp_path, env={"WARREN_DATABASE_URL": f"sqlite:///{tmp_path}/x.db"}
    )

    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "not a database" in line


@pytest.mark.parametrize(
    "command",
    [("scheduler",), ("console",), ("check",), ("jobs", "list"), ("db", "upgrade")],
    ids=" ".join,
)
def test_services_on_other_machines_are_refused_in_plain_text(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    env = {
        "WARREN_BROKER_URL": "amqp://guest:hush@192.0.2.1/warren",
        "WARREN_DATABASE_URL": "mysql+pymysql://warren:hush@192.0.2.1/warren",
        "WARREN_SECRET": SECRET,
    }

    done = run_warren(*command, folder=tmp_path, env=env)

    assert done.returncode == 1
    assert [line.split(", as ")[0] for line in done.stderr.splitlines()] == [
        "error: WARREN_DATABASE_URL: expected ?ssl_ca=FILE at the end",
        "error: WARREN_BROKER_URL: expected amqps://",
    ]
    assert "hush" not in done.stderr


class TestCheck:
    def test_everything_wrong_is_said_at_once(self, tmp_path: Path) -> None:
        (tmp_path / "a-file").touch()
        env = {
            "WARREN_DATABASE_URL": f"mysql+pymysql://u:hush@127.0.0.1:{free_port()}/warren",
            "WARREN_BROKER_URL": f"amqp://u:hush@127.0.0.1:{free_port()}/",
            "WARREN_LOG_DIR": f"{tmp_path}/a-file/logs",
        }

        done = run_warren("check", folder=tmp_path, env=env)

        assert done.returncode == 1
        assert [line.split(":")[1].strip() for line in done.stderr.splitlines()] == [
            "database",
            "broker",
            "secret",
            "log folder",
        ]
        assert "hush" not in done.stdout + done.stderr

    def test_everything_right_is_said_too(
        self, tmp_path: Path, mariadb_url: str, vhost: str
    ) -> None:
        env = {
            "WARREN_DATABASE_URL": mariadb_url,
            "WARREN_BROKER_URL": vhost,
            "WARREN_SECRET": SECRET,
        }
        run_warren("db", "upgrade", folder=tmp_path, env=env)

        done = run_warren("check", folder=tmp_path, env=env)

        assert (done.returncode, done.stderr) == (0, "")
        assert [line.split()[0] for line in done.stdout.splitlines()] == ["ok"] * 10
        assert "plain text" not in done.stdout

    def test_plain_text_that_is_allowed_is_told(
        self, tmp_path: Path, mariadb_url: str, vhost: str
    ) -> None:
        """127.1 is this machine too, which nothing but a look-up can tell."""
        env = {
            "WARREN_DATABASE_URL": mariadb_url.replace("127.0.0.1", "127.1"),
            "WARREN_BROKER_URL": vhost.replace("127.0.0.1", "127.1"),
            "WARREN_SECRET": SECRET,
            "WARREN_ALLOW_PLAINTEXT": "database,broker",
        }
        run_warren("db", "upgrade", folder=tmp_path, env=env)

        done = run_warren("check", "--for", "console", folder=tmp_path, env=env)

        assert done.returncode == 0, done.stderr
        told = [line for line in done.stdout.splitlines() if "unencrypted to 127.1, as" in line]
        assert [line.split()[1] for line in told] == ["database:", "broker:"]


class TestSchema:
    def test_upgrade_may_be_repeated(self, tmp_path: Path, any_database_url: str) -> None:
        env = {"WARREN_DATABASE_URL": any_database_url}

        said = [run_warren("db", "upgrade", folder=tmp_path, env=env) for _ in range(2)]

        assert [done.returncode for done in said] == [0, 0]
        assert said[0].stdout == said[1].stdout
        assert run_warren("jobs", "list", folder=tmp_path, env=env).returncode == 0

    def test_sql_is_printed_without_a_database_that_answers(self, tmp_path: Path) -> None:
        env = {"WARREN_DATABASE_URL": f"mysql+pymysql://u@127.0.0.1:{free_port()}/warren"}

        done = run_warren("db", "upgrade", "--sql", folder=tmp_path, env=env)

        assert done.returncode == 0
        assert "CREATE TABLE xxl_job_log " in done.stdout


def test_reader_that_has_seen_enough_gets_no_complaint(tmp_path: Path) -> None:
    env = basic_environment() | {"WARREN_DATABASE_URL": f"sqlite:///{tmp_path}/x.db"}
    run_warren("db", "upgrade", folder=tmp_path, env=env)
    reader, writer = os.pipe()
    os.close(reader)

    done = subprocess.run(
        [WARREN, "db", "upgrade", "--sql"],
        cwd=tmp_path,
        env=env,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)

    assert done.stderr == ""


class TestTry:
    HANDLERS = """\
from warren import job

@job("hello")
def hello(context):
    print(f"{context.param} {context.shard_index}/{context.shard_total}")
    return "done"

@job("wrong")
def wrong(context):
    raise ValueError("no")
"""

    def test_handler_runs_here_and_now(self, tmp_path: Path) -> None:
        (tmp_path / "handlers.py").write_text(self.HANDLERS)

        done = run_warren(
            "try", "handlers.py", "hello", "--param", "hi", "--shard", "1/3", folder=tmp_path
        )

        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[0] == "hi 1/3"
        assert done.stdout.splitlines()[-1].startswith("SUCCEEDED after ")

    def test_a_misspelt_handler_is_answered_with_the_one_that_is_meant(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "handlers.py").write_text(self.HANDLERS)

        done = run_warren("try", "handlers.py", "helo", "--timeout", "5m", folder=tmp_path)

        assert done.returncode == 1
        assert "no handler named 'helo' here; did you mean 'hello'?" in done.stdout

    def test_params_that_do_not_fit_are_refused_with_all_that_is_wrong(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "handlers.py").write_text(
            "from dataclasses import dataclass\n"
            "from datetime import date\n"
            "from warren import JobContext, job\n"
            "@dataclass\n"
            "class Params:\n"
            "    day: date\n"
            "    parts: int\n"
            "@job('load')\n"
            "def load(context: JobContext, params: Params) -> None: ...\n"
        )
        wrong = ("--set", "day=2026-13-01", "--set", "parts=few")

        done = run_warren("try", "handlers.py", "load", *wrong, folder=tmp_path)
        fits = run_warren(
            "try",
            "handlers.py",
            "load",
            "--set",
            "day=2026-12-01",
            "--set",
            "parts=3",
            folder=tmp_path,
        )

        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            'error: expected day to be date, got: "2026-13-01"; '
            'expected parts to be integer, got: "few"\n'
        )
        assert fits.returncode == 0

    def test_timeout_that_is_no_number_is_refused(self, tmp_path: Path) -> None:
        done = run_warren("try", "handlers.py", "hello", "--timeout", "nan", folder=tmp_path)

        assert done.returncode == 2
        assert "expected a duration such as 90s, 5m, 2h or 1d, got: 'nan'" in done.stderr

    @pytest.mark.parametrize(("handler", "status"), [("wrong", 1), ("nix", 1)])
    def test_failure_is_the_status(self, tmp_path: Path, handler: str, status: int) -> None:
        (tmp_path / "handlers.py").write_text(self.HANDLERS)

        done = run_warren("try", "handlers.py", handler, folder=tmp_path)

        assert done.returncode == status
        assert "FAILED" in done.stdout

    def test_file_that_does_not_import_is_its_traceback_and_one_line(self, tmp_path: Path) -> None:
        (tmp_path / "broken.py").write_text("def inner():\n    raise KeyError('deep')\ninner()\n")

        done = run_warren("try", "broken.py", "hello", folder=tmp_path)

        assert (done.returncode, done.stdout) == (1, "")
        first, *_, last = done.stderr.splitlines()
        assert first.startswith("Traceback")
        assert "in inner" in done.stderr
        assert last == "error: cannot load handlers from 'broken.py': KeyError: 'deep'"
