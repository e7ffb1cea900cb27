"""The JSON that is kept of what handlers return."""

import json
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from warren.broker.messages import RESULT_LIMIT
from warren.executor.handlers.outcomes import NoText, message_and_result


class Loaded(msgspec.Struct):
    rows: int
    day: date


@dataclass
class Part:
    name: str


class Colour(Enum):
    RED = "red"


class Count(int):
    """As numpy's integers, a number of a type of its own."""


class Model:
    """As pydantic's models."""

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        return {"mode": mode}


class Other:
    def __str__(self) -> str:
        return "other"


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)

RESULTS: list[tuple[Any, Any]] = [
    ("42 orders", "42 orders"),
    ("", ""),
    ("\ud800", "\\ud800"),
    (42, 42),
    (1.5, 1.5),
    (False, False),
    (Count(3), 3),
    (Fraction(1, 2), 0.5),
    (Decimal("1.10"), "1.10"),
    ({"rows": 3, "parts": [1, (2,), Other()]}, {"rows": 3, "parts": [1, [2], "other"]}),
    (Loaded(3, date(2026, 12, 1)), {"rows": 3, "day": "2026-12-01"}),
    ([Part("a")], [{"name": "a"}]),
    (Model(), {"mode": "json"}),
    ({"of": Model()}, {"of": {"mode": "json"}}),
    (Colour.RED, "red"),
    (b"\x00", "AA=="),
    (Other(), "other"),
    (CIRCLE, "[[...]]"),
    (["\ud800"], "['\\ud800']"),
]


def test_result_is_the_json_of_what_was_returned() -> None:
    kept = [(value, json.loads(message_and_result(value)[1])) for value, _ in RESULTS]

    assert [(value, result) for (value, result) in kept] == RESULTS


def test_nothing_returned_is_no_result() -> None:
    assert message_and_result(None) == ("", "")


def test_message_stays_the_text_of_what_was_returned() -> None:
    assert message_and_result({"rows": 3}) == ("{'rows': 3}", '{"rows":3}')


def test_result_that_is_too_long_is_left_out_and_the_message_says_so() -> None:
    at_the_limit = "x" * (RESULT_LIMIT - 2)
    of_quotes = '"' * (RESULT_LIMIT // 2)

    assert message_and_result(at_the_limit) == (at_the_limit, f'"{at_the_limit}"')
    words, result = message_and_result(of_quotes)
    assert result == ""
    assert str(words) == (
        f"{of_quotes} (its result has 50,002 characters as JSON, too many to be kept)"
    )


def test_message_that_is_cut_says_that_itself() -> None:
    words, result = message_and_result("x" * 60_000)

    assert result == ""
    assert str(words).endswith("[cut, 60,000 characters]")


class Wordless:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_value_without_text_fails_its_run() -> None:
    with pytest.raises(NoText, match="the returned Wordless has no text"):
        message_and_result(Wordless())
