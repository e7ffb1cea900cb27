"""Errors are the same without their numbers, differ by their ends, and keep no secrets."""

import pytest

from warren.scheduler.board.error_text import error_of, without_secrets
from warren.sql.models.board_tables import ERROR_LIMIT

SERVER = "psycopg.OperationalError: connection to pg-main (10.2.0.14), port 5432 failed: "


def test_the_same_error_has_one_key_whatever_its_numbers() -> None:
    one = error_of("RuntimeError: page 31 of 0x7f2a\n\nTraceback …", "FAILED")
    other = error_of("RuntimeError: page 7 of 0x81ff", "FAILED")

    assert one.key == other.key
    assert one.text == "RuntimeError: page 31 of 0x7f2a"


@pytest.mark.parametrize(
    "text", ["exit code {}", "ended with exit code {} without", "sys.exit({})"]
)
def test_exit_codes_tell_errors_apart(text: str) -> None:
    codes = (1, 11, 127, 128)

    assert len({error_of(text.format(code), "FAILED").key for code in codes}) == len(codes)


def test_long_errors_that_differ_at_their_ends_are_two() -> None:
    padding = "x" * 2 * ERROR_LIMIT
    refused = error_of(f"{SERVER}{padding} Connection refused", "FAILED")
    rejected = error_of(f"{SERVER}{padding} wrong password", "FAILED")

    assert refused.key != rejected.key
    assert len(refused.text) == ERROR_LIMIT
    assert refused.text.endswith("Connection refused")


def test_without_a_message_the_status_stands_for_the_error() -> None:
    assert error_of("", "LOST").text == "LOST"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mysql://me:hunter2@db/x is down", "mysql://***@db/x is down"),
        ("password=hunter2, host=db", "password=***, host=db"),
        ("mysql://me:hunter@2@db/x is down", "mysql://***@db/x is down"),
        ('{"api_key": "hunter2"}', '{"api_key": ***}'),
        ('{"password":"hunter 2","user":"me"}', '{"password":***,"user":"me"}'),
        ('{"secret":4711}', '{"secret":***}'),
        (r'body: "{\"token\":\"hunter2\",\"n\":1}"', r'body: "{\"token\":***,\"n\":1}"'),
        ("password:'hunter 2'", "password:***"),
        ("Authorization: Bearer abc.def-123", "Authorization: *** ***"),
        ("key AKIAABCDEFGHIJKLMNOP is unknown", "key *** is unknown"),
        ("token eyJhbGciOi.eyJzdWIi.abc expired", "token *** expired"),
        ('password authentication failed for user "svc"', None),
        ("unexpected token: found }", "unexpected token: *** }"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, shown: str | None) -> None:
    assert without_secrets(text) == (text if shown is None else shown)
