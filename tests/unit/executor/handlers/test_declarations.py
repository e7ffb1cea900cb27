"""What handlers say about being tried again."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from warren import Retry, RetryLater
from warren.executor.handlers.context import JobFailed
from warren.executor.handlers.handler_registry import HandlersError, load_handlers
from warren.executor.handlers.outcomes import describe


def test_durations_are_seconds_or_have_a_unit() -> None:
    retry = Retry(5, delay="10s", backoff="exponential", most="10m", jitter=0.2)

    assert (retry.times, retry.delay, retry.most, retry.jitter) == (5, 10, 600, 0.2)
    assert RetryLater("2h").seconds == 7_200
    assert RetryLater(0.5).seconds == 0.5


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"times": -1}, "expected times to be 0 to 1000, got: -1"),
        ({"times": "5"}, "expected times to be 0 to 1000, got: '5'"),
        (
            {"delay": "soon"},
            "expected delay to be seconds, or a duration such as 90s, 5m, 2h or 1d",
        ),
        ({"delay": -1}, "up to 9999999 s, got: -1"),
        ({"backoff": "double"}, "expected backoff to be one of fixed, exponential, got: 'double'"),
        ({"delay": "1m", "most": 59}, "expected most to be at least the delay of 60 s, got: 59"),
        ({"backoff": "exponential"}, "expected a delay, because backoff is exponential"),
        ({"jitter": 1.5}, "expected jitter to be a number from 0 to 1 with up to two decimals"),
        ({"jitter": 0.125}, "got: 0.125"),
        ({"never": (ValueError(),)}, "expected never to be exception classes, got: ValueError()"),
    ],
)
def test_a_retry_that_makes_no_sense_is_refused_in_one_line(
    values: dict[str, Any], words: str
) -> None:
    with pytest.raises((ValueError, TypeError)) as refused:
        Retry(**({"times": 3} | values))

    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.fixture(autouse=True)
def _own_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Loading puts folders in front, and keeps modules.
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("retry", "words"),
    [
        ("Retry(5, delay=60, most=10)", "expected most to be at least the delay of 60 s, got: 10"),
        ("Retry(5, delay='soon')", "expected delay to be seconds, or a duration such as"),
        ("Retry(5, never=(3,))", "expected never to be exception classes, got: 3"),
        ("Retry(5, only=OSError())", "expected only to be exception classes, got: OSError()"),
    ],
)
def test_handlers_with_such_a_retry_are_refused_in_one_line_that_says_where(
    tmp_path: Path, retry: str, words: str
) -> None:
    file = tmp_path / "handlers.py"
    file.write_text(
        f"from warren import Retry, job\n\n@job('load', retry={retry})\ndef f(c): ...\n"
    )

    with pytest.raises(HandlersError) as refused:
        load_handlers([str(file)])

    assert words in refused.value.line
    assert refused.value.line.endswith(f"({file}:3)")
    assert (refused.value.traceback, "\n" in refused.value.line) == ("", False)


def test_an_error_of_the_users_own_code_keeps_its_traceback(tmp_path: Path) -> None:
    file = tmp_path / "handlers.py"
    file.write_text("raise ValueError('expected most')\n")

    with pytest.raises(HandlersError, match="ValueError: expected most") as refused:
        load_handlers([str(file)])

    assert "handlers.py" in refused.value.traceback


def test_never_and_only_may_be_one_exception() -> None:
    retry = Retry(1, never=ValueError, only=OSError)  # type: ignore[arg-type]

    assert (retry.never, retry.only) == ((ValueError,), (OSError,))


@pytest.mark.parametrize("delay", ["soon", "5 weeks", -1, None, True, float("nan")])
def test_a_wait_that_is_no_duration_is_refused(delay: Any) -> None:
    with pytest.raises(ValueError, match="expected delay to be seconds, or a duration"):
        RetryLater(delay)


@pytest.mark.parametrize(
    ("error", "may_retry", "seconds", "message"),
    [
        (JobFailed("no rows"), True, None, "no rows"),
        (JobFailed("no rows", retry=False), False, None, "no rows"),
        (RetryLater("5m"), True, 300, "asked to be tried again in 300 s"),
        (RetryLater("5m", "the feed is late"), True, 300, "the feed is late"),
        (KeyError("k"), False, None, "KeyError: 'k'"),
        (IndexError("i"), False, None, "IndexError: i"),
        (OSError("gone"), True, None, "OSError: gone"),
    ],
)
def test_an_end_says_whether_and_when_it_may_be_retried(
    error: Exception, may_retry: bool, seconds: float | None, message: str
) -> None:
    ending = describe(error, Retry(3, never=(LookupError,)))

    assert (ending.outcome, ending.may_retry, ending.retry_seconds) == (
        "FAILED",
        may_retry,
        seconds,
    )
    assert str(ending.message).partition("\n")[0] == message


def test_each_unknown_field_of_a_handlers_job_is_told(tmp_path: Path) -> None:
    file = tmp_path / "handlers.py"
    file.write_text("from warren import job\n@job('a', rout='x', retries=5)\ndef a(c): ...\n")

    with pytest.raises(HandlersError) as refused:
        load_handlers([str(file)])

    words = "unknown field 'retries', did you mean 'retry'?; unknown field 'rout', did you mean "
    assert f"handler 'a' has {words}'route'? ({file}:2)" in refused.value.line
