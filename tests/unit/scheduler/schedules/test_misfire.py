"""Every tick ends in exactly one fire or one skip, whatever happened to the scheduler."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.processor_time import least_seconds
from warren.broker.reasons import Why
from warren.scheduler.schedules.misfire import CatchUp, Fire, MisfirePolicy, Plan, Skip, decide
from warren.scheduler.schedules.reading import read_schedule
from warren.scheduler.schedules.schedule import Schedule, ScheduleFacts
from warren.sql.run_status import Kind

NOW = int(datetime(2026, 6, 1, 12, tzinfo=UTC).timestamp()) * 1_000
DAY_MS = 86_400_000

EVERY_SECOND = read_schedule(ScheduleFacts("CRON", "* * * * * ?", "UTC"))
EVERY_TEN_SECONDS = read_schedule(ScheduleFacts("FIX_RATE", "10", "UTC"))
NIGHTLY = read_schedule(ScheduleFacts("CRON", "0 0 2 * * ?", "UTC"))
DELAY = read_schedule(ScheduleFacts("FIX_DELAY", "60", "UTC"))


def plan(schedule: Schedule, *, watermark: int, **given_values: Any) -> Plan:
    values = {
        "anchor_ms": NOW,
        "now_ms": NOW,
        "policy": MisfirePolicy.DO_NOTHING,
        "late_limit_ms": 5_000,
        "overdue_rows": 0,
    } | given_values
    return decide(schedule, watermark_ms=watermark, **values)


def fired(got: Plan) -> list[tuple[int, int]]:
    return [(fire.scheduled_at_ms - NOW, fire.due_at_ms - NOW) for fire in got.fires]


def test_ticks_of_the_window_are_planned_for_their_own_time() -> None:
    got = plan(EVERY_SECOND, watermark=NOW + 2_000)

    assert fired(got) == [(3_000, 3_000), (4_000, 4_000), (5_000, 5_000)]
    assert {fire.kind for fire in got.fires} == {Kind.SCHEDULE}
    assert got.skips == ()
    assert got.watermark_ms == NOW + 5_000
    assert got.next_ms == NOW + 6_000


def test_tick_beyond_the_window_is_left_for_later() -> None:
    got = plan(NIGHTLY, watermark=NOW)

    assert got == Plan((), (), NOW, NOW + 14 * 3_600_000, waits=False)


def test_tick_up_to_five_seconds_late_fires_at_once_under_either_policy() -> None:
    for policy in MisfirePolicy:
        got = plan(EVERY_TEN_SECONDS, watermark=NOW - 10_000, anchor_ms=NOW - 5_000, policy=policy)

        assert got.fires == (
            Fire(NOW - 5_000, NOW - 5_000, Kind.SCHEDULE),
            Fire(NOW + 5_000, NOW + 5_000, Kind.SCHEDULE),
        )
        assert got.skips == ()


def test_tick_a_millisecond_later_than_that_has_misfired() -> None:
    tick = NOW - 5_001

    got = plan(EVERY_TEN_SECONDS, watermark=tick - 1, anchor_ms=tick)

    assert [(skip.from_ms, skip.to_ms, skip.count) for skip in got.skips] == [(tick, tick, 1)]
    assert [fire.scheduled_at_ms for fire in got.fires] == [tick + 10_000]


EVERY_MINUTE = read_schedule(ScheduleFacts("CRON", "30 * * * * ?", "UTC"))


def test_ticks_over_the_limit_are_skipped_as_one_group_up_to_now() -> None:
    got = plan(EVERY_MINUTE, watermark=NOW - 600_000)

    [skip] = got.skips
    assert (skip.from_ms - NOW, skip.to_ms - NOW, skip.count) == (-570_000, -30_000, 10)
    assert str(skip.reason) == "570.0 s late; its job skips what it missed"
    assert skip.is_reported
    assert fired(got) == []


@pytest.mark.parametrize("policy", list(MisfirePolicy))
def test_the_last_tick_runs_as_itself_within_the_limit_and_those_before_it_are_skipped_untold(
    policy: MisfirePolicy,
) -> None:
    got = plan(EVERY_MINUTE, watermark=NOW - 600_000, late_limit_ms=30_000, policy=policy)

    assert got.fires == (Fire(NOW - 30_000, NOW - 30_000, Kind.SCHEDULE, is_late=True),)
    [skip] = got.skips
    assert (skip.from_ms - NOW, skip.to_ms - NOW, skip.count) == (-570_000, -90_000, 9)
    assert str(skip.reason) == "570.0 s late; a later one ran instead"
    assert not skip.is_reported


@pytest.mark.parametrize(
    ("limit_ms", "runs"), [(13_000, True), (12_999, False), (86_400_000, True)]
)
def test_a_nightly_tick_runs_up_to_its_limit_and_not_a_millisecond_longer(
    limit_ms: int, runs: bool
) -> None:
    tick = NOW - 10 * 3_600_000

    got = plan(NIGHTLY, watermark=tick - 1, now_ms=tick + 13_000, late_limit_ms=limit_ms)

    assert [fire.scheduled_at_ms for fire in got.fires] == [tick] * runs
    assert [(skip.from_ms, skip.is_reported) for skip in got.skips] == [(tick, True)] * (not runs)


def test_group_holds_the_ticks_that_are_less_than_five_seconds_late_too() -> None:
    got = plan(EVERY_SECOND, watermark=NOW - 7_000)

    [skip] = got.skips
    assert (skip.from_ms, skip.to_ms, skip.count) == (NOW - 6_000, NOW - 1_000, 6)
    assert fired(got) == [(at, at) for at in range(0, 6_000, 1_000)]
    assert not got.fires[0].is_late


def test_fire_once_now_runs_the_last_missed_tick_and_skips_the_others() -> None:
    got = plan(EVERY_MINUTE, watermark=NOW - 600_000, policy=MisfirePolicy.FIRE_ONCE_NOW)

    assert got.fires == (Fire(NOW - 30_000, NOW, Kind.MISFIRE),)
    [skip] = got.skips
    assert (skip.from_ms - NOW, skip.to_ms - NOW, skip.count) == (-570_000, -90_000, 9)
    assert not skip.is_reported


def test_fire_once_now_is_due_now_and_keeps_its_tick() -> None:
    got = plan(NIGHTLY, watermark=NOW - 11 * 3_600_000, policy=MisfirePolicy.FIRE_ONCE_NOW)

    assert got.fires == (Fire(NOW - 10 * 3_600_000, NOW, Kind.MISFIRE),)
    assert got.skips == ()
    assert got.watermark_ms == NOW - 10 * 3_600_000


def test_month_of_missed_seconds_is_decided_at_once() -> None:
    schedule = read_schedule(ScheduleFacts("CRON", "* * * * * ?", "America/New_York"))
    watermark = NOW - 30 * DAY_MS

    got = plan(schedule, watermark=watermark, policy=MisfirePolicy.FIRE_ONCE_NOW)

    again = partial(plan, schedule, watermark=watermark, policy=MisfirePolicy.FIRE_ONCE_NOW)
    assert least_seconds(again) < 0.05
    assert got.skips[0].count == 30 * 86_400 - 1
    assert len(got.fires) == 6


def test_job_with_too_many_overdue_rows_gets_a_skip_and_no_row() -> None:
    got = plan(EVERY_SECOND, watermark=NOW - 2_000, overdue_rows=101)

    assert got.fires == ()
    assert got.skips == (Skip(NOW - 1_000, NOW + 5_000, 7, Why.OVERDUE(most=100)),)
    assert got.next_ms == NOW + 6_000


def test_job_with_as_many_overdue_rows_as_allowed_still_gets_rows() -> None:
    got = plan(EVERY_SECOND, watermark=NOW, overdue_rows=100)

    assert len(got.fires) == 5
    assert got.skips == ()


@pytest.mark.parametrize("policy", list(MisfirePolicy))
def test_misfired_job_with_too_many_overdue_rows_gets_one_skip_for_all(
    policy: MisfirePolicy,
) -> None:
    got = plan(EVERY_SECOND, watermark=NOW - DAY_MS, overdue_rows=500, policy=policy)

    assert got.fires == ()
    assert [(skip.from_ms, skip.to_ms, skip.count) for skip in got.skips] == [
        (NOW - DAY_MS + 1_000, NOW + 5_000, 86_405)
    ]


def test_limit_leaves_the_rest_to_the_next_round() -> None:
    first = plan(EVERY_SECOND, watermark=NOW, limit=2)
    second = plan(EVERY_SECOND, watermark=first.watermark_ms, limit=2)

    assert fired(first) == [(1_000, 1_000), (2_000, 2_000)]
    assert first.next_ms == NOW + 3_000
    assert fired(second) == [(3_000, 3_000), (4_000, 4_000)]


def test_limit_does_not_split_a_misfired_group() -> None:
    got = plan(EVERY_SECOND, watermark=NOW - 60_000, limit=1)

    assert [skip.count for skip in got.skips] == [59]
    assert fired(got) == [(0, 0), (1_000, 1_000)]


def test_same_row_decided_twice_gives_the_same_plan() -> None:
    one, two = (plan(EVERY_SECOND, watermark=NOW - 60_000) for _ in range(2))

    assert one == two


def test_schedule_that_is_over_has_no_next_tick() -> None:
    once = read_schedule(ScheduleFacts("AT", "2026-06-01T12:00:01Z", "UTC"))

    got = plan(once, watermark=NOW)
    after = plan(once, watermark=got.watermark_ms)

    assert fired(got) == [(1_000, 1_000)]
    assert (got.next_ms, got.waits) == (None, False)
    assert after == Plan((), (), NOW + 1_000, None, waits=False)


def test_delay_waits_for_its_run_once_its_tick_is_planned() -> None:
    got = plan(DELAY, watermark=NOW - 1_000, anchor_ms=NOW + 3_000)

    assert fired(got) == [(3_000, 3_000)]
    assert (got.next_ms, got.waits) == (None, True)


def test_delay_whose_tick_is_planned_already_still_waits() -> None:
    got = plan(DELAY, watermark=NOW, anchor_ms=NOW)

    assert got == Plan((), (), NOW, None, waits=True)


@pytest.mark.parametrize("overdue", [0, 101])
def test_delay_goes_on_after_a_skip_that_leaves_no_run_to_end(overdue: int) -> None:
    got = plan(DELAY, watermark=NOW - DAY_MS, anchor_ms=NOW - 60_000, overdue_rows=overdue)

    assert got.fires == ()
    assert [skip.count for skip in got.skips] == [1]
    assert got.next_ms == NOW + 60_000


def test_missed_delay_that_fires_once_waits_for_that_run() -> None:
    got = plan(
        DELAY,
        watermark=NOW - DAY_MS,
        anchor_ms=NOW - 60_000,
        policy=MisfirePolicy.FIRE_ONCE_NOW,
    )

    assert got.fires == (Fire(NOW - 60_000, NOW, Kind.MISFIRE),)
    assert got.skips == ()
    assert got.next_ms is None


def test_hour_that_the_clock_skips_is_neither_fired_nor_skipped() -> None:
    schedule = read_schedule(ScheduleFacts("CRON", "0 30 2 * * ?", "America/New_York"))
    before = int(datetime(2026, 3, 8, 6, tzinfo=UTC).timestamp()) * 1_000

    got = plan(schedule, watermark=before, now_ms=before + 12 * 3_600_000)

    assert (got.fires, got.skips) == ((), ())
    assert got.next_ms == int(datetime(2026, 3, 9, 6, 30, tzinfo=UTC).timestamp()) * 1_000


@dataclass
class Job:
    """A job's row, moved on as the planner moves it."""

    schedule: Schedule
    policy: MisfirePolicy
    late_limit_ms: int = 5_000
    watermark: int = NOW
    anchor: int = NOW
    fires: list[Fire] = field(default_factory=list)
    skipped: int = 0

    def decide_at(self, now_ms: int, overdue_rows: int, limit: int) -> None:
        got = decide(
            self.schedule,
            anchor_ms=self.anchor,
            watermark_ms=self.watermark,
            now_ms=now_ms,
            policy=self.policy,
            late_limit_ms=self.late_limit_ms,
            overdue_rows=overdue_rows,
            limit=limit,
        )
        assert got.watermark_ms >= self.watermark
        self.watermark = got.watermark_ms
        self.anchor = got.next_ms or self.anchor
        self.fires += got.fires
        self.skipped += sum(skip.count for skip in got.skips)


