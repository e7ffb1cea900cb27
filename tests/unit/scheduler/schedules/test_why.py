"""What becomes of the times that a schedule means, and why."""

from dataclasses import replace
from datetime import UTC, date, datetime

from warren.scheduler.schedules.facts import ScheduleFacts
from warren.scheduler.schedules.options import ScheduleOptions
from warren.scheduler.schedules.why import fates
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
        "30 09:00 - its calendar 'x' knows no day after 2026-06-30"
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
