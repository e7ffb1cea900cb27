"""What clock changes do to a schedule is told, and what another rule changes of that."""

import json
from datetime import UTC, date, datetime

import pytest

from warren.scheduler.backfills.kept_schedule import DueTimes, KeptSchedule
from warren.scheduler.schedules.clock_changes import changed_by_rule, clock_notes
from warren.scheduler.schedules.facts import ScheduleFacts
from warren.scheduler.schedules.working_days import Calendar, CalendarVersion, day_of

NOW = int(datetime(2027, 1, 1, tzinfo=UTC).timestamp() * 1_000)
BERLIN = "Europe/Berlin"
NEWEST = '{"rule":2}'
GAP, TWICE = (
    "2027-03-28 the clock leaves out 02:00 to 03:00",
    "2027-10-31 02:00 to 03:00 comes twice",
)


def told(kind: str, value: str, options: str = "", zone: str = BERLIN) -> list[str]:
    known = {"sundays": Calendar("sundays", (SUNDAYS_OFF,))}
    facts = ScheduleFacts(kind, value, zone, options)
    return [str(note) for note in clock_notes(facts, now_ms=NOW, calendars=known)]


SUNDAYS_OFF = CalendarVersion(
    number=1, weekend=frozenset({6}), days={}, until_day=day_of(date(2029, 12, 31))
)


@pytest.mark.parametrize(
    ("kind", "value", "options", "gap", "twice"),
    [
        ("CRON", "0 30 2 * * ?", "", "nothing runs", "the second time only"),
        ("CRON", "0 30 2 * * ?", '{"gap":"run_after"}', "runs once, at 03:00", "second time"),
        ("UNIX_CRON", "30 2 * * *", NEWEST, "runs once, at 03:00", "the first time only"),
        ("UNIX_CRON", "30 2 * * *", '{"gap":"skip","rule":2}', "nothing runs", "first time"),
        ("UNIX_CRON", "*/30 * * * *", NEWEST, "nothing runs", "both times"),
        ("UNIX_CRON", "*/30 * * * *", "", "runs once, at 03:00", "the second time only"),
    ],
)
def test_the_next_gap_and_the_next_repeated_hour_are_told(
    kind: str, value: str, options: str, gap: str, twice: str
) -> None:
    first, second = told(kind, value, options)

    assert GAP in first
    assert gap in first
    assert TWICE in second
    assert twice in second


@pytest.mark.parametrize(
    ("kind", "value", "options", "zone"),
    [
        ("CRON", "0 30 9 * * ?", "", BERLIN),
        ("CRON", "0 30 2 * * ?", "", "Asia/Shanghai"),
        ("CRON", "0 30 2 * * ?", '{"until":"2027-02-01"}', BERLIN),
        ("CRON", "0 0/30 * * * ?", '{"window":"08:00-20:00"}', BERLIN),
        # The clock changes on Sundays.
        ("CRON", "0 30 2 * * ?", '{"calendar":"sundays"}', BERLIN),
        ("FIX_RATE", "1800", "", BERLIN),
        ("NONE", "", "", BERLIN),
    ],
)
def test_nothing_is_told_of_changes_that_do_not_matter(
    kind: str, value: str, options: str, zone: str
) -> None:
    assert told(kind, value, options, zone) == []


def test_a_change_of_the_rule_changes_only_what_is_due_around_clock_changes() -> None:
    fixed, wild, elsewhere = (
        changed_by_rule(ScheduleFacts("UNIX_CRON", value, zone), now_ms=NOW)
        for value, zone in (
            ("30 2 * * *", BERLIN),
            ("*/30 * * * *", BERLIN),
            ("*/30 * * * *", "Asia/Shanghai"),
        )
    )

    first, second = (
        int(datetime(2027, 10, 31, hour, 30, tzinfo=UTC).timestamp() * 1_000) for hour in (0, 1)
    )
    assert (fixed.before, fixed.after) == ((second,), (first,))
    # 03:00 after the gap is due anyway.
    assert (wild.before, wild.after) == ((), (first - 1_800_000, first))
    assert (elsewhere.before, elsewhere.after) == ((), ())


def test_a_backfill_has_the_due_times_of_the_rule_that_it_keeps() -> None:
    facts = ScheduleFacts("UNIX_CRON", "*/30 2 * * *", BERLIN, NEWEST)
    stored = {"kind": "UNIX_CRON", "value": "*/30 2 * * *", "timezone": BERLIN}
    by_0_1_0 = json.dumps({"facts": stored})
    night = date(2027, 10, 31)

    due = {}
    for name, kept in (
        ("new", KeptSchedule(facts=facts)),
        ("old", KeptSchedule.from_json(by_0_1_0)),
    ):
        span = kept.span_of(night, night)
        assert span is not None
        ticks = DueTimes(kept, [span]).all()
        assert DueTimes(kept, [span]).count() == len(ticks)
        assert DueTimes(kept, [span], newest_first=True).all() == ticks[::-1]
        assert {kept.run_date(tick) for tick in ticks} == {night}
        due[name] = [f"{datetime.fromtimestamp(tick / 1_000, UTC):%H:%M}" for tick in ticks]

    assert due == {"new": ["00:00", "00:30", "01:00", "01:30"], "old": ["01:00", "01:30"]}
