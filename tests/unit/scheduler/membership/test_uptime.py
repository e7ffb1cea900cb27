"""What a scheduler knows of downtimes by the look of another role."""

from typing import Any

import pytest

from tests.support.moved_clock import MovedClock
from warren.scheduler.membership.uptime import RECORD_MS, VALID_SECONDS, SendingUptime, due_times
from warren.sql.pending import Pending
from warren.sql.registry.uptimes import Downtime
from warren.sql.runs.due_runs import DueSpan

NOW_MS = 1_000_000


class NoDatabase:
    """Counts what it is asked, and knows no answer."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def read(self, _unit: Any) -> None:
        self.asked.append("read")

    def write(self, _unit: Any) -> list[Any]:
        self.asked.append("write")
        return []

    def update_autocommit(self, *_: Any) -> int:
        self.asked.append("update_autocommit")
        return 1


@pytest.fixture
def database() -> NoDatabase:
    return NoDatabase()


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def uptime(database: Any, clock: MovedClock) -> SendingUptime:
    return SendingUptime(database, clock)


def hear(
    uptime: SendingUptime,
    clock: MovedClock,
    *,
    word_age_ms: int,
    has_downtimes: bool = False,
    age_seconds: float = 0.0,
) -> None:
    """Let it hear of a look that began `age_seconds` ago, when the last word had that age."""
    found = Pending(
        0, None, None, NOW_MS - word_age_ms, has_downtimes, *[False] * (len(Pending._fields) - 5)
    )
    uptime.hear(found, clock() - age_seconds, NOW_MS)


def test_after_a_look_nobody_need_read_what_it_told(
    uptime: SendingUptime, clock: MovedClock, database: NoDatabase
) -> None:
    hear(uptime, clock, word_age_ms=100)

    uptime.keep(lambda: NOW_MS)

    assert uptime.is_valid
    assert database.asked == []


def test_when_the_last_word_is_a_second_old_it_is_said_again_without_a_read(
    uptime: SendingUptime, clock: MovedClock, database: NoDatabase
) -> None:
    hear(uptime, clock, word_age_ms=1_100)

    uptime.keep(lambda: NOW_MS)

    assert database.asked == ["update_autocommit"]


@pytest.mark.parametrize(("word_age_ms", "is_valid"), [(4_900, True), (5_000, False), (-1, False)])
def test_a_look_is_good_until_others_may_see_a_downtime(
    uptime: SendingUptime, clock: MovedClock, word_age_ms: int, is_valid: bool
) -> None:
    hear(uptime, clock, word_age_ms=word_age_ms)

    assert uptime.is_valid == is_valid


def test_a_downtime_is_read_by_who_settles_it(
    uptime: SendingUptime, clock: MovedClock, database: NoDatabase
) -> None:
    hear(uptime, clock, word_age_ms=100, has_downtimes=True)
    assert not uptime.is_valid

    uptime.keep(lambda: NOW_MS)

    assert database.asked == ["read", "write"]


def test_an_older_look_changes_nothing(uptime: SendingUptime, clock: MovedClock) -> None:
    hear(uptime, clock, word_age_ms=RECORD_MS)

    hear(uptime, clock, word_age_ms=0, age_seconds=60)

    clock.now += VALID_SECONDS
    assert uptime.is_valid
    clock.now += 0.001
    assert not uptime.is_valid


def test_what_a_short_uptime_between_two_downtimes_did_not_send_is_late() -> None:
    first, again = Downtime(1, 100_000, 110_000), Downtime(2, 115_000, 130_000)
    apart, of_an_app = Downtime(3, 135_001, 150_000), Downtime(4, 112_000, 114_000, app_id=7)

    spans = due_times([again, of_an_app, first, apart])

    assert spans == [
        DueSpan(95_000, 125_000, 130_000),
        DueSpan(130_001, 145_000, 150_000),
        DueSpan(107_000, 109_000, 114_000, 7),
    ]
