"""Whoever asks for runs says it in the same words."""

import inspect
from collections.abc import Callable
from typing import Any

from warren import testing
from warren.client import Trigger, calls
from warren.wiring.stack import Stack


def words(function: Callable[..., Any]) -> set[str]:
    return {*inspect.signature(function).parameters} - {"self"}


def test_a_run_is_asked_for_in_the_same_words_everywhere() -> None:
    # Only commands say that a person asks.
    asked = words(calls.trigger) - {"manual"}

    assert asked == {
        *("job", "param", "params", "at", "after", "late", "addresses", "run_date", "key")
    }
    assert words(calls.run) - {"timeout"} == asked
    assert words(Stack.trigger) == asked
    assert {*Trigger.__struct_fields__} == asked - {"job", "key"}
    assert {"param", "params", "at", "run_date"} <= words(testing.run)


def test_a_backfill_is_asked_for_and_previewed_in_the_same_words() -> None:
    assert words(calls.backfill) == words(calls.preview_backfill)
    assert {"param", "params", "at_once", "key"} <= words(calls.backfill)
