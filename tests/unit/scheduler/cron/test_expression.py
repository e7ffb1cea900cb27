"""What the Quartz table does not hold: vectors of the manual, refusals, speed, time zones."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from tests.support.processor_time import least_seconds
from warren.scheduler.cron.expression import MAX_LENGTH, Cron, next_fires, unix_cron
from warren.scheduler.problems import Code, Problem

SHANGHAI = ZoneInfo("Asia/Shanghai")
THURSDAY = datetime(2026, 1, 15, 10, 20, 30, tzinfo=SHANGHAI)


def texts(expression: str, *, after: datetime = THURSDAY, count: int = 4) -> list[str]:
    zone = str(after.tzinfo)
    return [
        at.strftime("%Y-%m-%d %H:%M:%S")
        for at in next_fires(expression, after=after, timezone=zone, count=count)
    ]


def noons(*days: str) -> list[str]:
    return [f"2026-{day} 12:00:00" for day in days]


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("0 0 12 L * ?", ["01-31", "02-28", "03-31", "04-30"]),
        ("0 0 12 LW * ?", ["01-30", "02-27", "03-31", "04-30"]),
        ("0 0 12 L-3 * ?", ["01-28", "02-25", "03-28", "04-27"]),
        ("0 0 12 L-3W * ?", ["01-28", "02-25", "03-27", "04-27"]),
        ("0 0 12 L-0 * ?", ["01-31", "02-28", "03-31", "04-30"]),
        ("0 0 12 15W * ?", ["01-15", "02-16", "03-16", "04-15"]),
        ("0 0 12 1W * ?", ["02-02", "03-02", "04-01", "05-01"]),
        ("0 0 12 31W * ?", ["01-30", "03-31", "05-29", "07-31"]),
        ("0 0 12 15W,20W * ?", ["01-15", "01-20", "02-16", "02-20"]),
        ("0 0 12 10,L * ?", ["01-31", "02-10", "02-28", "03-10"]),
        ("0 0 12 1W,L * ?", ["01-31", "02-02", "02-28", "03-02"]),
        ("0 0 12 1,31 * ?", ["01-31", "02-01", "03-01", "03-31"]),
        ("0 0 12 ? * L", ["01-17", "01-24", "01-31", "02-07"]),
        ("0 0 12 ? * 6L", ["01-30", "02-27", "03-27", "04-24"]),
        ("0 0 12 ? * FRIL", ["01-30", "02-27", "03-27", "04-24"]),
        ("0 0 12 ? * 6#3", ["01-16", "02-20", "03-20", "04-17"]),
        ("0 0 12 ? * fri#3", ["01-16", "02-20", "03-20", "04-17"]),
        ("0 0 12 ? * 2#5", ["03-30", "06-29", "08-31", "11-30"]),
        ("0 0 12 ? * 6-2", ["01-16", "01-17", "01-18", "01-19"]),
        ("0 0 12 ? * FRI-MON", ["01-16", "01-17", "01-18", "01-19"]),
        ("0 0 12 7/6 * ?", ["01-19", "01-25", "01-31", "02-07"]),
        ("0 0 12 30-2 * ?", ["01-30", "01-31", "02-01", "02-02"]),
    ],
)
def test_days_are_those_of_the_manual(expression: str, days: list[str]) -> None:
    got = texts(expression)

    assert got == noons(*days)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("*/7 * * * * ?", ["10:20:35", "10:20:42", "10:20:49", "10:20:56"]),
        ("/7 * * * * ?", ["10:20:35", "10:20:42", "10:20:49", "10:20:56"]),
        ("5/15 * * * * ?", ["10:20:35", "10:20:50", "10:21:05", "10:21:20"]),
        ("0 0/10 9-17 ? * MON-FRI", ["10:30:00", "10:40:00", "10:50:00", "11:00:00"]),
        ("0 0 22-2 * * ?", ["22:00:00", "23:00:00", "00:00:00", "01:00:00"]),
        ("0 0 22-2/3 * * ?", ["22:00:00", "01:00:00", "22:00:00", "01:00:00"]),
        ("0 5-5 11 * * ?", ["11:05:00"] * 4),
        ("5,1,5 0 11 * * ?", ["11:00:01", "11:00:05", "11:00:01", "11:00:05"]),
    ],
)
def test_times_of_day_are_those_of_the_manual(expression: str, expected: list[str]) -> None:
    got = texts(expression)

    assert [text.split()[1] for text in got] == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 0 0 ? NOV-FEB 2", ["2026-01-19", "2026-01-26", "2026-02-02", "2026-02-09"]),
        ("0 0 0 1 7/6 ?", ["2026-07-01", "2027-07-01", "2028-07-01", "2029-07-01"]),
        ("0 0 0 29 2 ?", ["2028-02-29", "2032-02-29", "2036-02-29", "2040-02-29"]),
        ("0 0 0 1 1 ? 2027/2", ["2027-01-01", "2029-01-01", "2031-01-01", "2033-01-01"]),
        ("0 0 0 1 1 ? 2030,2027", ["2027-01-01", "2030-01-01"]),
        ("0 0 0 31 12 ? 2998-2999", ["2998-12-31", "2999-12-31"]),
    ],
)
def test_months_and_years_are_those_of_the_manual(expression: str, expected: list[str]) -> None:
    got = texts(expression)

    assert [text.split()[0] for text in got] == expected


@pytest.mark.parametrize(
    "expression",
    ["0 0 12 30 2 ?", "0 0 12 31 2,4,6,9,11 ?", "0 0 12 1 1 ? 2020", "0 0 0 L-30 2,4,6,9,11 ?"],
)
def test_impossible_date_never_fires(expression: str) -> None:
    assert texts(expression) == []


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("60 * * * * ?", "expected second to be 0-59, got: '60'"),
        ("L * * * * ?", "expected second to be 0-59, got: 'L'"),
        ("1,,2 * * * * ?", "expected second to be 0-59, got: ''"),
        ("0 0-60 * * * ?", "expected minute to be 0-59, got: '60'"),
        ("0/60 * * * * ?", "expected step of second to be 1-59, got: '0/60'"),
        ("0/0 * * * * ?", "expected step of second to be 1-59, got: '0/0'"),
        ("0 0 24 * * ?", "expected hour to be 0-23, got: '24'"),
        ("0 0 0/24 * * ?", "expected step of hour to be 1-23, got: '0/24'"),
        ("0 0 0 32 * ?", "expected day of month to be 1-31, got: '32'"),
        ("0 0 0 0 * ?", "expected day of month to be 1-31, got: '0'"),
        ("0 0 0 W * ?", "expected day of month to be 1-31, got: 'W'"),
        ("0 0 0 32W * ?", "expected day of month to be 1-31, got: '32'"),
        ("0 0 0 1-15W * ?", "expected day of month to be 1-31, got: '1-15W'"),
        ("0 0 0 L-31 * ?", "expected day of month to be L to L-30, got: 'L-31'"),
        ("0 0 0 1 13 ?", "expected month to be 1-12 or JAN-DEC, got: '13'"),
        ("0 0 0 1 FOO ?", "expected month to be 1-12 or JAN-DEC, got: 'FOO'"),
        ("0 0 0 1 JAN/2 ?", "expected month by name to have no step, got: 'JAN/2'"),
        ("0 0 0 ? * 0", "expected day of week to be 1-7 or SUN-SAT, got: '0'"),
        ("0 0 0 ? * 8L", "expected day of week to be 1-7 or SUN-SAT, got: '8'"),
        ("0 0 0 ? * MON-6", "expected day of week to be 1-7 or SUN-SAT, got: 'MON-6'"),
        ("0 0 0 ? * 6#6", "expected day of week to be the 1st to 5th (#1-#5), got: '6#6'"),
        ("0 0 0 ? * 2,6L", "expected day of week with L or # to stand alone, got: '2,6L'"),
        ("0 0 0 ? * 2#1,6#3", "expected day of week with L or # to stand alone, got: '2#1,6#3'"),
        ("0 0 0 1 1 ? 3000", "expected year to be 1970-2999, got: '3000'"),
        ("0 0 0 1 1 ? 2030-2020", "expected year to be 1970-2999, got: '2030-2020'"),
        ("? * * * * ?", "expected second to be 0-59, got: '?'"),
    ],
)
def test_refusal_names_the_field_and_the_value(expression: str, words: str) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011 - the whole text is compared below
        texts(expression)

    assert str(refusal.value) == words


@pytest.mark.parametrize("expression", ["0 0 0 * * *", "0 0 0 ? * ?", "0 0 0 1 * 2"])
def test_exactly_one_day_field_is_left_open(expression: str) -> None:
    with pytest.raises(ValueError, match="exactly one of day of month and day of week"):
        texts(expression)


@pytest.mark.parametrize("expression", ["", "0", "* * * * *", "0 0 0 * * ? 2026 1"])
def test_number_of_fields_is_six_or_seven(expression: str) -> None:
    with pytest.raises(ValueError, match=r"6 or 7 fields .* got: \d"):
        texts(expression)


@pytest.mark.parametrize(
    "name",
    ["Mars/X", "", "America", "../etc/passwd", "/etc/localtime", "a\0b", "\ud800", "Z" * 10_240],
)
def test_unknown_time_zone_is_refused_in_one_short_line(name: str) -> None:
    with pytest.raises(
        ValueError, match=r"^expected timezone to be an IANA name, got: "
    ) as refusal:
        next_fires("0 0 0 * * ?", after=THURSDAY, timezone=name, count=1)

    assert len(str(refusal.value)) < 400
    assert "\n" not in str(refusal.value)


def test_naive_start_is_refused() -> None:
    with pytest.raises(ValueError, match="expected after to be an aware datetime"):
        next_fires("0 0 0 * * ?", after=datetime(2026, 1, 1), timezone="UTC", count=1)  # noqa: DTZ001


HOSTILE = {
    "one long word": "x" * 10_240,
    "ten thousand stars": "* " * 5_120,
    "one endless list": "1," * 5_120,
    "one endless number": "9" * 10_240 + " * * * * ?",
    "endless step": "*/" + "1" * 10_240 + " * * * * ?",
    "endless weekdays": "0 0 0 ? * " + "MON," * 2_500,
    "dashes": "0-" * 5_120 + "0 * * * * ?",
    "control characters": "\0" * 10_240,
    "other digits": "\N{ARABIC-INDIC DIGIT THREE} * * * * ?",
    "line break": "0 0 0 * *\n",
    "random of croniter": "R * * * * ?",
    "hash of croniter": "H * * * * ?",
    "alias of croniter": "@daily",
    "longest list of ranges": (",".join("0-59/1" for _ in range(140)) + " * * * * ?x"),
}


@pytest.mark.parametrize("expression", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_refused_at_once_and_in_short(expression: str) -> None:
    def look() -> str:
        with pytest.raises(ValueError, match=r"^expected [^\n]+$") as refusal:
            next_fires(expression, after=THURSDAY, timezone="UTC", count=5)
        return str(refusal.value)

    assert len(look()) < 400
    assert least_seconds(look) < 0.1


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 0 30 2 ?",
        "0 0 0 31 2,4,6,9,11 ?",
        "* * * L-30 2,4,6,9,11 ?",
        "0 30 2 ? 3 1#2",  # in New York this is always the hour that the clock skips
        "* 0-59 2 ? 3 1#2",
        ",".join(f"{at}-59/7" for at in range(59))
        + " "
        + ",".join(map(str, range(60)))
        + " * 30 2 ?",
    ],
)
def test_search_that_finds_nothing_ends_at_once(expression: str) -> None:
    after = datetime(2026, 1, 1, tzinfo=UTC)

    def look() -> list[datetime]:
        return next_fires(expression, after=after, timezone="America/New_York", count=5)

    assert look() == []
    assert least_seconds(look) < 0.1


def test_every_value_of_every_field_written_out_is_accepted() -> None:
    sixty, hours = ",".join(map(str, range(60))), ",".join(map(str, range(24)))
    days, months = ",".join(map(str, range(1, 32))), ",".join(map(str, range(1, 13)))
    expression = f"{sixty} {sixty} {hours} {days} {months} ?"

    got = texts(expression, count=2)

    assert len(expression) < MAX_LENGTH
    assert got == ["2026-01-15 10:20:31", "2026-01-15 10:20:32"]


def test_fire_at_the_start_itself_does_not_count() -> None:
    noon = datetime(2026, 1, 15, 12, tzinfo=UTC)

    just_before = next_fires(
        "0 0 12 * * ?", after=noon - timedelta(microseconds=1), timezone="UTC", count=1
    )
    at_it = next_fires("0 0 12 * * ?", after=noon, timezone="UTC", count=1)

    assert just_before == [noon]
    assert at_it == [noon + timedelta(days=1)]


def test_start_may_be_in_another_zone_than_the_answer() -> None:
    after = datetime(2026, 1, 15, 23, tzinfo=timezone(timedelta(hours=-5)))

    [fire] = next_fires("0 0 12 * * ?", after=after, timezone="Asia/Shanghai", count=1)

    assert fire.isoformat() == "2026-01-17T12:00:00+08:00"
    assert str(fire.tzinfo) == "Asia/Shanghai"


@pytest.mark.parametrize(
    "after", [datetime.min.replace(tzinfo=UTC), datetime(1969, 12, 31, tzinfo=UTC)]
)
def test_search_begins_in_1970(after: datetime) -> None:
    [fire] = next_fires("0 0 12 * * ?", after=after, timezone="America/New_York", count=1)

    assert fire.isoformat() == "1970-01-01T12:00:00-05:00"


@pytest.mark.parametrize(
    "after", [datetime.max.replace(tzinfo=UTC), datetime(2999, 12, 31, 23, tzinfo=UTC)]
)
def test_search_ends_with_2999(after: datetime) -> None:
    assert next_fires("0 0 12 * * ?", after=after, timezone="UTC", count=1) == []


def test_same_expression_is_compiled_once() -> None:
    assert Cron.parse("0 0 3 * * ?", "UTC") is Cron.parse("0 0 3 * * ?", "UTC")
    assert Cron.parse("0 0 3 * * ?", "UTC") is not Cron.parse("0 0 3 * * ?", "Asia/Shanghai")


def test_per_second_quarter_of_a_year_is_counted_without_walking_it() -> None:
    cron = Cron.parse("* * * * * ?", "America/New_York")
    end_ms = 1_800_000_000_000
    start_ms = end_ms - 90 * 86_400_000

    counted = cron.count(start_ms, end_ms)

    assert least_seconds(lambda: cron.count(start_ms, end_ms)) < 0.05
    # 90 days, less the hour of 2026-11-01 whose first coming does not fire.
    assert counted == 90 * 86_400 - 3_600


COUNT = 5
START = datetime(2026, 1, 1, tzinfo=UTC)


def fires(expression: str, count: int) -> list[datetime]:
    cron, at, found = unix_cron(expression, "UTC"), int(START.timestamp() * 1_000) - 1, []
    for _ in range(count):
        following = cron.next_after(at)
        assert following is not None
        at = following
        found.append(datetime.fromtimestamp(at / 1_000, UTC))
    return found


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("0 2 * * MON-FRI", lambda t: (t.hour, t.minute) == (2, 0) and t.weekday() < 5),
        ("0 2 * * 1-5", lambda t: (t.hour, t.minute) == (2, 0) and t.weekday() < 5),
        ("0 2 * * 0", lambda t: (t.hour, t.minute) == (2, 0) and t.weekday() == 6),
        ("0 2 * * 7", lambda t: (t.hour, t.minute) == (2, 0) and t.weekday() == 6),
        ("0 2 * * 5-7", lambda t: (t.hour, t.minute) == (2, 0) and t.weekday() >= 4),
        ("*/15 8-9 * * *", lambda t: t.minute % 15 == 0 and t.hour in (8, 9)),
        ("5,35 * 1 jan,jul *", lambda t: t.minute in (5, 35) and t.day == 1 and t.month in (1, 7)),
        # Day of the month or weekday, as cron means it.
        (
            "0 0 13 * 5",
            lambda t: (t.hour, t.minute) == (0, 0) and (t.day == 13 or t.weekday() == 4),
        ),
        # One of them begins with a star: both.
        ("0 0 */2 * 1", lambda t: (t.hour, t.minute) == (0, 0) and t.day % 2 and t.weekday() == 0),
    ],
)
def test_five_fields_fire_at_the_minutes_that_they_mean(expression: str, matches: object) -> None:
    wanted, at = [], START
    while len(wanted) < COUNT:
        if matches(at):  # type: ignore[operator]
            wanted.append(at)
        at += timedelta(minutes=1)

    assert fires(expression, COUNT) == wanted


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("0 2 * *", Code.UNIX_CRON_FIELD_COUNT),
        ("0 0 2 * * ?", Code.UNIX_CRON_FIELD_COUNT),
        ("@daily", Code.UNIX_CRON_FIELD_COUNT),
        ("60 2 * * *", Code.CRON_NUMBER),
        ("0 2 * * 8", Code.CRON_NUMBER_OR_NAME),
        ("0 22-2 * * *", Code.CRON_NUMBER),
        ("0 2 ? * *", Code.CRON_NUMBER),
        ("0 2 L * *", Code.CRON_NUMBER),
        ("0,, 2 * * *", Code.CRON_NUMBER),
        ("*/0 2 * * *", Code.CRON_STEP),
    ],
)
def test_other_fields_are_refused_by_name(expression: str, code: Code) -> None:
    with pytest.raises(Problem) as refused:
        unix_cron(expression, "UTC")

    assert refused.value.code is code
