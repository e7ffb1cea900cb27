"""Jobs that another scheduler ran go on here: every due time since it stopped is on record."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.acting import NamedCommands
from tests.support.cluster import APP, Cluster
from warren.broker.reasons import Why
from warren.scheduler.actor import Actor
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.imports.importer import Importer, ImportOptions
from warren.scheduler.imports.items import ImportAction, ImportedApp, ImportedJob, ImportItems
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.scheduler.node import SchedulerNode
from warren.sql.instants import at
from warren.sql.models import Job
from warren.sql.run_status import Kind

MINUTE_MS = 60_000
EACH_MINUTE = {"schedule_kind": "CRON", "schedule_value": "0 * * * * ?"}


def job(job_id: int, next_tick_ms: int, **fields: Any) -> ImportedJob:
    spec = JobSpec(**{"name": f"job-{job_id}", "app": APP, "handler": "noop"} | fields)
    return ImportedJob(source_id=job_id, spec=spec, is_running=True, next_tick_ms=next_tick_ms)


def take_over(cluster: Cluster, jobs: Sequence[ImportedJob]) -> dict[str, ImportAction]:
    context = CommandContext(
        database=cluster.database, now_ms=cluster.now_ms, actor=Actor(who="test")
    )
    options = ImportOptions(
        source="elsewhere", overwrite=False, today=at(cluster.now_ms()).date(), take_over=True
    )
    items = ImportItems(apps=[ImportedApp(source_id=9, spec=AppSpec(name=APP))], jobs=list(jobs))
    outcomes = Importer(context, options).write(items)
    return {
        one.name: one.action
        for one in outcomes
        if one.what == "job" and one.action in (ImportAction.START, ImportAction.LEFT_OUT)
    }


def stored(cluster: Cluster, job_id: int) -> Job:
    return cluster.database.read(lambda session: session.get_one(Job, job_id))


def assert_sound(cluster: Cluster) -> None:
    report = audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC")
    assert report.is_sound, [job for job in report.jobs if not job.is_sound]


def test_gap_of_ten_minutes_becomes_misfires_and_the_audit_is_sound(
    cluster: Cluster, still: SchedulerNode
) -> None:
    now_ms = cluster.now_ms()
    first = now_ms - 10 * MINUTE_MS
    # The last ticks were half a minute ago.
    minutely = {**EACH_MINUTE, "schedule_value": f"{(now_ms // 1_000 + 30) % 60} * * * * ?"}
    rate = {"schedule_kind": "FIX_RATE", "schedule_value": "90", "misfire": "FIRE_ONCE_NOW"}
    jobs = [
        job(1, first, misfire="DO_NOTHING", late_limit=5, **minutely),
        job(2, first, misfire="FIRE_ONCE_NOW", late_limit=5, **minutely),
        job(3, first + 30_000, late_limit=5, **rate),
    ]

    assert set(take_over(cluster, jobs).values()) == {ImportAction.START}
    still.planner.run_round(now_ms)

    misfires = [run.job_id for run in cluster.runs() if run.kind == Kind.MISFIRE]
    assert sorted(misfires) == [2, 3]
    tallies = audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC").jobs
    assert all(tally.due >= due for tally, due in zip(tallies, (10, 10, 6), strict=True))
    assert_sound(cluster)


@pytest.mark.parametrize(
    ("fields", "ahead_ms"),
    [
        ({"schedule_kind": "CRON", "schedule_value": "0 0 0 1 * ?"}, None),
        ({"schedule_kind": "FIX_RATE", "schedule_value": "86400"}, 86_404_321),
        ({"schedule_kind": "FIX_RATE", "schedule_value": "86400"}, 1_234),
    ],
)
def test_next_tick_to_come_stays_the_next_one(
    cluster: Cluster, still: SchedulerNode, fields: dict[str, Any], ahead_ms: int | None
) -> None:
    now_ms = cluster.now_ms()
    next_ms = 0 if ahead_ms is None else now_ms + ahead_ms

    take_over(cluster, [job(1, next_ms or now_ms, **fields)])

    found = stored(cluster, 1)
    assert found.next_tick_at == (next_ms or found.next_tick_at)
    assert found.next_tick_at >= now_ms
    assert found.last_tick_at < found.next_tick_at
    assert found.last_tick_at <= max(cluster.now_ms(), next_ms - 86_400_000)
    still.planner.run_round(now_ms)
    assert_sound(cluster)


def test_job_without_a_known_next_tick_starts_now(cluster: Cluster, still: SchedulerNode) -> None:
    before_ms = cluster.now_ms()

    take_over(cluster, [job(1, 0, **EACH_MINUTE)])

    assert before_ms < stored(cluster, 1).next_tick_at <= cluster.now_ms() + MINUTE_MS


def test_what_may_not_start_is_left_and_named(cluster: Cluster) -> None:
    stopped = job(1, 1, **EACH_MINUTE)
    jobs = [
        ImportedJob(
            source_id=1,
            spec=stopped.spec,
            stop_reasons=(Why.COLUMN(column="executor_route_strategy", why="unknown"),),
            is_running=True,
            next_tick_ms=1,
        ),
        job(2, 1),
        job(3, cluster.now_ms(), schedule_kind="CRON", schedule_value="0 0 0 1 1 ? 2020"),
    ]

    assert set(take_over(cluster, jobs).values()) == {ImportAction.LEFT_OUT}
    assert [stored(cluster, one.source_id).is_enabled for one in jobs] == [0, 0, 0]


def test_second_time_starts_nothing_again(cluster: Cluster, still: SchedulerNode) -> None:
    jobs = [job(number, cluster.now_ms(), **EACH_MINUTE) for number in (1, 2)]
    take_over(cluster, jobs)
    NamedCommands(cluster.database, cluster.now_ms).stop(f"{APP}/job-2")

    outcomes = take_over(cluster, jobs)

    assert set(outcomes.values()) == {ImportAction.LEFT_OUT}
    assert [stored(cluster, number).is_enabled for number in (1, 2)] == [1, 0]
    assert_sound(cluster)
