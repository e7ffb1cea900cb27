"""`warren.command` runs a program without a shell, and says what its exit code means."""

import sys
from pathlib import Path
from typing import Any

import pytest

from warren.testing import run


def python(source: str) -> list[str]:
    return [sys.executable, "-c", source]


def test_arguments_reach_the_program_as_they_are(declared: Any, capfd: Any) -> None:
    source = "import sys; print(sys.argv[1:], sys.stdin.read())"

    done = run(declared("command"), params={"args": [*python(source), "$HOME; rm x", "*"]})

    assert (done.outcome, done.message) == ("SUCCEEDED", "exit code 0")
    assert capfd.readouterr().out == "['$HOME; rm x', '*'] \n"


@pytest.mark.parametrize(
    ("code", "outcome"), [(0, "FAILED"), (3, "SUCCEEDED"), (4, "SKIPPED"), (5, "FAILED")]
)
def test_exit_codes_mean_what_the_param_says(declared: Any, code: int, outcome: str) -> None:
    params = {"args": python(f"raise SystemExit({code})"), "success": [3], "skipped": [4]}

    done = run(declared("command"), params=params)

    assert (done.outcome, done.message) == (outcome, f"exit code {code}")


def test_folder_and_environment_are_the_programs_and_secrets_fill_in(
    declared: Any, tmp_path: Path, capfd: Any
) -> None:
    secrets = tmp_path / "secrets"
    secrets.write_text("TOKEN=hunter2\n")
    source = "import os; print(os.getcwd(), os.environ['T'], os.environ['WARREN_ATTEMPT'])"
    params = {"args": python(source), "folder": str(tmp_path), "env": {"T": "a {secret:TOKEN}"}}

    run(declared("command", secrets_file=str(secrets)), params=params, attempt=2)

    assert capfd.readouterr().out == f"{tmp_path} a hunter2 2\n"


def test_death_by_a_signal_is_named(declared: Any) -> None:
    source = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"

    done = run(declared("command"), params={"args": python(source)})

    assert (done.outcome, done.message) == ("FAILED", "ended by SIGKILL")


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"args": ["/no/such"]}, "cannot run '/no/such': No such file or directory"),
        (
            {"args": ["true"], "folder": "/no/such"},
            "cannot run 'true': its folder '/no/such': No such file or directory",
        ),
        ({"args": ["true", "a\0b"]}, "cannot run 'true': embedded null byte"),
        ({"args": []}, "Expected `array` of length >= 1"),
        ({"args": "ls -l"}, "Expected `array`, got `str`"),
        ({"args": ["true"], "shell": True}, "unknown field `shell`"),
        ({"args": ["true"], "env": {"A": "{secret:B}"}}, "there is no secret 'B'"),
    ],
)
def test_a_wrong_param_is_one_line(declared: Any, params: Any, words: str) -> None:
    done = run(declared("command"), params=params)

    assert done.outcome == "FAILED"
    assert words in done.message
    assert "\n" not in done.message
