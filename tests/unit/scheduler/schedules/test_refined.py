"""Schedules with options agree with plain sets of days and times, over ten years of holidays."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import holidays
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warren.broker.reasons import Why
from warren.scheduler.problems import Code, Problem
from warren.scheduler.schedules.options import ScheduleOptions
from warren.scheduler.schedules.reading import read_schedule
from warren.scheduler.schedules.schedule import ScheduleFacts, Ticks
from warren.scheduler.schedules.working_days import Calendar, CalendarVersion, day_of

FIRST, LAST = date(2017, 1, 1), date(2026, 12, 31)
DAY = timedelta(days=1)


def ms(*of: int, zone: str = "UTC") -> int:
    return int(datetime(*of, tzinfo=ZoneInfo(zone)).timestamp() * 1_000)  # type: ignore[arg-type,misc]


@cache
def days_of(country: str) -> Mapping[date, bool]:
    """Return the days that are not as their weekday says."""
    listed = holidays.country_holidays(country, years=range(FIRST.year, LAST.year + 1))
    weekend = {5, 6}
    days = {day: False for day in listed if day.weekday() not in weekend}
    at = FIRST
    while at <= LAST:
        if at.weekday() in weekend and listed.is_working_day(at):
            days[at] = True
        at += DAY
    return days


def version(
    days: Mapping[date, bool], number: int = 1, effective_ms: int = 0, until: date = LAST
) -> CalendarVersion:
    return CalendarVersion(
        number=number,
        weekend=frozenset({5, 6}),
        days={day_of(day): is_working for day, is_working in days.items()},
        until_day=day_of(until),
        effective_ms=effective_ms,
    )


def working(days: Mapping[date, bool], day: date) -> bool:
    return days.get(day, day.weekday() < 5)


def calendars(*versions: CalendarVersion) -> Mapping[str, Calendar]:
    return {"x": Calendar("x", versions)}


def schedule(
    kind: str, value: str, zone: str, known: Mapping[str, Calendar] | None = None, **options: str
) -> Ticks:
    stored = ScheduleOptions.of(options).to_json() or ""
    return read_schedule(ScheduleFacts(kind, value, zone, stored), known or {})


def each_day(first: date = FIRST, last: date = LAST) -> Iterator[date]:
    while first <= last:
        yield first
        first += DAY


def instants(days: Iterable[date], times: Iterable[time], zone: str) -> list[int]:
    """Return the instants of these wall times, by the rule for gaps and folds."""
    local = ZoneInfo(zone)
    wall = [datetime.combine(day, at) for day in days for at in times]
    shown = [at.replace(tzinfo=local, fold=1) for at in wall]
    return sorted(
        {
            int(at.timestamp() * 1_000)
            for at in shown
            if at.astimezone(UTC).astimezone(local).replace(tzinfo=None) == at.replace(tzinfo=None)
        }
    )


#: What docs/business-day.md promises of schedules with a calendar whose weekend is SAT and SUN; a
#: Thursday, 2026-12-03, is off, and a Saturday, 2026-12-05, a working day: the days on which they
#: are due from 2026-11-27 to 2026-12-08, in UTC.
CALENDAR_PAGE: list[tuple[str, str, str, dict[str, str], str]] = [
    ("skip", "CRON", "0 0 9 * * ?", {}, "27 30 1 2 4 5 7 8"),
    ("next", "CRON", "0 0 9 ? * THU,SUN", {"on_holiday": "next"}, "30 4 7"),
    ("previous", "CRON", "0 0 9 ? * THU,SUN", {"on_holiday": "previous"}, "27 2 5"),
    ("those that meet are one", "CRON", "0 0 9 ? * SAT,SUN,MON", {"on_holiday": "next"}, "30 5 7"),
    ("the last of the month", "CRON", "0 0 9 L * ?", {"on_holiday": "previous"}, "30"),
    ("the third working day", "WORKDAY", "3 09:00", {}, "4"),
    ("the last working day", "WORKDAY", "-1 09:00", {}, "30"),
    ("window", "CRON", "0 0 9,21 * * ?", {"window": "20:00-22:00"}, "27 30 1 2 4 5 7 8"),
    ("over midnight", "CRON", "0 0 1,9 * * ?", {"window": "22:00-06:00"}, "27 30 1 2 4 5 7 8"),
    ("every leaves days off out", "FIX_RATE", "86400", {}, "27 30 1 2 4 5 7 8"),
    ("from", "CRON", "0 0 9 * * ?", {"from": "2026-12-02"}, "2 4 5 7 8"),
    ("until", "CRON", "0 0 9 * * ?", {"until": "2026-12-04"}, "27 30 1 2 4"),
    ("unix_cron", "UNIX_CRON", "0 9 * * 4,5", {}, "27 4"),
]


def test_a_calendar_decides_due_times_as_its_page_says() -> None:
    known = calendars(version({date(2026, 12, 3): False, date(2026, 12, 5): True}))
    wrong = []
    for name, kind, value, options, expected in CALENDAR_PAGE:
        due = schedule(kind, value, "UTC", known, calendar="x", **options).ticks(
            ms(2026, 11, 27) - 1, ms(2026, 12, 9) - 1, ms(2026, 11, 27, 9), 100
        )
        days = " ".join(str(datetime.fromtimestamp(tick / 1_000, UTC).day) for tick in due)
        if days != expected:
            wrong.append((name, days))

    assert not wrong


def moved(days: Mapping[date, bool], nominal: Iterable[date], on_holiday: str) -> set[date]:
    step = {"skip": 0, "next": 1, "previous": -1}[on_holiday]
    actual = set()
    for day in nominal:
        at, left = day, 31 if step else 0
        while not working(days, at) and left:
            at, left = at + step * DAY, left - 1
        if working(days, at) and at <= LAST:
            actual.add(at)
    return actual


def all_ticks(ticks: Ticks, after_ms: int, until_ms: int) -> list[int]:
    found, at = [], ticks.next_after(after_ms, 0)
    while at is not None and at <= until_ms:
        found.append(at)
        at = ticks.next_after(at, 0)
    return found


def last_day_of_month(day: date) -> bool:
    return (day + DAY).day == 1


EVERY_DAY: Callable[[date], bool] = lambda _day: True  # noqa: E731 - a table reads better
NOMINAL: Mapping[str, tuple[str, Callable[[date], bool]]] = {
    "daily": ("0 30 18 * * ?", EVERY_DAY),
    "month's end": ("0 30 18 L * ?", last_day_of_month),
    "sundays": ("0 30 18 ? * SUN", lambda day: day.weekday() == 6),
    "the 1st and 15th": ("0 30 18 1,15 * ?", lambda day: day.day in (1, 15)),
}


@pytest.mark.parametrize("on_holiday", ["skip", "next", "previous"])
@pytest.mark.parametrize(
    ("country", "zone"),
    [("CN", "Asia/Shanghai"), ("DE", "Europe/Berlin"), ("US", "America/New_York")],
)
def test_ten_years_of_holidays_are_as_set_algebra_says(
    country: str, zone: str, on_holiday: str
) -> None:
    days = days_of(country)
    for name, (cron, is_nominal) in NOMINAL.items():
        ticks = schedule(
            "CRON", cron, zone, calendars(version(days)), calendar="x", on_holiday=on_holiday
        )
        nominal = [day for day in each_day() if is_nominal(day)]
        wanted = instants(moved(days, nominal, on_holiday), [time(18, 30)], zone)
        wanted = [at for at in wanted if at > ms(2017, 2, 1)]

        found = all_ticks(ticks, ms(2017, 2, 1), ms(2027, 6, 1))

        assert found == wanted, name
        assert ticks.count(ms(2017, 2, 1), ms(2027, 6, 1), 0) == len(wanted), name
        last = ticks.last_until(ms(2017, 2, 1), ms(2027, 6, 1), 0)
        assert last == (wanted[-1] if wanted else None), name


def test_chinas_moved_working_days_count() -> None:
    known = calendars(version(days_of("CN")))
    ticks = schedule("CRON", "0 0 9 * * ?", "Asia/Shanghai", known, calendar="x")

    assert ticks.next_after(ms(2026, 2, 14, zone="Asia/Shanghai"), 0) == ms(
        2026, 2, 14, 9, zone="Asia/Shanghai"
    )
    # The Spring Festival: 15 to 23 February.
    assert ticks.next_after(ms(2026, 2, 14, 10, zone="Asia/Shanghai"), 0) == ms(
        2026, 2, 24, 9, zone="Asia/Shanghai"
    )


@pytest.mark.parametrize("nth", [1, 3, -1, -2, 20])
def test_the_nth_working_day_of_each_month_is_as_counting_says(nth: int) -> None:
    days = days_of("CN")
    months: dict[tuple[int, int], list[date]] = {}
    for day in each_day(date(2018, 1, 1)):
        if working(days, day):
            months.setdefault((day.year, day.month), []).append(day)
    at = nth - 1 if nth > 0 else nth
    chosen = [month[at] for month in months.values() if -len(month) <= at < len(month)]
    wanted = instants(chosen, [time(18, 30)], "Asia/Shanghai")

    ticks = schedule(
        "WORKDAY", f"{nth} 18:30", "Asia/Shanghai", calendars(version(days)), calendar="x"
    )

    after, until = ms(2017, 12, 31, 23), ms(2027, 6, 1)
    assert all_ticks(ticks, after, until) == wanted
    assert ticks.count(after, until, 0) == len(wanted)


WINDOWS = {
    "08:00-20:00": lambda at: time(8) <= at <= time(20),
    "22:00-06:00": lambda at: at >= time(22) or at <= time(6),
    "00:00-24:00": lambda _at: True,
}


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Shanghai"])
@pytest.mark.parametrize("window", WINDOWS)
def test_a_window_keeps_the_times_within_it(window: str, zone: str) -> None:
    times = [time(hour, minute) for hour in range(24) for minute in (0, 30)]
    kept = [at for at in times if WINDOWS[window](at)]
    first, last = date(2026, 2, 1), date(2026, 11, 30)
    wanted = instants(each_day(first, last), kept, zone)

    ticks = schedule("CRON", "0 0/30 * * * ?", zone, window=window)

    after, until = wanted[0] - 1, wanted[-1]
    assert all_ticks(ticks, after, until) == wanted
    assert ticks.count(after, until, 0) == len(wanted)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Shanghai"])
@pytest.mark.parametrize("window", WINDOWS)
def test_a_rate_keeps_its_phase_in_its_window_and_calendar(window: str, zone: str) -> None:
    days, local = days_of("DE"), ZoneInfo(zone)
    anchor, period = ms(2026, 1, 1), 45 * 60_000
    after, until = ms(2026, 1, 1) - 1, ms(2026, 12, 1)
    wanted = []
    for at in range(anchor, until + 1, period):
        shown = datetime.fromtimestamp(at / 1_000, local)
        if working(days, shown.date()) and WINDOWS[window](shown.time()):
            wanted.append(at)

    ticks = schedule(
        "FIX_RATE", "2700", zone, calendars(version(days)), calendar="x", window=window
    )

    assert ticks.ticks(after, until, anchor, 100_000) == wanted
    assert ticks.count(after, until, anchor) == len(wanted)
    assert ticks.last_until(after, until, anchor) == wanted[-1]


@given(
    cron=st.sampled_from(
        [
            *("0 0 0/6 * * ?", "0 30 18 L * ?", "5 0 9,17 1-7 * ?", "0 0 12 ? * SAT"),
            *("0 15 2 * * ?", "15 2 * * *", "15 */2 * * *", "*/20 1-2 * * *"),
        ]
    ),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    on_holiday=st.sampled_from(["skip", "next", "previous"]),
    window=st.sampled_from(["", "08:00-20:00", "16:00-02:30"]),
    gap=st.sampled_from(["skip", "run_after"]),
    off=st.sets(st.integers(0, 80), max_size=40),
    changed=st.lists(st.tuples(st.integers(0, 120), st.booleans()), max_size=20),
    effective=st.integers(0, 90 * 24),
)
@settings(max_examples=40, deadline=None)
def test_next_last_and_count_speak_of_one_set(
    *,
    cron: str,
    zone: str,
    on_holiday: str,
    window: str,
    gap: str,
    off: set[int],
    changed: list[tuple[int, bool]],
    effective: int,
) -> None:
    first = date(2026, 1, 20)
    days = {first + each * DAY: False for each in off}
    later = days | {first + each * DAY: is_working for each, is_working in changed}
    start = ms(2026, 1, 20)
    known = calendars(
        version(days, 1), version(later, 2, effective_ms=start + effective * 3_600_000)
    )
    options = {"calendar": "x", "on_holiday": on_holiday, "gap": gap}
    if window:
        options["window"] = window
    kind = "UNIX_CRON" if len(cron.split()) == 5 else "CRON"
    ticks = schedule(kind, cron, zone, known, **options)
    until = start + 90 * 86_400_000

    found = all_ticks(ticks, start, until)

    assert found == sorted(set(found))
    assert ticks.count(start, until, 0) == len(found)
    backwards, at = [], ticks.last_until(start, until, 0)
    while at is not None:
        backwards.append(at)
        at = ticks.last_until(start, at - 1, 0)
    assert backwards[::-1] == found
    middle = start + effective * 3_600_000
    assert all_ticks(ticks, start, middle) + all_ticks(ticks, middle, until) == found


@pytest.mark.parametrize("on_holiday", ["next", "previous"])
def test_ticks_that_meet_are_one(on_holiday: str) -> None:
    ticks = schedule(
        "CRON", "0 0 9 * * ?", "UTC", calendars(version({})), calendar="x", on_holiday=on_holiday
    )

    found = all_ticks(ticks, ms(2026, 6, 1), ms(2026, 6, 15))

    assert [datetime.fromtimestamp(at / 1_000, UTC).day for at in found] == [
        *(1, 2, 3, 4, 5, 8, 9, 10, 11, 12),
    ]


#: A month's end, and what two versions of a calendar say of it: 31 July 2026 is a Friday.
END = {"calendar": "x", "on_holiday": "previous"}


def day_list(ticks: Ticks, first: date, last: date) -> list[str]:
    found = all_ticks(
        ticks, ms(first.year, first.month, first.day), ms(last.year, last.month, last.day)
    )
    return [f"{datetime.fromtimestamp(at / 1_000, UTC):%m-%d %H:%M}" for at in found]


@pytest.mark.parametrize(
    ("before", "after", "effective", "wanted"),
    [
        # The 31st becomes a day off, in time: the run is a day earlier.
        ({}, {date(2026, 7, 31): False}, ms(2026, 7, 28), ["07-30 18:30"]),
        # Too late: the 30th has passed. It is lost, and told.
        ({}, {date(2026, 7, 31): False}, ms(2026, 7, 31), []),
        # The day off becomes a working day after it has run on the 30th: not again.
        ({date(2026, 7, 31): False}, {}, ms(2026, 7, 31), ["07-30 18:30"]),
        # The same before the 30th: only on the 31st.
        ({date(2026, 7, 31): False}, {}, ms(2026, 7, 30), ["07-31 18:30"]),
    ],
)
def test_a_calendar_edited_across_a_months_end_decides_each_due_time_once(
    before: Mapping[date, bool], after: Mapping[date, bool], effective: int, wanted: list[str]
) -> None:
    known = calendars(version(before, 1), version(after, 2, effective_ms=effective))
    ticks = schedule("CRON", "0 30 18 L 7 ?", "UTC", known, **END)

    assert day_list(ticks, date(2026, 7, 1), date(2026, 8, 5)) == wanted


def test_a_due_time_that_is_moved_into_the_past_is_known() -> None:
    late = ms(2026, 7, 31)
    known = calendars(version({}), version({date(2026, 7, 31): False}, 2, effective_ms=late))
    month_end = schedule("CRON", "0 30 18 L 7 ?", "UTC", known, **END)
    daily = schedule("CRON", "0 30 18 * * ?", "UTC", known, **END)

    assert month_end.lost_to(late) == [ms(2026, 7, 30, 18, 30)]
    # A daily job has run then for another due time, and ticks that meet are one.
    assert daily.lost_to(late) == []


def test_the_version_in_force_at_the_nominal_time_decides_a_move_ahead() -> None:
    # Saturday the 1st moves to Monday the 3rd, although Saturday is a working day from Sunday on.
    known = calendars(
        version({}), version({date(2026, 8, 1): True}, 2, effective_ms=ms(2026, 8, 2))
    )
    ticks = schedule("CRON", "0 0 9 1 * ?", "UTC", known, calendar="x", on_holiday="next")

    assert day_list(ticks, date(2026, 7, 30), date(2026, 8, 10)) == ["08-03 09:00"]
    assert ticks.lost_to(ms(2026, 8, 2)) == []


@pytest.mark.parametrize(
    ("effective", "wanted"),
    [
        (ms(2026, 7, 2, 12), ["07-02 18:00"]),  # the 1st is a day off: the second is a Friday now
        (ms(2026, 7, 3, 12), ["07-02 18:00"]),  # it has run
    ],
)
def test_a_working_day_of_the_month_moves_with_its_calendar_until_it_has_run(
    effective: int, wanted: list[str]
) -> None:
    known = calendars(version({}), version({date(2026, 7, 1): False}, 2, effective_ms=effective))
    ticks = schedule("WORKDAY", "2 18:00", "UTC", known, calendar="x")
    in_time = effective < ms(2026, 7, 2, 18)

    found = day_list(ticks, date(2026, 7, 1), date(2026, 7, 30))

    assert found == (["07-03 18:00"] if in_time else wanted)


@pytest.mark.parametrize(
    ("kind", "value", "gap", "wanted"),
    [
        ("CRON", "0 30 2 * * ?", "", ["28 02:30", "30 02:30"]),
        ("CRON", "0 30 2 * * ?", "skip", ["28 02:30", "30 02:30"]),
        ("CRON", "0 30 2 * * ?", "run_after", ["28 02:30", "29 03:00", "30 02:30"]),
        ("UNIX_CRON", "30 2 * * *", "", ["28 02:30", "29 03:00", "30 02:30"]),
        ("UNIX_CRON", "30 2 * * *", "skip", ["28 02:30", "30 02:30"]),
        ("UNIX_CRON", "*/30 2 * * *", "", ["28 02:00", "28 02:30", "30 02:00", "30 02:30"]),
        (
            "UNIX_CRON",
            "*/30 2 * * *",
            "run_after",
            ["28 02:00", "28 02:30", "29 03:00", "30 02:00", "30 02:30"],
        ),
        # What is due right after the gap anyway meets it.
        (
            "CRON",
            "0 0/30 2-3 * * ?",
            "run_after",
            [
                *("28 02:00", "28 02:30", "28 03:00", "28 03:30"),
                *("29 03:00", "29 03:30"),
                *("30 02:00", "30 02:30", "30 03:00", "30 03:30"),
            ],
        ),
    ],
)
def test_times_that_spring_leaves_out_are_skipped_or_run_right_after(
    kind: str, value: str, gap: str, wanted: list[str]
) -> None:
    options = {"gap": gap} if gap else {}
    ticks = schedule(kind, value, "Europe/Berlin", **options)
    after = ms(2026, 3, 28, zone="Europe/Berlin")
    until = ms(2026, 3, 31, zone="Europe/Berlin") - 1

    found = all_ticks(ticks, after - 1, until)

    local = ZoneInfo("Europe/Berlin")
    shown = [f"{datetime.fromtimestamp(at / 1_000, local):%d %H:%M}" for at in found]
    assert shown == wanted
    assert ticks.count(after - 1, until, 0) == len(wanted)
    for tick in found:
        assert ticks.last_until(0, tick, 0) == tick
        assert ticks.count(tick - 1, tick, 0) == 1
        assert ticks.count(after - 1, tick - 1, 0) == found.index(tick)


@pytest.mark.parametrize("gap", ["skip", "run_after"])
def test_a_time_that_autumn_has_twice_fires_once(gap: str) -> None:
    ticks = schedule("CRON", "0 30 2 * * ?", "Europe/Berlin", gap=gap, window="02:00-03:00")
    after = ms(2026, 10, 24, 12, zone="Europe/Berlin")

    # The second 02:30, in winter time.
    assert all_ticks(ticks, after, ms(2026, 10, 25, 12)) == [ms(2026, 10, 25, 1, 30)]


@pytest.mark.parametrize(
    ("value", "gap", "wanted"),
    [
        ("30 2 * * *", "", ["00:30"]),
        ("30 2 * * *", "skip", ["00:30"]),
        ("30 */2 * * *", "", ["00:30", "01:30"]),
        ("30 */2 * * *", "run_after", ["00:30", "01:30"]),
    ],
)
def test_a_time_of_a_crontab_that_autumn_has_twice_fires_as_the_daemon_says(
    value: str, gap: str, wanted: list[str]
) -> None:
    options = {"window": "02:00-03:00", **({"gap": gap} if gap else {})}
    ticks = schedule("UNIX_CRON", value, "Europe/Berlin", **options)

    found = all_ticks(ticks, ms(2026, 10, 24, 12), ms(2026, 10, 25, 12))

    assert [f"{datetime.fromtimestamp(at / 1_000, UTC):%H:%M}" for at in found] == wanted


@pytest.mark.parametrize("value", ["30 2 * * *", "*/30 2 * * *"])
def test_a_crontab_line_that_was_stored_without_a_rule_fires_as_it_did(value: str) -> None:
    stored = ["", '{"window":"02:00-03:00"}']
    after, until = ms(2026, 3, 28, 12), ms(2026, 10, 25, 12)

    ticks = [read_schedule(ScheduleFacts("UNIX_CRON", value, "Europe/Berlin", o)) for o in stored]

    # What spring leaves out runs right after; of what autumn has twice, the second one runs.
    for each in ticks:
        assert each.next_after(after, 0) == ms(2026, 3, 29, 1)
        assert each.last_until(after, until, 0) == ms(2026, 10, 25, 1, 30)
        assert ms(2026, 10, 25, 0, 30) not in all_ticks(each, until - 86_400_000, until)


def test_a_schedule_has_ticks_from_its_first_day_to_its_last() -> None:
    ticks = schedule(
        "CRON", "0 0 2 * * ?", "Asia/Shanghai", **{"from": "2026-12-01", "until": "2026-12-03"}
    )

    found = all_ticks(ticks, ms(2026, 11, 1), ms(2027, 1, 1))

    assert found == [ms(2026, 12, day, 2, zone="Asia/Shanghai") for day in (1, 2, 3)]
    assert ticks.count(0, 2**60, 0) == 3
    assert ticks.last_until(0, 2**60, 0) == found[-1]
    assert ticks.end_reason(found[-1]) == Why.SCHEDULE_OVER(until="2026-12-03")


def test_a_rate_with_a_first_instant_takes_its_phase_from_it() -> None:
    ticks = schedule("FIX_RATE", "5400", "UTC", **{"from": "2026-12-01T08:00"})

    watermark, first = ticks.start(ms(2026, 11, 1, 0, 0, 7))

    assert first == ms(2026, 12, 1, 8)
    assert ticks.ticks(watermark, 2**60, first, 2) == [first, first + 5_400_000]


@pytest.mark.parametrize("window", ["", "06:00-22:00"])
def test_a_rate_keeps_the_rhythm_of_a_first_instant_that_has_passed(window: str) -> None:
    options = {"from": "2026-12-01T08:00", **({"window": window} if window else {})}
    ticks = schedule("FIX_RATE", "5400", "UTC", **options)
    now = ms(2027, 3, 1, 12, 0, 7)

    watermark, first = ticks.start(now)

    assert first is not None
    assert watermark <= now < first <= now + 5_400_000
    assert (first - ms(2026, 12, 1, 8)) % 5_400_000 == 0
    # Whatever tick it goes on from.
    for anchor in (first, 0, now):
        assert ticks.next_after(now, anchor) == first
        assert ticks.last_until(now, first, anchor) == first
        assert ticks.count(now, first, anchor) == 1


def test_a_rate_that_was_stored_without_a_rule_begins_when_it_is_started() -> None:
    stored = '{"from":"2026-12-01T08:00"}'
    ticks = read_schedule(ScheduleFacts("FIX_RATE", "5400", "UTC", stored))
    now = ms(2027, 3, 1, 12, 0, 7)

    assert ticks.start(now)[1] == now + 5_400_000
    assert ticks.next_after(now, now) == now + 5_400_000


def test_a_calendars_schedule_ends_with_its_data() -> None:
    known = calendars(version({}, until=date(2026, 6, 30)))
    ticks = schedule("CRON", "0 0 9 * * ?", "UTC", known, calendar="x", on_holiday="next")

    assert ticks.next_after(ms(2026, 6, 30, 8), 0) == ms(2026, 6, 30, 9)
    assert ticks.next_after(ms(2026, 6, 30, 9), 0) is None
    assert ticks.end_reason(ms(2026, 6, 30, 9)) == Why.CALENDAR_ENDED(
        calendar="x", until="2026-06-30"
    )


@given(job_id=st.integers(1, 10**6), day=st.integers(1, 28), hour=st.integers(8, 20))
def test_jitter_delays_within_its_length_and_never_past_the_window(
    job_id: int, day: int, hour: int
) -> None:
    ticks = schedule("CRON", "0 0 * * * ?", "UTC", window="08:00-20:00", jitter="30m")
    tick = ms(2026, 5, day, hour)

    due = ticks.due_at(job_id, tick)

    assert tick <= due < tick + 30 * 60_000
    assert due <= ms(2026, 5, day, 20)
    assert due == ticks.due_at(job_id, tick)


def test_jitter_spreads_jobs_evenly() -> None:
    ticks = schedule("CRON", "0 0 2 * * ?", "UTC", jitter="10m")
    delays = [ticks.due_at(job, ms(2026, 5, 1, 2)) - ms(2026, 5, 1, 2) for job in range(1, 1_001)]

    tenths = [
        sum(start <= delay < start + 60_000 for delay in delays)
        for start in range(0, 600_000, 60_000)
    ]

    assert min(tenths) > 60


REFUSED = [
    ("CRON", "0 0 2 * * ?", {"window": "08:00-20:00"}, Code.WINDOW_EMPTY),
    ("FIX_RATE", "86400", {"window": "25:00-26:00"}, Code.WINDOW),
    ("CRON", "0 0 2 * * ?", {"window": "08:00-08:00"}, Code.WINDOW),
    ("CRON", "0 0 2 * * ?", {"from": "2027-01-02", "until": "2027-01-01"}, Code.FROM_AFTER_UNTIL),
    ("CRON", "0 0 2 * * ?", {"from": "tomorrow"}, Code.SCHEDULE_BOUND),
    ("CRON", "0 0 2 * * ?", {"until": "2027-02-30"}, Code.SCHEDULE_BOUND),
    ("CRON", "0 0 2 * * ?", {"on_holiday": "next"}, Code.ON_HOLIDAY_ALONE),
    ("CRON", "0 0 2 * * ?", {"calendar": "x", "on_holiday": "later"}, Code.UNKNOWN_WORD),
    ("CRON", "0 0 2 * * ?", {"gap": "maybe"}, Code.UNKNOWN_WORD),
    ("CRON", "0 0 2 * * ?", {"calendar": "X Y"}, Code.CALENDAR_NAME),
    ("CRON", "0 0 2 * * ?", {"jitter": "0s"}, Code.JITTER),
    ("CRON", "0 0 2 * * ?", {"jitter": "2d"}, Code.JITTER),
    ("CRON", "0 0/5 * * * ?", {"jitter": "5m"}, Code.JITTER_TOO_LONG),
    ("FIX_RATE", "60", {"jitter": "60s"}, Code.JITTER_TOO_LONG),
    ("FIX_RATE", "60", {"calendar": "x", "on_holiday": "next"}, Code.OPTION_NOT_TAKEN),
    ("FIX_RATE", "60", {"gap": "skip"}, Code.OPTION_NOT_TAKEN),
    ("FIX_DELAY", "60", {"window": "08:00-20:00"}, Code.OPTION_NOT_TAKEN),
    ("AT", "2027-01-01T00:00:00Z", {"jitter": "5m"}, Code.OPTION_NOT_TAKEN),
    ("WORKDAY", "3 18:30", {}, Code.WORKDAY_WITHOUT_CALENDAR),
    ("WORKDAY", "0 18:30", {"calendar": "x"}, Code.WORKDAY),
    ("WORKDAY", "3 25:00", {"calendar": "x"}, Code.WORKDAY),
    ("WORKDAY", "3 18:30", {"calendar": "x", "on_holiday": "next"}, Code.OPTION_NOT_TAKEN),
    ("CRON", "0 0 2 * * ?", {"calendar": "y"}, Code.CALENDAR_UNKNOWN),
    ("CRON", "0 0 2 ? * SUN", {"calendar": "x"}, Code.CALENDAR_LEAVES_NONE),
]


@pytest.mark.parametrize(("kind", "value", "options", "code"), REFUSED)
def test_what_an_option_cannot_be_is_refused_by_name(
    kind: str, value: str, options: dict[str, str], code: Code
) -> None:
    names = [name for name in ("x", "X Y") if name == options.get("calendar")]
    known = {name: Calendar(name, (version({}),)) for name in names}

    with pytest.raises(Problem) as refused:
        schedule(kind, value, "UTC", known, **options).check_new(ms(2026, 6, 1))

    code_of_near = {Code.UNKNOWN_WORD_NEAR: Code.UNKNOWN_WORD}
    assert code_of_near.get(refused.value.code, refused.value.code) is code
    assert "\n" not in str(refused.value)


def test_a_schedule_that_is_over_may_stay_in_its_file() -> None:
    ticks = schedule("CRON", "0 0 2 * * ?", "UTC", until="2020-01-01")

    ticks.check_new(ms(2026, 6, 1))

    assert ticks.start(ms(2026, 6, 1))[1] is None


def test_options_are_kept_in_one_canonical_form() -> None:
    written = ScheduleOptions(jitter="300s", window="8:00 - 20:00", begin="2026-12-01 08:00")
    stored = '{"from":"2026-12-01T08:00","jitter":"5m","window":"08:00-20:00"}'

    assert written.by_rule(1).to_json() == stored
    assert written.by_rule(2).to_json() == stored.replace('"window"', '"rule":2,"window"')
    assert ScheduleOptions.from_json(stored) == written
    assert [ScheduleOptions.from_json(each).rule for each in (None, stored)] == [1, 1]
    assert ScheduleOptions.from_json(written.to_json()).rule == 2


def test_facts_are_read_back_as_they_were_stored() -> None:
    facts = ScheduleFacts("CRON", "0 0 2 * * ?", "Asia/Shanghai", '{"calendar":"cn"}')

    assert ScheduleFacts.from_json(facts.to_json()) == facts
