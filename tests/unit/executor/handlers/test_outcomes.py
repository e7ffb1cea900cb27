"""Words for what handlers return and raise, however odd."""

import asyncio

import pytest

from warren.broker.messages import MESSAGE_LIMIT, Outcome
from warren.executor.handlers.context import JobFailed, JobStopped, RetryLater
from warren.executor.handlers.declarations import Retry
from warren.executor.handlers.outcomes import NoText, clean, cut, describe, headline, text_of


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Wordless:
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Marked(str):
    """Text of a subclass, like the one that template engines mark as safe."""

    __slots__ = ()

    def __str__(self) -> str:
        return self


class Unprintable(Exception):
    @property  # type: ignore[misc]
    def __cause__(self) -> None:  # type: ignore[override]
        raise RuntimeError("no cause")


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), ("", ""), ("a", "a"), (0, "0"), (b"x", "b'x'"), ([], "[]")]
)
def test_returned_value_becomes_text(value: object, text: str) -> None:
    assert text_of(value) == text


def test_value_without_text_is_named_by_its_type() -> None:
    with pytest.raises(NoText, match="the returned Wordless has no text"):
        text_of(Wordless())


@pytest.mark.parametrize("text", ["plain", "späť", "x" * (MESSAGE_LIMIT + 1)])
def test_text_of_a_subclass_becomes_plain_text(text: str) -> None:
    returned = text_of(Marked(text))
    failure = describe(JobFailed(Marked(text))).message

    assert type(returned) is type(failure) is str
    assert returned == failure == cut(text)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("text"), "ValueError: text"),
        (ValueError(), "ValueError"),
        (KeyError("k"), "KeyError: 'k'"),
        (MemoryError(), "MemoryError: out of memory"),
        (asyncio.CancelledError(), "asyncio.exceptions.CancelledError"),
        (Mute(), f"{__name__}.Mute: <no text: its str() fails>"),
        (ValueError("\n\ntext"), "ValueError: text"),
    ],
)
def test_headline_is_what_python_prints_last(error: BaseException, line: str) -> None:
    assert headline(error) == line


def test_headline_of_a_group_ends_with_its_first_exception() -> None:
    inner = ExceptionGroup("inner", [OSError("refused"), KeyError()])

    assert headline(ExceptionGroup("outer", [inner])) == (
        "ExceptionGroup: outer (1 sub-exception): ExceptionGroup: inner (2 sub-exceptions): "
        "OSError: refused"
    )


@pytest.mark.parametrize(
    ("error", "outcome", "message"),
    [
        (JobFailed("exactly this"), Outcome.FAILED, "exactly this"),
        (JobStopped(), Outcome.FAILED, "stopped by SIGTERM"),
        (SystemExit(), Outcome.SUCCEEDED, ""),
        (SystemExit(0), Outcome.SUCCEEDED, ""),
        (SystemExit(2), Outcome.FAILED, "sys.exit(2)"),
        (SystemExit("words"), Outcome.FAILED, "words"),
        (SystemExit(""), Outcome.FAILED, "sys.exit('')"),
        (JobFailed(" \n"), Outcome.FAILED, "failed by its handler, which gave no reason"),
        (SystemExit(Wordless()), Outcome.FAILED, "<no text: its str() fails>"),
    ],
)
def test_orders_to_end_have_their_own_endings(
    error: BaseException, outcome: Outcome, message: str
) -> None:
    ending = describe(error)

    assert (ending.outcome, str(ending.message)) == (outcome, message)


def test_a_retry_says_which_exceptions_are_worth_another_try() -> None:
    only = Retry(3, only=(OSError, TimeoutError), never=FileNotFoundError)  # type: ignore[arg-type]
    cases = [
        (only, ConnectionError(), True),
        (only, FileNotFoundError(), False),
        (only, ValueError(), False),
        (only, SystemExit(1), False),
        (only, JobFailed("says so itself"), True),
        (only, JobFailed("says so itself", retry=False), False),
        (only, RetryLater("5m"), True),
        (only, JobStopped(), True),
        (Retry(3), KeyError(), True),
        (None, KeyError(), True),
    ]

    assert [
        (error, may_retry)
        for retry, error, may_retry in cases
        if describe(error, retry).may_retry is not may_retry
    ] == []


def test_cancelling_is_a_failure_of_its_own() -> None:
    error = asyncio.CancelledError()

    assert str(describe(error).message).startswith("asyncio.exceptions.Cancelled")


def test_exception_whose_traceback_cannot_be_printed_is_told() -> None:
    ending = describe(Unprintable("x"))

    assert ending.outcome is Outcome.FAILED
    assert str(ending.message).startswith(f"{__name__}.Unprintable: x")


def test_traceback_and_its_causes_are_in_message_and_log() -> None:
    try:
        try:
            {}["first"]
        except KeyError as first:
            raise ValueError("second") from first
    except ValueError as error:
        ending = describe(error)

    assert str(ending.message).startswith("ValueError: second\n\nTraceback")
    assert "direct cause" in ending.log
    assert ending.log in str(ending.message)


def test_text_at_the_limit_is_left_alone() -> None:
    assert cut("x" * MESSAGE_LIMIT) == "x" * MESSAGE_LIMIT


def test_text_over_the_limit_says_how_long_it_was() -> None:
    text = cut("x" * (MESSAGE_LIMIT + 1))

    assert len(text) == MESSAGE_LIMIT
    assert text.endswith("\n… [cut, 50,001 characters]")


def test_lone_surrogate_is_escaped() -> None:
    assert clean("a\udce9ü") == "a\\udce9ü"
