"""Waiting without a guess."""

import time
from collections.abc import Callable

import pytest

from tests.support.eventually import eventually


def answers(*values: object) -> Callable[[], object]:
    """Return a check that gives these values in turn, raising those that are errors."""
    left = iter(values)

    def check() -> object:
        value = next(left)
        if isinstance(value, Exception):
            raise value
        return value

    return check


def test_first_true_value_is_returned() -> None:
    assert eventually(answers(0, None, [], "yes", "later")) == "yes"


def test_failed_assertion_is_asked_again() -> None:
    assert eventually(answers(AssertionError("not yet"), 7)) == 7


def test_other_errors_end_the_wait_at_once() -> None:
    with pytest.raises(KeyError):
        eventually(answers(KeyError("wrong"), 7))


def test_end_of_time_names_check_and_last_value() -> None:
    def queue_is_empty() -> str:
        return ""

    with pytest.raises(AssertionError, match=r"queue_is_empty .* 0\.02 s, last value: ''"):
        eventually(queue_is_empty, seconds=0.02)


def test_end_of_time_keeps_the_last_failed_assertion_as_cause() -> None:
    def check() -> bool:
        raise AssertionError("3 left")

    with pytest.raises(AssertionError) as caught:
        eventually(check, seconds=0.02)

    assert str(caught.value.__cause__) == "3 left"


def test_check_is_asked_at_least_once_and_time_is_kept() -> None:
    begin = time.monotonic()

    assert eventually(lambda: True, seconds=0)
    with pytest.raises(AssertionError):
        eventually(lambda: False, seconds=0.05)

    assert 0.05 <= time.monotonic() - begin < 5
