"""Waits for something to become true, without guessing how long it takes."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(check: Callable[[], T], seconds: float = 60.0, every: float = 0.005) -> T:
    """Return the first truthy value of `check`, called after `every` seconds, then less often.

    A check that raises AssertionError counts as not true yet. The pause grows to ten times `every`,
    and is at least as long as four checks compute, so that waiting takes little of what is waited
    for.

    Raises:
        AssertionError: after `seconds`, with the check and its last value or error.

    """
    deadline = time.monotonic() + seconds
    longest = 10 * every
    while True:
        failure: AssertionError | None = None
        value: T | None = None
        began = time.thread_time()
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
        time.sleep(max(every, 4 * (time.thread_time() - began)))
        every = min(1.25 * every, longest)
