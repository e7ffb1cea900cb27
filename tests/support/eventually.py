"""Waits for something to become true, without guessing how long it takes."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(check: Callable[[], T], seconds: float = 30.0, every: float = 0.005) -> T:
    """Return the first truthy value of `check`, which is called every few milliseconds.

    A check that raises AssertionError counts as not true yet.

    Raises:
        AssertionError: after `seconds`, with the check and its last value or error.

    """
    deadline = time.monotonic() + seconds
    while True:
        failure: AssertionError | None = None
        value: T | None = None
        try:
            value = check()
        except AssertionError as error:
            failure = error
        if value:
            return value
        if time.monotonic() >= deadline:
            name = getattr(check, "__name__", repr(check))
            text = f"{name} did not come true within {seconds} s, last value: {value!r}"
            raise AssertionError(text) from failure
        time.sleep(every)
