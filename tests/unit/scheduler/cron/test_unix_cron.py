"""Five fields fire as cron's do."""

from datetime import UTC, datetime, timedelta

import pytest

from warren.scheduler.cron.unix_cron import unix_cron
from warren.scheduler.problems import Code, Problem

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
