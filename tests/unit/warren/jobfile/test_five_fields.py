"""Sets of values become short fields that fire at exactly these values."""

import itertools
from collections.abc import Collection

import pytest

from warren.jobfile.five_fields import listed, meant
from warren.scheduler.cron.expression import Cron


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({3}, "3"),
        ({0, 30}, "0,30"),
        ({1, 2, 3}, "1-3"),
        ({0, 20, 40}, "0-40/20"),
        ({5, 7, 9, 11}, "5-11/2"),
        ({0, 2, 4, 5}, "0,2,4-5"),
        (set(range(60)), "*"),
    ],
)
def test_values_are_written_as_shortly_as_they_can_be(values: set[int], field: str) -> None:
    assert listed(values, 60) == field


@pytest.mark.parametrize(
    ("expression", "first", "last"),
    [
        ("0 {} * * * ?", 0, 59),
        ("0 0 {} * * ?", 0, 23),
        ("0 0 0 {} * ?", 1, 31),
        ("0 0 0 1 {} ?", 1, 12),
        ("0 0 0 ? * {}", 1, 7),
    ],
)
def test_a_step_fires_at_its_values_and_no_others(expression: str, first: int, last: int) -> None:
    def fires(field: str) -> object:
        return Cron.parse(expression.format(field), "UTC").pattern

    def spelt_out(values: Collection[int]) -> str:
        return ",".join(map(str, values))

    for start, step in itertools.product(range(first, last), range(2, last)):
        values = range(start, last + 1, step)
        assert fires(listed(values, last - first + 1)) == fires(spelt_out(values))


@pytest.mark.parametrize(
    ("written", "expression"),
    [
        ("*/5 * * * *", "0 0-55/5 * * * ?"),
        ("30 2 * * mon", "0 30 2 ? * 2"),
        ("@daily", "0 0 0 * * ?"),
        ("@Hourly", "0 0 * * * ?"),
        ("@reboot", ""),
        ("0 0 1 * 1", ""),
        ("0 99 * * *", ""),
        ("0 0 2 * * ?", ""),
        ("", ""),
    ],
)
def test_what_cron_would_take_has_an_expression_that_is_meant(
    written: str, expression: str
) -> None:
    assert meant(written) == expression
