"""Instants as DATETIME columns hold them and as people see them."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from warren.sql.instants import at, iso, moment


@pytest.mark.parametrize(
    ("instant_ms", "expected"),
    [
        (0, datetime(1970, 1, 1)),  # noqa: DTZ001 - the columns are naive and hold UTC
        (999, datetime(1970, 1, 1)),  # noqa: DTZ001
        (1_796_126_400_500, datetime(2026, 12, 1, 12)),  # noqa: DTZ001
    ],
)
def test_milliseconds_are_cut_and_never_rounded_up(instant_ms: int, expected: datetime) -> None:
    assert at(instant_ms) == expected


#: 9999-12-31T23:59:59 in UTC.
LAST_SECOND_MS = 253_402_300_799_000


@pytest.mark.parametrize(
    ("instant_ms", "zone", "expected"),
    [
        (LAST_SECOND_MS, "UTC", "9999-12-31T23:59:59.000+00:00"),
        (LAST_SECOND_MS, "America/New_York", "9999-12-31T18:59:59.000-05:00"),
        (LAST_SECOND_MS, "Asia/Shanghai", "9999-12-31T23:59:59.999+08:00"),
        (LAST_SECOND_MS - 28_800_000, "Asia/Shanghai", "9999-12-31T23:59:59.000+08:00"),
        (2**62, "UTC", "9999-12-31T23:59:59.999+00:00"),
        (-1, "UTC", "1970-01-01T00:00:00.000+00:00"),
    ],
)
def test_the_end_of_the_calendar_is_shown_to_the_second(
    instant_ms: int, zone: str, expected: str
) -> None:
    shown = moment(instant_ms, ZoneInfo(zone))

    assert shown.isoformat(timespec="milliseconds") == expected


def test_the_last_second_of_the_calendar_is_kept_in_columns() -> None:
    assert at(LAST_SECOND_MS) == datetime(9999, 12, 31, 23, 59, 59)  # noqa: DTZ001
    assert iso(LAST_SECOND_MS) == "9999-12-31T23:59:59.000+00:00"
