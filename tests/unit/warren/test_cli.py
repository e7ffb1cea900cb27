"""The command line's root, called in this process: help, wrong usage, errors of every kind."""

import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from warren import cli
from warren.broker.signing import app_key
from warren.executor.processes.interface import SlotOptions

COMMANDS = [
    "up",
    "scheduler",
    "console",
    "api",
    "executor",
    "gateway",
    "try",
    "status",
    "jobs check",
    "jobs apply",
    "jobs list",
    "jobs show",
    "jobs next",
    "jobs start",
    "jobs stop",
    "jobs export",
    "jobs delete",
    "jobs trigger",
    "import xxl-job",
    "import crontab",
    "runs list",
    "runs show",
    "runs log",
    "runs rerun",
    "runs kill",
    "runs move",
    "runs cancel",
    "runs clear",
    "backfill",
    "queue",
    "limits list",
    "limits show",
    "calendars list",
    "calendars show",
    "backfills list",
    "backfills show",
    "backfills pause",
    "backfills resume",
    "backfills cancel",
    "executors list",
    "executors show",
    "schedulers list",
    "report",
    "alarms list",
    "incidents list",
    "incidents show",
    "incidents ack",
    "users add",
    "users passwd",
    "users disable",
    "users enable",
    "users list",
    "sso apply",
    "sso export",
    "sso link",
    "sso unlink",
    "tokens add",
    "tokens list",
    "tokens revoke",
    "pause",
    "resume",
    "apps add",
    "login",
    "logout",
    "secrets app",
    "db upgrade",
    "db restored",
    "broker migrate-queues",
    "check",
    "audit",
]
LISTINGS = [
    "jobs list",
    "runs list",
    "executors list",
    "schedulers list",
    "report",
    "alarms list",
    "users list",
    "tokens list",
    "jobs next",
    "backfills list",
    "audit",
]


class Ended:
    """How a call of the command line ended."""

    def __init__(self, status: object, out: str, err: str) -> None:
        self.status = status
        self.out = out
        self.err = err


Call = Callable[..., Ended]


