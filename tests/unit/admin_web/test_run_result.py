"""How a run's page shows what the handler returned."""

import json
from typing import Any

import pytest

from warren.admin_web.pages.run_pages import MAX_DEPTH, Branch, ResultView, result_view


def shown(value: Any, message: str = "") -> ResultView | None:
    return result_view(json.dumps(value), message)


def test_a_list_of_flat_objects_is_a_table() -> None:
    rows = [{"day": "2026-12-01", "rows": 3}, {"day": "2026-12-02", "bad": None}]

    assert shown(rows) == ResultView(
        columns=("day", "rows", "bad"),
        rows=(("2026-12-01", "3", ""), ("2026-12-02", "", "null")),
    )


def test_anything_else_with_parts_is_a_tree() -> None:
    assert shown({"rows": 3, "of": ["a", {}]}) == ResultView(
        tree=(
            Branch(name="rows", text="3"),
            Branch(name="of", parts=(Branch(name="1", text="a"), Branch(name="2", text="{}"))),
        )
    )


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, ""),
        ('"42"', "42"),
        ('"42"', "42 (its log is missing: x)"),
        ("42", "42"),
        ("null", ""),
    ],
)
def test_what_the_message_says_is_not_repeated(result: str | None, message: str) -> None:
    assert result_view(result, message) is None


def test_what_is_too_deep_or_too_large_is_text() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    large = [[number] for number in range(1_001)]

    for value in (deep, large):
        assert result_view(json.dumps(value), "") == ResultView(text=json.dumps(value))


@pytest.mark.parametrize("result", ["[1", "[" * 50_000, "{}{}"])
def test_what_is_no_json_is_text(result: str) -> None:
    assert result_view(result, "") == ResultView(text=result)
