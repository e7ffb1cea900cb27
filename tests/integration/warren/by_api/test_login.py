"""`warren login`: kept for its owner alone, and what wins over it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.integration.warren.by_api.conftest import SETTINGS, Desk
from tests.support.ports import free_port
from warren.cli import root
from warren.scheduler.commands.token_text import new_token

TOKEN = new_token()


@pytest.fixture
def login(desk: Desk, folder: Path) -> Callable[..., Any]:
    def call(*arguments: str, given: str = desk.token, **env: str) -> Any:
        every: dict[str, str | None] = dict.fromkeys(SETTINGS)
        return CliRunner().invoke(root, [*arguments], input=given, env=every | env)

    return call


def test_it_is_kept_for_its_owner_alone_until_the_logout(
    login: Callable[..., Any], desk: Desk, folder: Path
) -> None:
    url = desk.env["WARREN_API_URL"]

    done = login("login", url)

    file = folder / ".config/warren/login.json"
    assert done.output.startswith(f"logged in to {url} with the token token-1 of admin\n")
    assert (file.stat().st_mode & 0o777, desk.token in file.read_text()) == (0o600, True)
    assert "job" in login("jobs", "list").output
    assert login("check", "--for", "commands").output.splitlines()[1] == (
        f"ok     commands: the API at {url}, by warren login, with the token token-1 of admin"
    )
    assert login("logout").output == f"logged out; {file} is gone\n"
    assert login("logout").output == "not logged in\n"
    assert "no database: set WARREN_DATABASE_URL" in str(login("jobs", "list").exception)


def test_the_environment_wins_and_is_told(login: Callable[..., Any], desk: Desk) -> None:
    login("login", desk.env["WARREN_API_URL"])

    checked = login("check", "--for", "commands", WARREN_DATABASE_URL=desk.url)

    assert (
        checked.output
        == "ok     settings: valid\nok     commands: the database, by WARREN_DATABASE_URL\n"
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "expected the token to be what `warren tokens add` printed"),
        ("wrn_nonsense", "expected the token to be what `warren tokens add` printed"),
        (TOKEN, "refused the token: unknown token"),
    ],
    ids=["nothing", "nonsense", "unknown"],
)
def test_what_is_no_token_is_not_kept(
    login: Callable[..., Any], desk: Desk, folder: Path, given: str, words: str
) -> None:
    refused = login("login", desk.env["WARREN_API_URL"], given=given)

    assert refused.exit_code == 1
    assert words in str(refused.exception)
    assert not (folder / ".config").exists()


def test_a_file_that_others_can_read_is_not_used(
    login: Callable[..., Any], desk: Desk, folder: Path
) -> None:
    login("login", desk.env["WARREN_API_URL"])
    (folder / ".config/warren/login.json").chmod(0o644)

    refused = login("jobs", "list")

    assert "expected nobody else to be able to read the token in it" in str(refused.exception)


def test_a_token_has_an_end_of_its_own(login: Callable[..., Any], desk: Desk) -> None:
    refused = login("login", desk.env["WARREN_API_URL"], "--by", "token", "--days", "3")

    assert refused.exit_code == 2
    assert "--days is for --by browser and --by code" in refused.output


def test_an_api_that_knows_no_console_is_told(login: Callable[..., Any], desk: Desk) -> None:
    refused = login("login", desk.env["WARREN_API_URL"], "--by", "code")

    assert refused.exit_code == 1
    assert str(refused.exception).endswith("set WARREN_CONSOLE_URL for it")


def test_a_login_that_cannot_be_ended_at_its_api_is_told(
    login: Callable[..., Any], folder: Path
) -> None:
    file = folder / ".config/warren/login.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps([f"http://127.0.0.1:{free_port()}", TOKEN, True]))
    file.chmod(0o600)

    done = login("logout")

    assert done.exit_code == 0
    assert "may still be valid: no answer from" in done.stderr
    assert not file.exists()