@pytest.fixture
def warren(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    def call(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["warren", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return Ended(ended.value.code, said.out, said.err)

    return call


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(warren: Call, command: str) -> None:
    ended = warren(*command.split(), "--help")

    assert ended.status == 0
    assert "Example:\n" in ended.out
    assert f"warren {command}" in ended.out.partition("Example:")[2]


def test_help_of_the_executor_says_how_long_a_job_process_lives(warren: Call) -> None:
    options = SlotOptions(count=1, grace_seconds=1)

    words = " ".join(warren("executor", "--help").out.split())

    assert "Each job runs in processes of its own" in words
    assert f"after {options.idle_seconds:.0f} s without a run" in words
    assert f"after {options.runs_per_process:,} runs" in words


@pytest.mark.parametrize("command", LISTINGS)
def test_what_lists_can_list_as_json(warren: Call, command: str) -> None:
    assert "--json" in warren(*command.split(), "--help").out


def test_help_names_every_command_and_no_other(warren: Call) -> None:
    out = warren("--help").out

    listed = [
        line.split()[0] for line in out.partition("Commands:\n")[2].split("\n\n")[0].splitlines()
    ]
    assert listed == list(cli.COMMANDS)
    assert set(listed) == {command.split()[0] for command in COMMANDS}


def test_no_command_takes_a_secret() -> None:
    def options(command: click.Command) -> set[str]:
        own = {name for parameter in command.params for name in parameter.opts}
        inner = command.commands.values() if isinstance(command, click.Group) else []
        return own.union(*map(options, inner))

    context = click.Context(cli.root)
    for name in cli.COMMANDS:
        command = cli.root.get_command(context, name)
        assert command is not None
        assert "--secret" not in options(command)


@pytest.mark.parametrize("secret", ["", "default_token", "s" * 31])
@pytest.mark.parametrize("command", ["console", "scheduler", "executor --app reports handlers.py"])
def test_nothing_starts_with_a_secret_that_is_missing_or_short(
    warren: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str, secret: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WARREN_DATABASE_URL", f"sqlite:///{tmp_path}/warren.db")
    monkeypatch.setenv("WARREN_BROKER_URL", "amqp://127.0.0.1:1/none")
    monkeypatch.setenv("WARREN_SECRET", secret)

    ended = warren(*command.split())

    assert ended.status == 1
    name = "SECRET" if secret or not command.startswith("executor") else "APP_SECRET"
    assert f"WARREN_{name}: expected " in ended.err
    assert not secret or secret not in ended.err
    assert list(tmp_path.iterdir()) == []


def test_the_key_of_an_app_is_printed_and_nothing_else(
    warren: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WARREN_SECRET", "s" * 32)

    first, again = warren("secrets", "app", "reports"), warren("secrets", "app", "reports")
    other = warren("secrets", "app", "mails")

    assert (first.status, first.err) == (0, "")
    assert first.out == again.out == app_key("s" * 32, "reports") + "\n"
    assert len(first.out) == 65
    assert other.out != first.out


def test_without_a_secret_there_is_no_key(
    warren: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WARREN_SECRET", raising=False)

    ended = warren("secrets", "app", "reports")

    assert (ended.status, ended.out) == (1, "")
    assert "WARREN_SECRET: expected at least 32 characters, got nothing" in ended.err


def test_what_is_no_app_has_no_key(
    warren: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WARREN_SECRET", "s" * 32)

    ended = warren("secrets", "app", "Reports!")

    assert (ended.status, ended.out) == (1, "")
    [line] = ended.err.splitlines()
    assert "expected app to be [a-z]" in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nix",), "No such command 'nix'. (see: warren --help)"),
        (("jbs",), "No such command 'jbs'. Did you mean 'jobs'? (see: warren --help)"),
        (("jobs", "nix"), "No such command 'nix'. (see: warren jobs --help)"),
        (("jobs", "list", "--nix"), "No such option"),
        (("jobs", "show"), "Missing argument 'NAME'"),
        (("jobs", "show", "a", "b"), "unexpected extra argument"),
        (("runs", "show", "x"), "'x' is not a valid integer"),
        (("runs", "show", "0"), "0 is not in the range"),
        (("runs", "show", "9" * 30), "is not in the range"),
        (("runs", "list", "--status", "LOUD"), "'LOUD' is not one of"),
        (("runs", "list", "--limit", "-1"), "-1 is not in the range"),
        (("runs", "list", "--tick", "x"), "'x' is not a valid integer"),
        (("jobs", "next", "x", "--count", "0"), "0 is not in the range"),
        (("up", "--executors", "0"), "0 is not in the range"),
        (("up", "--executors", "99"), "99 is not in the range"),
        (("executor", "handlers.py"), "Missing option '--app'"),
        (("executor", "--app", "reports"), "Missing argument"),
        (("try", "x.py", "h", "--shard", "3/3"), "expected a shard like 0/3, got: '3/3'"),
        (("try", "x.py", "h", "--shard", "x"), "expected a shard like 0/3, got: 'x'"),
        (
            ("try", "x.py", "h", "--timeout", "-1"),
            "expected a duration such as 90s, 5m, 2h or 1d, got: '-1'",
        ),
    ],
)
def test_wrong_usage_is_one_line_and_status_two(
    warren: Call, arguments: tuple[str, ...], words: str
) -> None:
    ended = warren(*arguments)

    assert (ended.status, ended.out) == (2, "")
    [line] = ended.err.splitlines()
    assert line.startswith("error: ")
    assert words in line


@pytest.mark.parametrize("group", [(), ("jobs",), ("runs",), ("db",)])
def test_group_without_a_command_shows_its_help(warren: Call, group: tuple[str, ...]) -> None:
    ended = warren(*group)

    assert ended.status == 2
    assert "Commands:" in ended.err
    assert "error:" not in ended.err


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Make `warren pause` raise."""

    def fail_with(error: BaseException) -> None:
        @click.command()
        def broken() -> None:
            raise error

        monkeypatch.setattr("warren.command_line.nodes.pause", broken)

    return fail_with


class TestFailures:
    def test_unexpected_error_is_one_line(
        self, warren: Call, failing: Callable[[BaseException], None]
    ) -> None:
        failing(ZeroDivisionError("by\nzero"))

        ended = warren("pause")

        assert ended.status == 1
        [line] = ended.err.splitlines()
        assert line.startswith("error: unexpected ZeroDivisionError: by zero")

    def test_error_cannot_control_the_terminal(
        self, warren: Call, failing: Callable[[BaseException], None]
    ) -> None:
        failing(OSError(5, "of a server\x1b[2J\x00"))

        assert warren("pause").err == "error: of a server [2J\n"

    def test_debug_shows_where_it_came_from(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        failing: Callable[[BaseException], None],
    ) -> None:
        failing(ZeroDivisionError("by zero"))
        monkeypatch.setattr(sys, "argv", ["warren", "--debug", "pause"])

        with pytest.raises(ZeroDivisionError):
            cli.main()

        assert "unexpected ZeroDivisionError" in capsys.readouterr().err

    def test_ctrl_c_is_quiet(self, warren: Call, failing: Callable[[BaseException], None]) -> None:
        failing(KeyboardInterrupt())

        ended = warren("pause")

        assert (ended.status, ended.out, ended.err.strip()) == (130, "", "")

    def test_status_of_a_command_is_that_of_the_process(
        self, monkeypatch: pytest.MonkeyPatch, warren: Call
    ) -> None:
        @click.command()
        def three() -> int:
            return 3

        monkeypatch.setattr("warren.command_line.nodes.pause", three)

        assert warren("pause").status == 3
