"""Durations as users write them."""

import pytest

from warren.durations import read_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("5m", 300), ("2h", 7_200), ("1d", 86_400), (" 1.5 ", 1.5)],
)
def test_a_duration_is_seconds_or_has_a_unit(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5 m", "-1", "nan", "1w", "1h30m", "1e3"])
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration such as 90s, 5m, 2h or 1d"):
        read_duration(text)
