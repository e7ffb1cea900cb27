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
        "due_at": due_at,
        "routed_at": None,
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


A_SECOND = 1_000
#: What docs/expectations.md promises of pauses: when the run was sent and began, the pauses, and
#: whether `start_within: 5m` is broken, all counted from the due time.
PAUSED: list[tuple[str, int | None, int | None, list[tuple[int, int | None]], bool]] = [
    ("over before", None, None, [(-MINUTE, -1)], True),
    ("due in it, and never sent", None, None, [(-MINUTE, MINUTE)], False),
    ("due in it, and sent behind it", 20 * MINUTE, 20 * MINUTE, [(0, 20 * MINUTE)], False),
    ("due just before it, and not sent", None, None, [(3 * A_SECOND, MINUTE)], False),
    ("due just before it, and sent", 40, None, [(3 * A_SECOND, MINUTE)], True),
    ("26 s later, for 3 s, and sent before", 40, None, [(26_000, 29_000)], True),
    ("26 s later, for 3 s, never sent", None, None, [(26_000, 29_000)], True),
    ("waited in it, in time without it", 7 * MINUTE, 7 * MINUTE, [(MINUTE, 4 * MINUTE)], False),
    ("waited in it, too late without it", 9 * MINUTE, 9 * MINUTE, [(MINUTE, 4 * MINUTE)], True),
    (
        "waited in two",
        9 * MINUTE,
        9 * MINUTE,
        [(MINUTE, 3 * MINUTE), (2 * MINUTE, 6 * MINUTE)],
        False,
    ),
    ("still waits in it", None, None, [(4 * MINUTE, None)], False),
    ("began after its deadline", None, None, [(5 * MINUTE, None)], True),
]


def test_a_pause_excuses_only_what_it_held_back() -> None:
    wrong = []
    for name, sent_at, started_at, spans, is_broken in PAUSED:
        pauses = tuple(
            PauseRow(id_, 0, FIRST + since, None if until is None else FIRST + until, "ops", "")
            for id_, (since, until) in enumerate(spans)
        )
        status = "PLANNED" if sent_at is None else "RUNNING" if started_at else "SENT"
        one = run(
            FIRST,
            status,
            routed_at=None if sent_at is None else FIRST + sent_at,
            started_at=None if started_at is None else FIRST + started_at,
            finished_at=None,
        )
        times = due_times([one], [], after_ms=0, next_tick_ms=PARKED_MS)
        if (verdict(times, FIRST + 30 * MINUTE, pauses=pauses)[0] == FIRST) != is_broken:
            wrong.append(name)

    assert not wrong


def ended(status: str, started: int | None, finished: int | None, **others: int) -> WatchedRun:
    """Return a run of the first due time, with instants counted from that."""
    at = [None if offset is None else FIRST + offset for offset in (started, finished)]
    values = {"started_at": at[0], "finished_at": at[1], "routed_at": at[0]}
    return run(FIRST, status, **(values | others))


#: What docs/expectations.md promises of due times without pauses: the runs of one, and whether it
#: breaks `start_within: 5m`, and `finish_by` of a time 5 minutes after it.
DUE: list[tuple[str, list[WatchedRun], tuple[bool, bool]]] = [
    ("done in time", [ended("SUCCEEDED", 1, FIVE)], (False, False)),
    ("done a moment too late", [ended("SUCCEEDED", 1, FIVE + 1)], (False, True)),
    ("started at the last moment", [ended("RUNNING", FIVE, None)], (False, True)),
    ("started a moment too late", [ended("SUCCEEDED", FIVE + 1, FIVE + 2)], (True, True)),
    ("waits", [ended("PLANNED", None, None)], (True, True)),
    ("failed", [ended("FAILED", 1, 2)], (False, True)),
    ("never started", [ended("UNDELIVERED", None, 2)], (True, True)),
    ("a handler that skips has done it", [ended("SKIPPED", 1, 2)], (False, False)),
    (
        "any attempt counts",
        [ended("UNDELIVERED", None, 2), ended("SUCCEEDED", 9, 10)],
        (False, False),
    ),
    (
        "a re-run counts",
        [ended("FAILED", 1, 2), ended("SUCCEEDED", 8, 9, origin_id=77)],
        (False, False),
    ),
    (
        "each shard counts",
        [
            ended("SUCCEEDED", 1, 2, shard_total=2),
            ended("FAILED", 1, 2, shard_total=2, shard_index=1),
        ],
        (False, True),
    ),
    ("by hand is no due time", [ended("FAILED", None, 2, origin_id=77)], (False, False)),
    ("cancelled is none either", [ended("CANCELLED", None, 2)], (False, False)),
]


