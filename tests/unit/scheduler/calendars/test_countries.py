"""Until when the holidays of a country are known, and the way out where they are over."""

from datetime import date

import pytest

from warren.scheduler.calendars.calendar_spec import read_country
from warren.scheduler.problems import Problem


@pytest.mark.parametrize(
    ("country", "today", "until"),
    [
        ("DE", date(2026, 11, 28), date(2031, 12, 31)),
        # China moves working days each year, and Sri Lanka's holidays follow the moon.
        ("CN", date(2026, 11, 28), date(2026, 12, 31)),
        ("LK", date(2026, 11, 28), date(2026, 12, 31)),
    ],
)
def test_a_country_is_known_as_long_as_its_days_are(country: str, today: date, until: date) -> None:
    assert read_country(f"holidays:{country}", today).until == until


@pytest.mark.parametrize("country", ["LK", "UA", "BV", "TW"])
def test_a_country_whose_days_are_over_says_so_with_the_way_out(country: str) -> None:
    today = date(2027, 1, 2)

    with pytest.raises(Problem) as refused:
        read_country(f"holidays:{country}", today)
    way_out = read_country(f"holidays:{country}", today, date(2027, 12, 31))

    assert str(refused.value) == (
        f"the package holidays has no data on 'holidays:{country}' for 2027: "
        "add until: 2027-12-31, with days of your own"
    )
    assert way_out.until == date(2027, 12, 31)


def test_holidays_go_on_by_their_rules_until_the_day_that_is_named() -> None:
    far = read_country("holidays:DE", date(2026, 11, 28), date(9999, 12, 31))
    near = read_country("holidays:CN", date(2026, 11, 28), date(2027, 12, 31))

    assert max(far.days) < date(2032, 1, 1)
    assert far.until == date(9999, 12, 31)
    assert date(2027, 10, 1) in near.days