pauses = st.lists(st.integers(0, 40_000), min_size=1, max_size=25)


@settings(max_examples=300)
@given(
    st.sampled_from(["* * * * * ?", "0/7 * * * * ?", "3,50 * * * * ?", "0 * * * * ?"]),
    st.tuples(st.sampled_from(list(MisfirePolicy)), st.sampled_from([5_000, 20_000, 86_400_000])),
    pauses,
    st.integers(1, 50),
    st.data(),
)
def test_every_tick_is_fired_or_skipped_exactly_once(
    expression: str,
    rule: tuple[MisfirePolicy, int],
    waits: list[int],
    limit: int,
    data: st.DataObject,
) -> None:
    job = Job(read_schedule(ScheduleFacts("CRON", expression, "UTC")), *rule)
    now = NOW

    for wait in waits:
        now += wait
        job.decide_at(now, data.draw(st.sampled_from([0, 0, 0, 101])), limit)

    ticks = [fire.scheduled_at_ms for fire in job.fires]
    assert len(ticks) == len(set(ticks))
    assert len(ticks) + job.skipped == job.schedule.count(NOW, job.watermark, 0)
    if limit > 11:
        assert job.schedule.count(job.watermark, now + 5_000, 0) == 0
    assert all(fire.due_at_ms >= fire.scheduled_at_ms for fire in job.fires)