def test_due_times_are_judged_as_their_page_says() -> None:
    wrong = []
    for name, runs, expected in DUE:
        times = due_times(runs, [], after_ms=0, next_tick_ms=PARKED_MS)
        broken = tuple(
            judge(
                times,
                deadline=lambda due_at: due_at + FIVE,
                done_at=done_at,
                judged_until=0,
                pauses=(),
                now_ms=THIRD,
            ).broken_at
            is not None
            for done_at in (started, lambda due_time: due_time.succeeded_at)
        )
        if broken != expected:
            wrong.append((name, broken))

    assert not wrong


def test_a_skipped_due_time_is_excused_by_the_pause_that_held_it_back() -> None:
    [skipped] = due_times([], [SkippedSpan(FIRST, FIRST)], after_ms=0, next_tick_ms=PARKED_MS)

    def broken(since_at: int, until_at: int) -> int | None:
        return verdict([skipped], THIRD, pauses=(PauseRow(1, 0, since_at, until_at, "o", ""),))[0]

    assert broken(FIRST - MINUTE, FIRST + MINUTE) is None
    assert broken(FIRST + 26_000, FIRST + 29_000) == FIRST


def test_a_pause_while_a_flow_runs_moves_its_deadline_by_as_long() -> None:
    pause = PauseRow(1, 0, FIRST + MINUTE, FIRST + 4 * MINUTE, "ops", "")

    def is_broken(end: int) -> bool:
        [one] = due_times(
            [run(FIRST, finished_at=FIRST + end)], [], after_ms=0, next_tick_ms=PARKED_MS
        )
        found = judge(
            [one],
            deadline=lambda due_at: due_at + FIVE,
            done_at=lambda due_time: due_time.succeeded_at,
            judged_until=0,
            pauses=[pause],
            now_ms=THIRD,
        )
        return found.broken_at is not None

    assert [is_broken(minutes * MINUTE) for minutes in (5, 7, 8, 9)] == [False, False, False, True]


def test_a_later_due_time_makes_up_for_an_earlier_one() -> None:
    times = [DueTime(FIRST), DueTime(SECOND, SECOND + 1)]

    assert is_made_up(times, FIRST, started)
    assert not is_made_up(times, THIRD, started)


def test_retries_and_reruns_count_for_their_due_time() -> None:
    runs = [
        run(FIRST, "FAILED"),
        run(FIRST, "SUCCEEDED", started_at=FIRST + 10, finished_at=FIRST + 20, origin_id=99),
    ]

    [found] = due_times(runs, [], after_ms=0, next_tick_ms=PARKED_MS)
    assert (found.started_at, found.succeeded_at) == (FIRST + 1, FIRST + 20)


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


def test_a_backfill_makes_a_skipped_due_time_good() -> None:
    runs = [
        run(FIRST, started_at=SECOND, finished_at=SECOND + 5, origin_id=99),
        run(SECOND, "CANCELLED", finished_at=SECOND + 1),
    ]
    skips = [SkippedSpan(FIRST, SECOND)]

    made_good, missed = due_times(runs, skips, after_ms=0, next_tick_ms=PARKED_MS)

    assert (made_good.started_at, made_good.succeeded_at) == (SECOND, SECOND + 5)
    assert missed == DueTime(SECOND)


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
    # The clock skips 02:30 on this night: 03:10 is after it.
    assert next_time(at(2026, 3, 29, 0), time(2, 30), berlin) == at(2026, 3, 29, 1, 30)
    assert next_time(at(2026, 3, 29, 1, 10), time(2, 30), berlin) == at(2026, 3, 30, 0, 30)
    # And it shows 02:30 twice on this one.
    assert next_time(at(2026, 10, 25, 0, 10), time(2, 30), berlin) == at(2026, 10, 25, 0, 30)
    assert next_time(at(2026, 10, 25, 0, 40), time(2, 30), berlin) == at(2026, 10, 25, 1, 30)


def test_a_success_is_awaited_since_the_last_one_or_since_it_could_be() -> None:
    pause = PauseRow(1, 0, 10, 60, "ops", "")

    def since(last: int, pauses: list[PauseRow], *, has_held: bool = False) -> int:
        return since_success(last, 20, pauses, 100, has_held=lambda _: has_held)

    assert since(50, []) == 50
    assert since(0, []) == 20
    assert since(0, [pause]) == 60
    assert since(50, [pause]) == 60
    # It held nothing back: only its own time does not count.
    assert since(20, [PauseRow(1, 0, 80, 83, "ops", "")]) == 23
    assert since(20, [PauseRow(1, 0, 80, 83, "ops", "")], has_held=True) == 83
    assert since(20, [PauseRow(1, 0, 80, None, "ops", ""), PauseRow(2, 7, 90, None, "", "")]) == 40
