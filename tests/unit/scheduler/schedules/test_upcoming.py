"""The next times of a schedule that is only being thought of."""

import pytest

from warren.scheduler.schedules.reading import first_fires
from warren.scheduler.schedules.schedule import ScheduleFacts

NOW = 1_800_000_000_500


def fires(kind: str, conf: str, zone: str = "UTC") -> list[int]:
    return first_fires(ScheduleFacts(kind, conf, zone), now_ms=NOW, count=3)


def test_a_fixed_rate_begins_one_period_on_at_a_whole_second() -> None:
    assert fires("FIX_RATE", "30") == [NOW + 500 + n * 30_000 for n in (1, 2, 3)]


def test_a_fixed_delay_fires_at_once_and_its_further_times_are_unknown() -> None:
    assert fires("FIX_DELAY", "30") == [NOW]


def test_a_cron_is_read_in_its_zone() -> None:
    [first, *_] = fires("CRON", "0 0 2 * * ?", "Asia/Shanghai")

    assert first % 86_400_000 == 18 * 3_600_000


def test_what_is_over_has_no_times() -> None:
    assert fires("AT", "2020-01-01T00:00:00Z") == []
    assert fires("NONE", "") == []


@pytest.mark.parametrize(("kind", "conf"), [("CRON", "x"), ("FIX_RATE", "0"), ("WEEKLY", "1")])
def test_what_cannot_be_read_is_refused(kind: str, conf: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        fires(kind, conf)
