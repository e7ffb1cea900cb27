"""`warren tokens`: what it prints, and that a token is printed once."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support.stored_rows import Rows
from warren.cli import root
from warren.scheduler.commands.token_text import is_token
from warren.sql.engine import Database
from warren.sql.registry import apps


@pytest.fixture
def rows(sqlite_schema_url: str) -> Iterator[Rows]:
    rows = Rows(sqlite_schema_url)
    yield rows
    rows.database.close()


@pytest.fixture
def warren(sqlite_schema_url: str) -> Any:
    database = Database(sqlite_schema_url)
    database.write(lambda session: apps.ensure(session, "reports"))
    database.close()
    runner = CliRunner()

    def call(*arguments: str, **more: Any) -> Any:
        return runner.invoke(root, [*arguments, "--database-url", sqlite_schema_url], **more)

    return call


def test_a_program_gets_a_user_and_a_token(warren: Any) -> None:

    rights = "--role", "operator", "--apps", "reports"
    assert warren("users", "add", "carla", *rights, "--no-password").exit_code == 0

    made = warren("tokens", "add", "deploy", "--owner", "carla", "--scopes", "read, trigger")

    text, words = made.output.strip().splitlines()
    assert is_token(text)
    assert "shown only once" in words
    [told] = warren("tokens", "list", "--json").output.splitlines()
    told = json.loads(told)
    assert (told["name"], told["owner"], told["state"]) == ("deploy", "carla", "good")
    assert told["scopes"] == ["read", "trigger"]
    assert text not in str(told)


def test_a_program_may_have_a_short_name_but_then_nobody_can_sign_in_with_it(warren: Any) -> None:
    rights = "--role", "operator", "--apps", "reports", "--no-password"

    assert warren("users", "add", "ci", *rights).exit_code == 0
    assert is_token(warren("tokens", "add", "deploy", "--owner", "ci").output.splitlines()[0])

    assert "{2,50}, got: 'c'" in str(warren("users", "add", "c", *rights).exception)
    with_password = warren("users", "passwd", "ci", input="a password for it\n")
    assert "{4,50}, got: 'ci'" in str(with_password.exception)


def test_a_revoked_token_is_shown_as_such(warren: Any) -> None:
    warren("users", "add", "carla", "--role", "administrator", "--no-password")
    warren("tokens", "add", "deploy", "--owner", "carla")

    assert warren("tokens", "revoke", "deploy").output == "revoked deploy\n"
    assert warren("tokens", "revoke", "deploy").output == "deploy was already revoked\n"

    assert "revoked" in warren("tokens", "list").output


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (("--apps", "mails"), "carla has no access to app 'mails'"),
        (("--jobs", "mails/send"), "expected jobs of apps that both carla and the token"),
        (("--apps", "reports", "--jobs", "mails/send"), "got: 'mails/send'"),
    ],
)
def test_a_limit_that_is_foreign_to_the_owner_is_named_as_it_was_typed(
    warren: Any, rows: Rows, limit: tuple[str, ...], words: str
) -> None:
    rows.job("send", app="mails")
    warren("users", "add", "carla", "--role", "operator", "--apps", "reports", "--no-password")

    refused = warren("tokens", "add", "deploy", "--owner", "carla", *limit)

    assert words in str(refused.exception)


def test_an_unknown_scope_names_the_known_ones(warren: Any) -> None:
    warren("users", "add", "carla", "--role", "administrator", "--no-password")

    refused = warren("tokens", "add", "deploy", "--owner", "carla", "--scopes", "reed")
    both = warren("tokens", "add", "deploy", "--owner", "carla", "--scopes", "reed,read,wirte")

    assert refused.exit_code == 2
    assert "unknown scope 'reed'; expected some of read, logs" in refused.output
    assert "unknown scope 'reed', 'wirte'; expected some of" in both.output


@pytest.mark.parametrize("option", ["--apps", "--jobs"])
@pytest.mark.parametrize("given", ["", " , "])
def test_a_limit_that_names_nothing_is_refused(warren: Any, option: str, given: str) -> None:
    """As an empty variable of a script does: without the limit the token could do everything."""
    warren("users", "add", "carla", "--role", "administrator", "--no-password")

    refused = warren("tokens", "add", "deploy", "--owner", "carla", option, given)

    assert refused.exit_code != 0
    assert "expected at least one name" in refused.output + str(refused.exception)


def test_all_that_is_wrong_with_a_user_or_a_token_is_told_at_once(warren: Any, rows: Rows) -> None:
    rows.job("nightly")
    warren("users", "add", "carla", "--role", "administrator", "--no-password")

    limits = ("--scopes", "read,write", "--jobs", "reports/nightly")
    token = warren("tokens", "add", "a b", "--owner", "carla", *limits)
    user = warren("users", "add", "a b", "--role", "administrator", input="short\n")

    assert "'a b'; a token for some jobs only cannot have scope write" in str(token.exception)
    assert "'a b'; expected the password to have" in str(user.exception)
