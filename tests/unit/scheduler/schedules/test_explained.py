"""What becomes of the times that a schedule means, and why; what clock changes do to them."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from warren.scheduler.backfills.kept_schedule import DueTimes, KeptSchedule
from warren.scheduler.schedules.explained import changed_by_rule, clock_notes, fates
from warren.scheduler.schedules.options import ScheduleOptions
from warren.scheduler.schedules.schedule import ScheduleFacts
from warren.scheduler.schedules.working_days import Calendar, CalendarVersion, day_of

END = date(2026, 12, 31)
#: A Monday.
NOW = int(datetime(2026, 6, 1, tzinfo=UTC).timestamp() * 1_000)
OFF = CalendarVersion(
    number=1,
    weekend=frozenset({5, 6}),
    days={day_of(date(2026, 6, 3)): False},
    names={day_of(date(2026, 6, 3)): "Town fair"},
    until_day=day_of(date(2026, 6, 30)),
)


def told(cron: str, count: int = 3, **options: str) -> list[str]:
    stored = ScheduleOptions.of(options).to_json() or ""
    facts = ScheduleFacts("CRON", cron, "UTC", stored)
    found = fates(facts, {"x": Calendar("x", (OFF,))}, now_ms=NOW, anchor_ms=NOW, count=count)

    def shown(at: int | None) -> str:
        return "-" if at is None else f"{datetime.fromtimestamp(at / 1_000, UTC):%d %H:%M}"

    return [f"{shown(f.nominal_ms)} {shown(f.tick_ms)} {f.why or ''}".strip() for f in found]


def test_a_schedule_without_options_says_only_when() -> None:
    assert told("0 0 9 * * ?", 2) == ["01 09:00 01 09:00", "02 09:00 02 09:00"]


def test_days_off_are_named_where_they_leave_out_or_move() -> None:
    assert told("0 0 9 * * ?", calendar="x") == [
        "01 09:00 01 09:00",
        "02 09:00 02 09:00",
        "03 09:00 - a day off in calendar 'x' Town fair",
        "04 09:00 04 09:00",
    ]
    assert told("0 0 9 3,4 * ?", 1, calendar="x", on_holiday="next") == [
        "03 09:00 04 09:00 a day off in calendar 'x' Town fair"
    ]
    assert told("0 0 9 * * ?", 4, calendar="x", on_holiday="next")[2:4] == [
        "03 09:00 04 09:00 a day off in calendar 'x' Town fair",
        "04 09:00 - at the same time as another due time",
    ]


def test_window_and_bounds_say_what_they_leave_out() -> None:
    found = told("0 0 0/12 * * ?", 2, window="10:00-14:00", **{"from": "2026-06-02"})

    assert found == [
        "01 12:00 - before 2026-06-02, when the schedule begins",
        "02 00:00 - outside of the window 10:00-14:00",
        "02 12:00 02 12:00",
        "03 00:00 - outside of the window 10:00-14:00",
        "03 12:00 03 12:00",
    ]
    assert told("0 0 9 * * ?", 3, until="2026-06-01") == [
        "01 09:00 01 09:00",
        "02 09:00 - after 2026-06-01, when the schedule ends",
    ]


def test_the_end_of_a_calendars_data_is_the_last_that_is_told() -> None:
    assert told("0 0 9 30 * ?", 3, calendar="x")[-1] == (
        "30 09:00 - its calendar 'x' ends on 2026-06-30"
    )


def test_a_distant_from_is_told_once() -> None:
    found = told("0 0/5 * * * ?", 2, **{"from": "2027-06-01"})

    assert found == [
        "01 00:05 - before 2027-06-01, when the schedule begins",
        "01 00:00 01 00:00",
        "01 00:05 01 00:05",
    ]


def test_a_time_that_is_moved_to_an_hour_that_comes_twice_is_due_as_its_kind_says() -> None:
    calendar = replace(OFF, days={day_of(date(2026, 10, 24)): False}, until_day=day_of(END))
    calendar = replace(calendar, weekend=frozenset())
    now = int(datetime(2026, 10, 24, tzinfo=UTC).timestamp() * 1_000)
    stored = ScheduleOptions.of({"calendar": "x", "on_holiday": "next"}).to_json() or ""

    due = {}
    for kind, value in (("CRON", "0 30 2 24 * ?"), ("UNIX_CRON", "30 2 24 * *")):
        facts = ScheduleFacts(kind, value, "Europe/Berlin", stored)
        known = {"x": Calendar("x", (calendar,))}
        [fate] = fates(facts, known, now_ms=now, anchor_ms=now, count=1)
        assert fate.tick_ms is not None
        due[kind] = f"{datetime.fromtimestamp(fate.tick_ms / 1_000, UTC):%d %H:%M}"

    assert due == {"CRON": "25 01:30", "UNIX_CRON": "25 00:30"}


START_OF_2027 = int(datetime(2027, 1, 1, tzinfo=UTC).timestamp() * 1_000)
BERLIN = "Europe/Berlin"
NEWEST = '{"rule":2}'
GAP, TWICE = (
    "2027-03-28 the clock leaves out 02:00 to 03:00",
    "2027-10-31 02:00 to 03:00 comes twice",
)


def noted(kind: str, value: str, options: str = "", zone: str = BERLIN) -> list[str]:
    known = {"sundays": Calendar("sundays", (SUNDAYS_OFF,))}
    facts = ScheduleFacts(kind, value, zone, options)
    return [str(note) for note in clock_notes(facts, now_ms=START_OF_2027, calendars=known)]


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
    first, second = noted(kind, value, options)

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
    assert noted(kind, value, options, zone) == []


def test_a_change_of_the_rule_changes_only_what_is_due_around_clock_changes() -> None:
    fixed, wild, elsewhere = (
        changed_by_rule(ScheduleFacts("UNIX_CRON", value, zone), now_ms=START_OF_2027)
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
        [span] = kept.spans_of(night, night)
        ticks = DueTimes(kept, [span]).all()
        assert DueTimes(kept, [span]).count() == len(ticks)
        assert DueTimes(kept, [span], newest_first=True).all() == ticks[::-1]
        assert {kept.run_date(tick) for tick in ticks} == {night}
        due[name] = [f"{datetime.fromtimestamp(tick / 1_000, UTC):%H:%M}" for tick in ticks]

    assert due == {"new": ["00:00", "00:30", "01:00", "01:30"], "old": ["01:00", "01:30"]}
