"""Clearing runs, by hand and by retention: what goes, what stays, and what is kept about it."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select

from tests.integration.scheduler.family import end, tick_in_flight
from tests.support.cluster import Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.sql_rows import new_run, plan, put, side_by_side, statements
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.node import SchedulerNode
from warren.scheduler.retention.clearing import (
    ROUND_MS,
    CalendarDays,
    Cleaner,
    Clearing,
    ClearingCriteria,
    ClearingPreset,
    StepSize,
    clear_all,
    criteria_of,
    months_before,
)
from warren.sql.models import DayReport, Purge, Run
from warren.sql.registry import presence
from warren.sql.registry.cluster import LEASE_MS
from warren.sql.run_status import OPEN, Kind, RunStatus

pytestmark = pytest.mark.both("deletions in chunks, in each dialect")

NOW = int(datetime(2026, 11, 20, 15, 0, tzinfo=UTC).timestamp() * 1000)
HOUR, DAY = 3_600_000, 86_400_000
SUCCEEDED, FAILED, RUNNING = RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.RUNNING


def past(
    cluster: Cluster, *ages_ms: int, status: RunStatus = SUCCEEDED, **values: Any
) -> list[int]:
    """Make runs, each of a tick of its own, that came due so long before NOW."""
    new = [new_run(scheduled_at=NOW - age, due_at=NOW - age, **values) for age in ages_ms]
    run_ids = plan(cluster.database, *new)
    put(cluster.database, run_ids, status=status)
    return run_ids


def clear(
    cluster: Cluster, criteria: ClearingCriteria, *, by: str = "me", dry_run: bool = False
) -> int:
    days = CalendarDays("UTC")
    clearing = Clearing(cluster.database, criteria, by=by, days=days, now_ms=NOW, dry_run=dry_run)
    return clear_all(clearing, NOW)


def left(cluster: Cluster) -> list[int]:
    return [run.id for run in cluster.runs()]


def purges(cluster: Cluster) -> list[tuple[int, int, int, str]]:
    rows = cluster.database.read(
        lambda s: list(s.execute(select(Purge).order_by(Purge.job_id, Purge.id)).scalars())
    )
    return [(row.job_id, row.to_at, row.count, row.purged_by) for row in rows]


# -- by hand ----------------------------------------------------------------------------------


@pytest.mark.parametrize("job_id", [None, 1])
def test_what_is_older_goes_and_is_recorded(cluster: Cluster, job_id: int | None) -> None:
    _, _, young = past(cluster, 3 * DAY, 2 * DAY, DAY)

    count = clear(cluster, ClearingCriteria(before_ms=NOW - DAY, job_id=job_id))

    assert (count, left(cluster)) == (2, [young])
    assert purges(cluster) == [(1, NOW - 2 * DAY, 2, "me")]


@on_memory
@pytest.mark.parametrize("job_id", [None, 1])
@pytest.mark.parametrize(("keep", "kept"), [(0, 0), (1, 1), (3, 3), (9, 5)])
def test_all_but_the_newest_go(cluster: Cluster, job_id: int | None, keep: int, kept: int) -> None:
    run_ids = past(cluster, 5 * DAY, 4 * DAY, 3 * DAY, 2 * DAY, DAY)

    clear(cluster, ClearingCriteria(keep=keep, job_id=job_id))

    assert left(cluster) == run_ids[5 - kept :]


@on_memory
@pytest.mark.parametrize("job_id", [None, 1])
def test_runs_at_times_to_come_are_none_of_the_newest(cluster: Cluster, job_id: int | None) -> None:
    ages = 2 * DAY, DAY
    _, newest = past(cluster, *ages)
    to_come = past(cluster, -DAY, -2 * DAY, status=RunStatus.PLANNED)

    clear(cluster, ClearingCriteria(keep=1, job_id=job_id))

    assert left(cluster) == [newest, *to_come]


@on_memory
def test_of_runs_due_in_the_same_second_exactly_the_newest_stay(cluster: Cluster) -> None:
    run_ids = past(cluster, DAY, DAY - 1, DAY - 2, DAY - 3)

    clear(cluster, ClearingCriteria(keep=2))

    assert left(cluster) == run_ids[2:]


def test_only_the_runs_of_one_job_or_app_go(cluster: Cluster) -> None:
    [one] = past(cluster, DAY)
    [two] = past(cluster, DAY, job_id=2)
    [three] = past(cluster, DAY, job_id=3, app_id=2)

    assert clear(cluster, ClearingCriteria(job_id=2)) == 1
    assert left(cluster) == [one, three]
    assert clear(cluster, ClearingCriteria(app_id=2, keep=0)) == 1
    assert left(cluster) == [one]
    assert two not in left(cluster)


@on_memory
def test_the_newest_of_an_app_stay_whatever_others_have(cluster: Cluster) -> None:
    old, young = past(cluster, 2 * DAY, DAY, job_id=3, app_id=2)
    others = past(cluster, HOUR, 2 * HOUR)

    clear(cluster, ClearingCriteria(app_id=2, keep=1))

    assert set(left(cluster)) == {young, *others}
    assert old not in left(cluster)


@on_memory
@pytest.mark.parametrize("job_id", [None, 1])
def test_runs_that_are_not_over_stay(cluster: Cluster, job_id: int | None) -> None:
    for number, status in enumerate(RunStatus):
        past(cluster, (number + 1) * DAY, status=status)

    clear(cluster, ClearingCriteria(job_id=job_id))

    assert {run.status for run in cluster.runs()} == OPEN


@on_memory
@pytest.mark.parametrize("job_id", [None, 1])
def test_a_tick_stays_whole_while_one_of_its_shards_is_open(
    cluster: Cluster, job_id: int | None
) -> None:
    shards = [
        new_run(scheduled_at=NOW - DAY, due_at=NOW - DAY, shard_index=index, shard_total=3)
        for index in range(3)
    ]
    run_ids = plan(cluster.database, *shards)
    put(cluster.database, run_ids[:2], status=SUCCEEDED)

    assert clear(cluster, ClearingCriteria(job_id=job_id)) == 0

    put(cluster.database, run_ids[2:], status=FAILED)
    assert clear(cluster, ClearingCriteria(job_id=job_id)) == 3


@on_memory
@pytest.mark.parametrize("job_id", [None, 1])
@pytest.mark.parametrize("kind", [Kind.PARENT, Kind.MISFIRE])
def test_a_run_of_an_old_tick_that_came_due_later_stays(
    cluster: Cluster, kind: Kind, job_id: int | None
) -> None:
    late = new_run(scheduled_at=NOW - 2 * DAY, due_at=NOW - HOUR, kind=kind)
    run_ids = plan(cluster.database, late)
    put(cluster.database, run_ids, status=SUCCEEDED)

    assert clear(cluster, ClearingCriteria(before_ms=NOW - DAY, job_id=job_id)) == 0
    assert clear(cluster, ClearingCriteria(before_ms=NOW, job_id=job_id)) == 1


@on_memory
@pytest.mark.parametrize("job_id", [None, 1])
def test_a_tick_stays_whole_while_one_of_its_attempts_is_young(
    cluster: Cluster, job_id: int | None
) -> None:
    first = past(cluster, 2 * DAY, status=FAILED)
    retry = new_run(scheduled_at=NOW - 2 * DAY, due_at=NOW, attempt=1, kind=Kind.RETRY)
    run_ids = first + plan(cluster.database, retry)
    put(cluster.database, run_ids[1:], status=SUCCEEDED)

    assert clear(cluster, ClearingCriteria(before_ms=NOW - DAY, job_id=job_id)) == 0
    assert clear(cluster, ClearingCriteria(before_ms=NOW + 1_000, job_id=job_id)) == 2


@on_memory
def test_a_dry_run_counts_and_deletes_nothing(cluster: Cluster) -> None:
    run_ids = past(cluster, *range(DAY, DAY + 500_000, 1_000))

    assert clear(cluster, ClearingCriteria(), dry_run=True) == 500
    assert left(cluster) == run_ids
    assert purges(cluster) == []


def test_many_go_in_chunks_and_the_progress_is_told(cluster: Cluster) -> None:
    past(cluster, *range(DAY, DAY + 50_000, 1_000), status=FAILED)
    told: list[int] = []

    with statements(cluster.database) as sent:
        clearing = Clearing(
            cluster.database,
            ClearingCriteria(),
            by="me",
            days=CalendarDays("UTC"),
            now_ms=NOW,
            step_size=StepSize(ticks=20, runs=15),
        )
        count = clear_all(clearing, NOW, on_progress=told.append)

    runs = f"DELETE FROM {Run.__tablename__} "
    deleted = [values for words, values in sent if words.startswith(runs)]
    assert (count, told) == (50, [20, 40, 50])
    assert [len(values) for values in deleted] == [15, 5, 15, 5, 10]
    assert left(cluster) == []
    assert [row[2:] for row in purges(cluster)] == [(50, "me")]


@pytest.mark.parametrize("keep", [None, 0])
@pytest.mark.parametrize("job_id", [None, 1])
def test_clearing_all_ends_although_runs_go_on_ending(
    cluster: Cluster, job_id: int | None, keep: int | None
) -> None:
    now_ms = cluster.now_ms()
    past(cluster, *(NOW - now_ms + age for age in (0, DAY)), origin_id=None)
    later: list[int] = []

    def end_another(_cleared: int) -> None:
        assert len(later) < 5, "it goes on and on"
        later.extend(past(cluster, NOW - now_ms - 10_000 - len(later)))

    count = cluster.commands().clear_runs(
        ClearingCriteria(job_id=job_id, keep=keep), on_progress=end_another
    )

    assert count == 2
    assert later
    assert left(cluster) == later


def test_two_who_clear_at_the_same_time_record_each_run_once(cluster: Cluster) -> None:
    past(cluster, *range(DAY, DAY + 300_000, 1_000))

    counts = side_by_side(
        lambda: clear(cluster, ClearingCriteria(), by="one"),
        lambda: clear(cluster, ClearingCriteria(), by="two"),
    )

    assert sum(counts) == 300
    assert sum(row[2] for row in purges(cluster)) == 300
    reports = cluster.database.read(lambda s: list(s.execute(select(DayReport)).scalars()))
    assert sum(report.cleared_succeeded for report in reports) == 300


@on_memory
def test_the_audit_knows_what_was_cleared(cluster: Cluster, still: SchedulerNode) -> None:
    cluster.job("each", schedule_kind="CRON", schedule_value="* * * * * ?", enabled=True)
    still.planner.run_round(cluster.now_ms())
    planned = cluster.runs()
    put(cluster.database, [run.id for run in planned[:-1]], status=SUCCEEDED)

    clear(cluster, ClearingCriteria())

    report = audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC")
    [job] = report.jobs
    assert left(cluster) == [planned[-1].id]
    assert report.is_sound
    assert (job.due, job.fired, job.purged) == (len(planned), 1, len(planned) - 1)


@on_memory
@pytest.mark.parametrize("cleared", ["wide", "child", None])
def test_the_audit_of_families_is_content_with_what_was_cleared(
    cluster: Cluster, cleared: str | None
) -> None:
    cluster.job("child")
    cluster.job("wide", children=("child",))
    for _ in range(2):
        shards = tick_in_flight(cluster, "wide", shards=3)
        end(cluster, *shards)
    [one, two] = cluster.runs(kind=Kind.PARENT)
    put(cluster.database, [one.id, two.id], status=FAILED)

    job_id = cluster.jobs(name=cleared)[0].id if cleared else None
    assert (
        clear(cluster, ClearingCriteria(job_id=job_id)) == {"wide": 6, "child": 2, None: 8}[cleared]
    )

    assert audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC").is_sound


@on_memory
def test_a_result_that_comes_after_its_run_was_cleared_changes_nothing(cluster: Cluster) -> None:
    cluster.job("one")
    [run_id] = tick_in_flight(cluster, "one")
    put(cluster.database, [run_id], status=RunStatus.LOST)
    clear(cluster, ClearingCriteria())

    end(cluster, run_id)

    assert left(cluster) == []


@pytest.mark.parametrize(
    ("choice", "criteria"),
    [
        (1, ClearingCriteria(before_ms=NOW - 31 * DAY)),
        (4, ClearingCriteria(before_ms=NOW - 365 * DAY)),
        (5, ClearingCriteria(keep=1_000)),
        (8, ClearingCriteria(keep=100_000)),
        (9, ClearingCriteria()),
    ],
)
def test_xxl_jobs_choices(choice: int, criteria: ClearingCriteria) -> None:
    assert criteria_of(ClearingPreset(choice), now_ms=NOW) == criteria


def test_a_month_before_the_end_of_a_long_one_is_the_end_of_a_short_one() -> None:
    def before(now: datetime, months: int) -> str:
        found = months_before(int(now.timestamp() * 1000), months)
        return datetime.fromtimestamp(found / 1000, UTC).date().isoformat()

    assert before(datetime(2026, 3, 31, tzinfo=UTC), 1) == "2026-02-28"
    assert before(datetime(2024, 2, 29, tzinfo=UTC), 12) == "2023-02-28"
    assert before(datetime(2026, 1, 15, tzinfo=UTC), 3) == "2025-10-15"


# -- by retention -----------------------------------------------------------------------------

NewCleaner = Callable[..., Cleaner]


@pytest.fixture
def cleaner(cluster: Cluster) -> NewCleaner:
    def make(
        node: str = "one",
        days: int = 30,
        zone: str = "Asia/Shanghai",
        step_size: StepSize | None = None,
    ) -> Cleaner:
        return Cleaner(
            node=node,
            database=cluster.database,
            timezone=zone,
            run_retention_days=days,
            step_size=step_size,
        )

    return make


def rounds(cleaner: Cleaner, now_ms: int = NOW, count: int = 5) -> None:
    for number in range(count):
        cleaner.run_round(now_ms + number)


def test_runs_older_than_the_retention_are_deleted_by_whole_days_of_the_zone(
    cluster: Cluster, cleaner: NewCleaner
) -> None:
    # In Shanghai it is 23:00; 30 days ago began 23 hours before the same time of that day.
    past(cluster, 40 * DAY, 30 * DAY + 23 * HOUR + 1_000)
    [young, open_one] = [
        *past(cluster, 30 * DAY + 23 * HOUR),
        *past(cluster, 50 * DAY, status=RUNNING),
    ]

    rounds(cleaner())

    assert left(cluster) == [young, open_one]
    assert purges(cluster) == [(1, NOW - 30 * DAY - 23 * HOUR - 1_000, 2, "retention")]


@on_memory
def test_a_retention_of_zero_days_keeps_all(cluster: Cluster, cleaner: NewCleaner) -> None:
    run_ids = past(cluster, 4_000 * DAY)

    rounds(cleaner(days=0))

    assert left(cluster) == run_ids


@on_memory
def test_between_two_chunks_there_is_a_pause_and_after_the_last_an_hour(
    cluster: Cluster, cleaner: NewCleaner
) -> None:
    past(cluster, 40 * DAY, 41 * DAY, 42 * DAY)
    one = cleaner(step_size=StepSize(ticks=2))

    pauses = [one.run_round(NOW + number) for number in range(3)]
    past(cluster, 43 * DAY)
    one.run_round(NOW + ROUND_MS)
    assert (len(left(cluster)), pauses[2]) == (1, 5.0)
    assert all(0.1 <= pause < 5 for pause in pauses[:2])

    rounds(one, NOW + ROUND_MS + 3)
    assert left(cluster) == []


@on_memory
def test_one_scheduler_deletes_and_another_goes_on_when_it_died(
    cluster: Cluster, cleaner: NewCleaner
) -> None:
    cleaner("dead").run_round(NOW)
    past(cluster, 40 * DAY)
    heir = cleaner("heir")

    rounds(heir, NOW + LEASE_MS - 1_000)
    assert len(left(cluster)) == 1

    rounds(heir, NOW + LEASE_MS)
    assert left(cluster) == []


@on_memory
def test_schedulers_that_are_long_gone_leave_the_registry(
    cluster: Cluster, cleaner: NewCleaner
) -> None:
    for node, beat_at in (("old", NOW - DAY - 1_000), ("late", NOW - DAY)):
        beat = presence.Beat(
            kind=presence.ADMIN, app="scheduler", address=node, boot_id=node, beat_at=beat_at
        )
        cluster.database.write(lambda session, beat=beat: presence.hold(session, beat))

    cleaner(days=0).run_round(NOW)

    rows = cluster.database.read(lambda session: presence.listing(session, presence.ADMIN))
    assert [row.address for row in rows] == ["late"]


def test_a_scheduler_deletes_by_itself(cluster: Cluster) -> None:
    past(cluster, 400 * DAY, status=FAILED)

    cluster.scheduler(run_retention_days=1)

    eventually(lambda: not left(cluster))