@settings(max_examples=200)
@given(st.integers(1, 90), pauses)
def test_fixed_rate_keeps_its_phase_through_every_stop(seconds: int, waits: list[int]) -> None:
    job = Job(
        read_schedule(ScheduleFacts("FIX_RATE", str(seconds), "UTC")), MisfirePolicy.DO_NOTHING
    )
    now = NOW

    for wait in waits:
        now += wait
        job.decide_at(now, 0, 50)

    assert all((fire.scheduled_at_ms - NOW) % (seconds * 1_000) == 0 for fire in job.fires)
    assert len(job.fires) + job.skipped == job.schedule.count(NOW, job.watermark, NOW)


def caught_up(got: Plan) -> list[tuple[int, int, int, bool]]:
    return [(s.from_ms - NOW, s.to_ms - NOW, s.count, s.is_caught_up) for s in got.skips]


CATCH_UP = {"policy": MisfirePolicy.CATCH_UP, "anchor_ms": NOW - 8_000}


def test_the_newest_missed_ticks_are_caught_up_as_many_and_as_old_as_the_job_says() -> None:
    first = NOW - 98_000  # every ten seconds, the last 8 s ago

    by_number = plan(
        EVERY_TEN_SECONDS, watermark=first - 1, catch_up=CatchUp(DAY_MS, 3), **CATCH_UP
    )
    by_age = plan(EVERY_TEN_SECONDS, watermark=first - 1, catch_up=CatchUp(48_000, 100), **CATCH_UP)
    every = plan(EVERY_TEN_SECONDS, watermark=first - 1, catch_up=CatchUp(DAY_MS, 100), **CATCH_UP)
    none = plan(EVERY_TEN_SECONDS, watermark=first - 1, catch_up=CatchUp(5_000, 100), **CATCH_UP)

    assert caught_up(by_number) == [(-98_000, -38_000, 7, False), (-28_000, -8_000, 3, True)]
    assert caught_up(by_age) == [(-98_000, -58_000, 5, False), (-48_000, -8_000, 5, True)]
    assert caught_up(every) == [(-98_000, -8_000, 10, True)]
    assert caught_up(none) == [(-98_000, -8_000, 10, False)]
    assert [skip.is_reported for skip in by_number.skips] == [True, False]
    assert str(every.skips[0].named(71).reason) == "98.0 s late; backfill 71 runs it"


