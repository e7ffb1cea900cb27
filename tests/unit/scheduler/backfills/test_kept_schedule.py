"""The due times of a backfill: those whose run dates are in its range, each once, in its order."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import combinations_with_replacement

import pytest

from warren.scheduler.backfills.kept_schedule import (
    MAX_TICKS,
    DueTimes,
    KeptSchedule,
    Span,
    joined,
    ranks_from_text,
    ranks_to_text,
)
from warren.scheduler.schedules.run_date import MAX_DAYS, MAX_MONTHS, RunDateRule
from warren.scheduler.schedules.schedule import ScheduleFacts
from warren.scheduler.schedules.working_days import Calendar, CalendarVersion, day_of

HOUR_MS = 3_600_000
NIGHTLY = KeptSchedule(facts=ScheduleFacts("CRON", "0 30 0 * * ?", "Asia/Shanghai"), days=-1)
#: Weekends are off, and its data ends in the summer of 2025.
OFFICE = Calendar(
    "office",
    [CalendarVersion(number=1, weekend=frozenset((5, 6)), days={}, until_day=20_270)],
)


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1_000)


@pytest.mark.parametrize(
    "rule",
    [
        RunDateRule(),
        RunDateRule(days=-1),
        RunDateRule(months=-1),
        RunDateRule(months=1, days=-3),
        RunDateRule(months=-MAX_MONTHS, days=MAX_DAYS),
        RunDateRule(workdays=-1, calendar=OFFICE),
        RunDateRule(months=-1, workdays=3, calendar=OFFICE),
    ],
)
def test_the_days_of_a_range_are_all_that_the_rule_moves_there(rule: RunDateRule) -> None:
    year = [date(2024, 1, 1) + timedelta(days=number) for number in range(400)]
    far = [day + timedelta(days=-rule.days - 31 * rule.months) for day in year]
    around = [day + timedelta(days=more) for day in (far[0], far[-1]) for more in (-90, 90)]
    every = [
        min(around) + timedelta(days=number) for number in range((max(around) - min(around)).days)
    ]
    wrong = []
    for first in year[::9]:
        for length in (0, 1, 2, 30, 31):
            last = first + timedelta(days=length)
            inside = [day for day in every if first <= rule.apply(day) <= last]
            days = rule.days_before(first, last)
            expected = (inside[0], inside[-1] + timedelta(days=1)) if inside else None
            if days != expected:
                wrong.append((first, last, days, expected))
    assert wrong == []


@pytest.mark.parametrize(
    ("zone", "first", "last"),
    [
        ("UTC", date(2026, 1, 30), date(2026, 2, 2)),
        ("Europe/Berlin", date(2026, 3, 28), date(2026, 3, 30)),
        ("Europe/Berlin", date(2026, 10, 24), date(2026, 10, 26)),
        ("America/Santiago", date(2026, 9, 5), date(2026, 9, 7)),
        ("America/Santiago", date(2026, 4, 3), date(2026, 4, 6)),
        ("Pacific/Apia", date(2011, 12, 29), date(2011, 12, 31)),
        ("Pacific/Apia", date(2011, 12, 30), date(2011, 12, 30)),
    ],
)
@pytest.mark.parametrize("days", [0, -1, 2])
def test_hourly_due_times_are_those_with_their_run_dates_in_the_range(
    zone: str, first: date, last: date, days: int
) -> None:
    facts = ScheduleFacts("FIX_RATE", "3600", zone)
    kept = KeptSchedule(facts=facts, anchor_ms=7, days=days)
    middle = int(datetime(first.year, first.month, first.day, tzinfo=UTC).timestamp() * 1_000)
    around = range(middle - 240 * HOUR_MS + 7, middle + 240 * HOUR_MS, HOUR_MS)

    spans = kept.spans_of(first, last)

    expected = [tick for tick in around if first <= kept.run_date(tick) <= last]
    due = DueTimes(kept, spans)
    assert due.all() == expected
    assert due.count() == len(expected)


@pytest.mark.parametrize("changed_at", ["2026-11-25T10:00Z", "2026-11-27T23:30Z"])
def test_each_version_of_a_calendar_dates_the_due_times_of_its_own_time(changed_at: str) -> None:
    weekend, until_day = frozenset((5, 6)), day_of(date(2030, 1, 1))
    first = CalendarVersion(number=1, weekend=weekend, days={}, until_day=until_day)
    holidays = {day_of(date(2026, 11, day)): False for day in (23, 24, 25)}
    second = replace(first, number=2, days=holidays, effective_ms=ms(changed_at))
    kept = KeptSchedule(
        facts=ScheduleFacts("CRON", "0 0 2,18 * * ?", "Asia/Shanghai"),
        workdays=-1,
        calendar="cn",
        calendars={"cn": Calendar("cn", (first, second))},
    )
    every = kept.schedule.ticks(ms("2026-10-01T00:00Z"), ms("2026-12-31T00:00Z"), 0, 1_000)
    days = [date(2026, 11, 18) + timedelta(days=number) for number in range(12)]

    wrong = []
    for from_date, to_date in combinations_with_replacement(days, 2):
        spans = kept.spans_of(from_date, to_date)
        wanted = [tick for tick in every if from_date <= kept.run_date(tick) <= to_date]
        if DueTimes(kept, spans).all() != wanted:
            wrong.append((from_date, to_date))
        assert DueTimes(kept, spans, newest_first=True).all() == DueTimes(kept, spans).all()[::-1]

    assert wrong == []


def test_newest_first_is_the_same_backwards_from_any_place() -> None:
    spans = [
        Span(ms("2026-11-01T00:00Z"), ms("2026-11-04T00:00Z")),
        Span(ms("2026-11-10T00:00Z"), ms("2026-11-12T00:00Z")),
    ]
    forwards = DueTimes(NIGHTLY, spans)
    backwards = DueTimes(NIGHTLY, spans, newest_first=True)

    every = forwards.all()

    assert len(every) == 5
    assert backwards.all() == every[::-1]
    for rank, tick in enumerate(every):
        assert forwards.after(tick, 2) == every[rank + 1 : rank + 3]
        assert backwards.after(tick, 2) == every[:rank][::-1][:2]


def test_dates_begin_once_each_even_where_midnight_does_not_exist() -> None:
    kept = KeptSchedule.of_dates("America/Santiago")
    first, last = date(2026, 9, 5), date(2026, 9, 8)

    [span] = kept.spans_of(first, last)
    due = DueTimes(kept, [span])

    assert [kept.run_date(tick).day for tick in due.all()] == [5, 6, 7, 8]
    assert DueTimes(kept, [span], newest_first=True).all() == due.all()[::-1]


def test_too_many_dates_are_counted_no_further_than_needed() -> None:
    kept = KeptSchedule.of_dates("UTC")
    [span] = kept.spans_of(date(1, 1, 1), date(2300, 1, 1))

    assert DueTimes(kept, [span]).count() == MAX_TICKS + 1


def test_a_schedule_is_read_as_it_was_written() -> None:
    assert KeptSchedule.from_json(NIGHTLY.to_json()) == NIGHTLY


def test_spans_that_touch_become_one() -> None:
    spans = [Span(30, 40), Span(0, 10), Span(10, 20), Span(35, 50)]

    assert joined(spans) == [Span(0, 20), Span(30, 50)]


@pytest.mark.parametrize(
    ("ranks", "text"), [([], ""), ([4], "4"), ([0, 1, 2, 7, 9, 10], "0-2,7,9-10")]
)
def test_ranks_are_stored_as_ranges(ranks: list[int], text: str) -> None:
    assert ranks_to_text(ranks) == text
    assert ranks_from_text(text) == ranks
