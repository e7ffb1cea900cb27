"""What an error says, as rows and logs keep it."""

import pytest

from warren.scheduler.problems import fault_of


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no\n  such\ttable "), "no such table"),
        (ValueError("x" * 600), "x" * 500),
        (KeyError("name"), "'name'"),
        (ValueError(), ""),
    ],
    ids=["lines", "long", "key", "silent"],
)
def test_what_an_error_says_is_one_line(error: Exception, words: str) -> None:
    assert fault_of(error) == words
