"""Due times are judged by what their runs did, up to their deadlines."""

from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

import pytest

from warren.scheduler.watch.judgement import (
    DueTime,
    due_times,
    is_made_up,
    judge,
    next_time,
    since_success,
)
from warren.sql.alarms.watches import SkippedSpan, WatchedRun
from warren.sql.jobs.due_jobs import PARKED_MS
from warren.sql.registry.pauses import PauseRow

MINUTE = 60_000
FIVE = 5 * MINUTE
#: Three due times, ten minutes apart.
FIRST, SECOND, THIRD = 10 * MINUTE, 20 * MINUTE, 30 * MINUTE


def run(due_at: int, status: str = "SUCCEEDED", **others: int | None) -> WatchedRun:
    values: dict[str, int | None] = {
        "started_at": due_at + 1,
        "finished_at": due_at + 2,
        "origin_id": 0,
        "shard_index": 0,
        "shard_total": 1,
    }
    return WatchedRun(scheduled_at=due_at, status=status, **(values | others))  # type: ignore[arg-type]


def started(one: DueTime) -> int | None:
    return one.started_at


def verdict(
    times: list[DueTime], now_ms: int, *, until: int = 0, pauses: tuple[PauseRow, ...] = ()
) -> tuple[int | None, int, int | None]:
    found = judge(
        times,
        deadline=lambda due_at: due_at + FIVE,
        done_at=started,
        judged_until=until,
        pauses=pauses,
        now_ms=now_ms,
    )
    return found.broken_at, found.judged_until, found.next_look_at


@pytest.mark.parametrize(
    ("started_at", "now_ms", "expected"),
    [
        (None, FIRST, (None, 0, FIRST + FIVE)),
        (None, FIRST + FIVE, (FIRST, FIRST, SECOND + FIVE)),
        (FIRST + FIVE, FIRST + FIVE, (None, FIRST, SECOND + FIVE)),
        (FIRST + FIVE + 1, FIRST + FIVE + 2, (FIRST, FIRST, SECOND + FIVE)),
        (FIRST + FIVE + 1, THIRD, (FIRST, SECOND, None)),
    ],
    ids=["not yet", "never", "just in time", "too late", "two at once"],
)
def test_a_due_time_is_judged_at_its_deadline(
    started_at: int | None, now_ms: int, expected: tuple[int | None, int, int | None]
) -> None:
    times = [DueTime(FIRST, started_at), DueTime(SECOND)]

    assert verdict(times, now_ms) == expected


def test_what_was_judged_is_not_judged_again() -> None:
    assert verdict([DueTime(FIRST)], THIRD, until=FIRST) == (None, FIRST, None)


@pytest.mark.parametrize(
    ("since_at", "until_at", "breaks"),
    [(0, FIRST - 1, True), (0, FIRST, False), (FIRST + FIVE, None, False), (THIRD, None, True)],
)
def test_a_due_time_that_a_pause_held_back_breaks_nothing(
    since_at: int, until_at: int | None, *, breaks: bool
) -> None:
    pause = PauseRow(1, 0, since_at, until_at, "ops", "")

    assert verdict([DueTime(FIRST)], THIRD + 1, pauses=(pause,))[0] == (FIRST if breaks else None)


def test_a_later_due_time_makes_up_for_an_earlier_one() -> None:
    times = [DueTime(FIRST), DueTime(SECOND, SECOND + 1)]

    assert is_made_up(times, FIRST, started)
    assert not is_made_up(times, THIRD, started)


def test_retries_and_reruns_count_for_their_due_time() -> None:
    runs = [
        run(FIRST, "FAILED"),
        run(FIRST, "SUCCEEDED", started_at=FIRST + 10, finished_at=FIRST + 20, origin_id=99),
    ]

    assert due_times(runs, [], after_ms=0, next_tick_ms=PARKED_MS) == [
        DueTime(FIRST, FIRST + 1, FIRST + 20)
    ]


def test_a_manual_run_is_no_due_time_and_a_cancelled_one_is_not_missed() -> None:
    runs = [run(FIRST + 7, origin_id=5), run(SECOND, "CANCELLED")]

    assert due_times(runs, [], after_ms=0, next_tick_ms=THIRD) == [DueTime(THIRD)]


def test_a_broadcast_has_succeeded_with_its_last_shard() -> None:
    shards = [
        run(FIRST, shard_index=0, shard_total=2, finished_at=FIRST + 5),
        run(FIRST, shard_index=1, shard_total=2, finished_at=FIRST + 9),
    ]

    def succeeded(runs: list[WatchedRun]) -> int | None:
        return due_times(runs, [], after_ms=0, next_tick_ms=PARKED_MS)[0].succeeded_at

    assert succeeded(shards) == FIRST + 9
    assert succeeded(shards[:1]) is None


def test_skipped_due_times_were_due() -> None:
    skips = [SkippedSpan(FIRST, SECOND)]

    found = due_times([], skips, after_ms=FIRST, next_tick_ms=THIRD)

    assert found == [DueTime(SECOND), DueTime(THIRD)]


def test_the_time_of_day_is_the_first_one_after_the_due_time_in_the_zone_of_the_job() -> None:
    def at(*parts: int) -> int:
        return int(datetime(*parts, tzinfo=UTC).timestamp() * 1_000)  # type: ignore[misc,arg-type]

    berlin = ZoneInfo("Europe/Berlin")
    for due_at, end in (
        (at(2026, 11, 26, 1), at(2026, 11, 26, 6)),
        (at(2026, 11, 26, 6), at(2026, 11, 27, 6)),
        (at(2026, 7, 1, 1), at(2026, 7, 1, 5)),
        (at(2026, 3, 28, 23), at(2026, 3, 29, 5)),
    ):
        assert next_time(due_at, time(7), berlin) == end
    # The clock skips 02:30 on this night.
    assert next_time(at(2026, 3, 29, 0), time(2, 30), berlin) == at(2026, 3, 29, 1, 30)


def test_a_success_is_awaited_since_the_last_one_or_since_it_could_be() -> None:
    pause = PauseRow(1, 0, 10, 60, "ops", "")

    assert since_success(50, 20, [], 100) == 50
    assert since_success(0, 20, [], 100) == 20
    assert since_success(50, 20, [pause], 100) == 60
    assert since_success(50, 20, [pause], 59) == 50
