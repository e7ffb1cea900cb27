"""The date of a run: the local day of its due time, moved by its job's rule."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.run_date import (
    MAX_DAYS,
    MAX_MONTHS,
    RunDateRule,
    months_later,
    parse_date,
    run_date_of,
)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1_000)


def test_each_rule_gives_the_date_beside_it() -> None:
    cases = [
        ("2026-12-01T00:30:00+08:00", "Asia/Shanghai", RunDateRule(), "2026-12-01"),
        ("2026-12-01T00:30:00+08:00", "UTC", RunDateRule(), "2026-11-30"),
        ("2026-12-01T02:00:00+01:00", "Europe/Berlin", RunDateRule(days=-1), "2026-11-30"),
        ("2026-03-31T02:00:00Z", "UTC", RunDateRule(months=-1), "2026-02-28"),
        ("2028-03-31T02:00:00Z", "UTC", RunDateRule(months=-1), "2028-02-29"),
        ("2026-03-01T02:00:00Z", "UTC", RunDateRule(days=-1, months=-1), "2026-01-31"),
        ("2026-12-31T02:00:00Z", "UTC", RunDateRule(days=1), "2027-01-01"),
        ("2026-01-15T02:00:00Z", "UTC", RunDateRule(months=-13), "2024-12-15"),
        # The night in which the clock goes back has one date, whichever of its hours it is.
        ("2026-10-25T02:30:00+02:00", "Europe/Berlin", RunDateRule(), "2026-10-25"),
        ("2026-10-25T02:30:00+01:00", "Europe/Berlin", RunDateRule(), "2026-10-25"),
        ("2026-12-01T02:00:00Z", "Mars/Olympus", RunDateRule(), "2026-12-01"),
    ]

    wrong = [
        (due, zone, rule, got)
        for due, zone, rule, wanted in cases
        if (got := run_date_of(at(due), zone, rule).isoformat()) != wanted
    ]

    assert not wrong


@given(
    st.dates(),
    st.integers(-MAX_DAYS, MAX_DAYS),
    st.integers(-MAX_MONTHS, MAX_MONTHS),
)
def test_a_rule_gives_a_date_whatever_the_day(day: date, days: int, months: int) -> None:
    assert date.min <= RunDateRule(days, months).apply(day) <= date.max


@given(st.dates(date(1_000, 1, 1), date(3_000, 1, 1)), st.integers(-MAX_MONTHS, MAX_MONTHS))
def test_a_date_moved_by_months_is_in_that_month_and_no_later_in_it(day: date, months: int) -> None:
    moved = months_later(day, months)

    assert moved.year * 12 + moved.month == day.year * 12 + day.month + months
    assert moved.day == day.day or (moved + timedelta(days=1)).day == 1


@given(st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)))  # noqa: DTZ001 - made aware below
def test_without_a_rule_it_is_the_day_that_a_calendar_there_shows(moment: datetime) -> None:
    zone = "Pacific/Apia"
    aware = moment.replace(tzinfo=UTC)
    due = int(aware.timestamp() * 1_000)

    assert run_date_of(due, zone, RunDateRule()) == aware.astimezone(ZoneInfo(zone)).date()


@pytest.mark.parametrize(
    "text", ["", "2026-13-01", "2026-02-30", "20261201", "2026-W49-2", "today"]
)
def test_a_date_is_written_in_one_way(text: str) -> None:
    with pytest.raises(Problem) as caught:
        parse_date(text)

    assert caught.value.code is Code.RUN_DATE
    assert parse_date("2026-12-01") == date(2026, 12, 1)