#: What docs/business-day.md promises of catching up a schedule that fires each 10 s and was due
#: last 8 s ago, when nothing was sent for 98 s. `within` and `most`, the late limit; how many due
#: times are skipped and told, how many caught up, and whether the last one runs as itself.
CATCH_UP_PAGE = [
    ("all of them", 86_400, 100, 5, (0, 10, False)),
    ("up to `most`, the newest", 86_400, 3, 5, (7, 3, False)),
    ("one", 86_400, 1, 5, (9, 1, False)),
    ("none longer ago than `within`", 48, 100, 5, (5, 5, False)),
    ("both", 48, 2, 5, (8, 2, False)),
    ("none is so new", 5, 100, 5, (10, 0, False)),
    ("the last still runs as itself", 86_400, 100, 8, (0, 9, True)),
    ("the last runs, and `most` before it", 86_400, 3, 60, (6, 3, True)),
    ("the last runs, and none before it is so new", 15, 100, 60, (9, 0, True)),
]


def test_what_was_missed_is_caught_up_as_its_page_says() -> None:
    wrong = []
    for name, within, most, late_limit, expected in CATCH_UP_PAGE:
        got = plan(
            EVERY_TEN_SECONDS,
            watermark=NOW - 98_000 - 1,
            catch_up=CatchUp(within * 1_000, most),
            **CATCH_UP | {"late_limit_ms": late_limit * 1_000},
        )
        untold = sum(skip.count for skip in got.skips if skip.is_caught_up)
        skipped = sum(skip.count for skip in got.skips if not skip.is_caught_up)
        as_itself = [fire for fire in got.fires if fire.due_at_ms <= NOW and fire.is_late]
        if (found := (skipped, untold, bool(as_itself))) != expected:
            wrong.append((name, found))

    assert not wrong


def test_ticks_before_one_that_runs_late_as_itself_are_caught_up() -> None:
    got = plan(
        EVERY_TEN_SECONDS,
        watermark=NOW - 30_000,
        catch_up=CatchUp(DAY_MS, 100),
        **CATCH_UP | {"late_limit_ms": 60_000},
    )

    assert fired(got)[0] == (-8_000, -8_000)
    assert caught_up(got) == [(-28_000, -18_000, 2, True)]


def test_a_fixed_delay_has_nothing_to_catch_up() -> None:
    late = NOW - 300_000

    got = plan(
        DELAY,
        watermark=late - 1,
        catch_up=CatchUp(DAY_MS, 100),
        **CATCH_UP | {"anchor_ms": late},
    )

    assert [skip.is_reported for skip in got.skips] == [True]
