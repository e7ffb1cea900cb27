"""Instants as DATETIME columns hold them."""

from datetime import datetime

import pytest

from sql.instants import at, at_as_text


@pytest.mark.parametrize(
    ("instant_ms", "expected"),
    [
        (0, datetime(1970, 1, 1)),  # noqa: DTZ001 - the columns are naive and hold UTC
        (999, datetime(1970, 1, 1)),  # noqa: DTZ001
        (1_796_126_400_500, datetime(2026, 12, 1, 12)),  # noqa: DTZ001
    ],
)
def test_milliseconds_are_cut_and_never_rounded_up(instant_ms: int, expected: datetime) -> None:
    assert at(instant_ms) == expected
    assert at_as_text(instant_ms) == f"{expected}.000000"
