"""Days of a zone as spans of UTC."""

from datetime import date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.scheduler.retention.clearing import CalendarDays, days_between
from warren.sql.instants import at

#: Among them zones whose clock changes at midnight, and with odd offsets.
ZONES = ["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/Havana", "Asia/Beirut", "Pacific/Apia"]
MOMENTS = st.integers(946_684_800, 1_893_456_000).map(lambda second: at(second * 1000))


@given(zone=st.sampled_from(ZONES), moment=MOMENTS)
def test_each_instant_lies_in_the_span_of_its_day(zone: str, moment: datetime) -> None:
    days = CalendarDays(zone)
    day = days.of(moment)

    assert days.start(day) <= moment < days.end(day)


@pytest.mark.parametrize(
    ("day", "hours"),
    [(date(2026, 3, 29), 23), (date(2026, 10, 25), 25), (date(2026, 7, 1), 24)],
)
def test_a_day_is_as_long_as_its_clock_says(day: date, hours: int) -> None:
    days = CalendarDays("Europe/Berlin")

    assert days.end(day) - days.start(day) == timedelta(hours=hours)


def test_midnight_is_the_zones_own() -> None:
    assert CalendarDays("Asia/Shanghai").start(date(2026, 12, 1)) == at(1_796_054_400_000)


def test_days_between_two_are_both_included() -> None:
    found = list(days_between(date(2026, 2, 27), date(2026, 3, 1)))

    assert found == [date(2026, 2, 27), date(2026, 2, 28), date(2026, 3, 1)]
    assert list(days_between(date(2026, 3, 2), date(2026, 3, 1))) == []


def test_the_last_day_of_all_is_a_day() -> None:
    assert list(days_between(date.max, date.max)) == [date.max]
