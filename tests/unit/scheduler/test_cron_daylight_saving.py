"""What fires when a clock is set forward, set back, or skips a day."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from warren.scheduler.cron.expression import Cron, next_fires

NEW_YORK, LORD_HOWE, APIA = "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"


def fires(expression: str, zone: str, after: str, count: int) -> list[str]:
    start = datetime.fromisoformat(after)
    if start.tzinfo is None:
        start = start.replace(tzinfo=ZoneInfo(zone))
    got = next_fires(expression, after=start, timezone=zone, count=count)
    return [at.isoformat()[5:] for at in got]


@pytest.mark.parametrize(
    ("zone", "expression", "after", "expected"),
    [
        # New York, forward: 2026-03-08 has no 02:00-02:59.
        (NEW_YORK, "0 30 2 * * ?", "2026-03-07T12:00", ["03-09T02:30:00-04:00"]),
        (
            NEW_YORK,
            "0 0 * * * ?",
            "2026-03-08T00:30",
            ["03-08T01:00:00-05:00", "03-08T03:00:00-04:00", "03-08T04:00:00-04:00"],
        ),
        (
            NEW_YORK,
            "0 0/30 * * * ?",
            "2026-03-08T01:10",
            ["03-08T01:30:00-05:00", "03-08T03:00:00-04:00"],
        ),
        (
            NEW_YORK,
            "* * * * * ?",
            "2026-03-08T01:59:58",
            ["03-08T01:59:59-05:00", "03-08T03:00:00-04:00", "03-08T03:00:01-04:00"],
        ),
        # New York, back: 2026-11-01 has 01:00-01:59 twice; the second one fires.
        (
            NEW_YORK,
            "0 30 1 * * ?",
            "2026-10-31T12:00",
            ["11-01T01:30:00-05:00", "11-02T01:30:00-05:00"],
        ),
        (
            NEW_YORK,
            "0 0/30 * * * ?",
            "2026-11-01T00:10",
            ["11-01T00:30:00-04:00", "11-01T01:00:00-05:00", "11-01T01:30:00-05:00"],
        ),
        (
            NEW_YORK,
            "* * * * * ?",
            "2026-11-01T00:59:58",
            ["11-01T00:59:59-04:00", "11-01T01:00:00-05:00"],
        ),
        # Lord Howe moves by half an hour. Forward: 2026-10-04 has no 02:00-02:29.
        (LORD_HOWE, "0 15 2 * * ?", "2026-10-03T12:00", ["10-05T02:15:00+11:00"]),
        (LORD_HOWE, "0 30 2 * * ?", "2026-10-03T12:00", ["10-04T02:30:00+11:00"]),
        (
            LORD_HOWE,
            "0 0/15 * * * ?",
            "2026-10-04T01:40",
            ["10-04T01:45:00+10:30", "10-04T02:30:00+11:00", "10-04T02:45:00+11:00"],
        ),
        # Back: 2026-04-05 has 01:30-01:59 twice.
        (
            LORD_HOWE,
            "0 0/15 * * * ?",
            "2026-04-05T01:10",
            ["04-05T01:15:00+11:00", "04-05T01:30:00+10:30", "04-05T01:45:00+10:30"],
        ),
        # Apia had no 30 December 2011.
        (
            APIA,
            "0 0 12 * * ?",
            "2011-12-28T13:00",
            ["12-29T12:00:00-10:00", "12-31T12:00:00+14:00"],
        ),
        (APIA, "0 0 12 30 * ?", "2011-12-01T00:00", ["01-30T12:00:00+14:00"]),
        # London, back: 2026-10-25 has 01:00-01:59 twice.
        ("Europe/London", "0 30 1 * * ?", "2026-10-24T12:00", ["10-25T01:30:00+00:00"]),
        # Cairo's clock skips the first hour of a day, Santiago's goes back at its end.
        ("Africa/Cairo", "0 0 0 * * ?", "2026-04-23T12:00", ["04-25T00:00:00+03:00"]),
        ("America/Santiago", "0 30 23 * * ?", "2026-04-04T12:00", ["04-04T23:30:00-04:00"]),
    ],
)
def test_fires_follow_the_rule_of_quartz(
    zone: str, expression: str, after: str, expected: list[str]
) -> None:
    got = fires(expression, zone, after, len(expected))

    assert got == expected


def test_start_in_the_first_coming_of_an_hour_finds_its_second_coming() -> None:
    got = fires("0 30 1 * * ?", NEW_YORK, "2026-11-01T01:45:00-04:00", 1)

    assert got == ["11-01T01:30:00-05:00"]


def test_start_in_the_second_coming_of_an_hour_goes_on_from_there() -> None:
    got = fires("0 0/30 * * * ?", NEW_YORK, "2026-11-01T01:30:00-05:00", 1)

    assert got == ["11-01T02:00:00-05:00"]


def epoch_ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1_000


@pytest.mark.parametrize(
    ("zone", "expression", "after", "until", "expected"),
    [
        (NEW_YORK, "0 0 * * * ?", "2026-03-08T00:00:00-05:00", "2026-03-09T00:00:00-04:00", 23),
        # 25 hours long, but the hour that comes twice fires only the second time.
        (NEW_YORK, "0 0 * * * ?", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00", 24),
        (NEW_YORK, "0 0 * * * ?", "2026-11-01T00:30:00-04:00", "2026-11-01T01:59:59-04:00", 0),
        (NEW_YORK, "0 30 2 * * ?", "2026-03-07T12:00:00-05:00", "2026-03-08T12:00:00-04:00", 0),
        (LORD_HOWE, "0 * * * * ?", "2026-10-04T00:00:00+10:30", "2026-10-05T00:00:00+11:00", 1410),
        (APIA, "0 0 * * * ?", "2011-12-29T00:00:00-10:00", "2012-01-01T00:00:00+14:00", 48),
    ],
)
def test_count_knows_skipped_and_repeated_hours(
    zone: str, expression: str, after: str, until: str, expected: int
) -> None:
    cron = Cron.parse(expression, zone)

    counted = cron.count(epoch_ms(after), epoch_ms(until))

    assert counted == expected


def test_last_fire_before_a_skipped_day_is_on_the_day_before() -> None:
    cron = Cron.parse("0 0 12 * * ?", APIA)

    last = cron.last_until(0, epoch_ms("2011-12-31T11:00:00+14:00"))

    assert last == epoch_ms("2011-12-29T12:00:00-10:00")


def test_last_fire_seen_from_the_first_coming_of_an_hour_is_before_that_hour() -> None:
    cron = Cron.parse("0 0/30 * * * ?", NEW_YORK)

    last = cron.last_until(0, epoch_ms("2026-11-01T01:45:00-04:00"))

    assert last == epoch_ms("2026-11-01T00:30:00-04:00")
