"""The schedulers' time zone changes: jobs without one go on in the new zone, and none is missed."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.integration.scheduler.conftest import new_still
from tests.support.acting import NamedCommands
from tests.support.cluster import APP, Cluster
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.node import SchedulerNode
from warren.scheduler.schedules.registry import ZONED_KINDS
from warren.sql.jobs import due_jobs, history
from warren.sql.models import Job
from warren.sql.run_status import Kind

TWO_AT_NIGHT = {"schedule_kind": "CRON", "schedule_value": "0 0 2 * * ?", "enabled": True}
EACH_HOUR = {"schedule_kind": "FIX_RATE", "schedule_value": "3600", "enabled": True}
SHANGHAI = {"timezone": "Asia/Shanghai"}
HOUR_MS = 3_600_000


def next_two(zone: str, after_ms: int) -> int:
    """The next two o'clock at night in a zone without daylight saving time."""
    after = datetime.fromtimestamp(after_ms / 1_000, ZoneInfo(zone))
    two = after.replace(hour=2, minute=0, second=0, microsecond=0)
    return int((two if two > after else two + timedelta(days=1)).timestamp() * 1_000)


def job(cluster: Cluster) -> Job:
    [found] = cluster.jobs()
    return found


def plan_until(cluster: Cluster, node: SchedulerNode, until_ms: int) -> None:
    """Let a scheduler plan each tick on time."""
    while (next_ms := job(cluster).next_tick_at) <= until_ms:
        node.planner.run_round(next_ms)


def zones(cluster: Cluster) -> list[str]:
    [one] = cluster.jobs()
    changes = cluster.database.read(lambda session: history.changes_of(session, one.id))
    return [change.timezone for change in changes]


def assert_all_decided_once(cluster: Cluster) -> None:
    report = audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC")
    assert report.is_sound, report.jobs


def test_next_due_time_is_that_of_the_new_zone_and_the_audit_knows(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.job("nightly", **TWO_AT_NIGHT)
    now_ms = cluster.now_ms()
    days = [next_two("UTC", now_ms + day * 24 * HOUR_MS) for day in range(2)]
    plan_until(cluster, still, days[-1])
    changed_ms = days[-1] + HOUR_MS

    other = new_still(cluster, **SHANGHAI)
    other.planner.run_round(changed_ms)
    next_ms = job(cluster).next_tick_at
    plan_until(cluster, other, changed_ms + 48 * HOUR_MS)

    assert next_ms == next_two("Asia/Shanghai", changed_ms)
    expected = [*days, next_ms, next_ms + 24 * HOUR_MS]
    assert [run.scheduled_at for run in cluster.runs()] == expected
    assert cluster.skips() == []
    assert zones(cluster) == ["UTC", "Asia/Shanghai"]
    assert_all_decided_once(cluster)


@pytest.mark.parametrize("misfire", ["DO_NOTHING", "FIRE_ONCE_NOW"])
def test_what_was_missed_before_the_change_is_decided_in_the_old_zone(
    cluster: Cluster, still: SchedulerNode, misfire: str
) -> None:
    cluster.job("nightly", **TWO_AT_NIGHT, misfire=misfire)
    missed_ms = job(cluster).next_tick_at

    other = new_still(cluster, **SHANGHAI)
    other.planner.run_round(missed_ms + HOUR_MS)

    fired = [run.scheduled_at for run in cluster.runs(kind=Kind.MISFIRE)]
    skipped = [skip.from_at for skip in cluster.skips()]
    assert {"DO_NOTHING": skipped, "FIRE_ONCE_NOW": fired}[misfire] == [missed_ms]
    assert len(fired + skipped) == 1
    assert job(cluster).next_tick_at == next_two("Asia/Shanghai", missed_ms + HOUR_MS)
    assert_all_decided_once(cluster)


@pytest.mark.parametrize(
    "act",
    [
        lambda commands: commands.stop("nightly"),
        lambda commands: commands.apply(
            [], [JobSpec(name="nightly", app=APP, handler="noop", **EACH_HOUR)]
        ),
    ],
    ids=["stop", "new-schedule"],
)
def test_what_was_missed_is_skipped_in_the_old_zone_if_a_user_acts_before_the_first_round(
    cluster: Cluster, act: Callable[[NamedCommands], object]
) -> None:
    cluster.job("nightly", **TWO_AT_NIGHT)
    missed_ms = job(cluster).next_tick_at

    act(NamedCommands(cluster.database, lambda: missed_ms + 20 * HOUR_MS, **SHANGHAI))

    assert [(skip.from_at, skip.count) for skip in cluster.skips()] == [(missed_ms, 1)]
    assert_all_decided_once(cluster)


def test_another_misfire_policy_leaves_the_due_times_in_the_old_zone(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.job("nightly", **TWO_AT_NIGHT)
    missed_ms = job(cluster).next_tick_at
    late_ms = missed_ms + HOUR_MS

    commands = NamedCommands(cluster.database, lambda: late_ms, **SHANGHAI)
    spec = {"name": "nightly", "app": APP, "handler": "noop", **TWO_AT_NIGHT}
    commands.apply([], [JobSpec(**spec, misfire="FIRE_ONCE_NOW")])
    new_still(cluster, **SHANGHAI).planner.run_round(late_ms)

    assert [run.scheduled_at for run in cluster.runs()] == [missed_ms]
    assert job(cluster).next_tick_at == next_two("Asia/Shanghai", late_ms)
    assert zones(cluster) == ["UTC", "UTC", "Asia/Shanghai"]
    assert_all_decided_once(cluster)


def test_schedulers_of_two_zones_fire_what_is_recorded(
    cluster: Cluster, still: SchedulerNode
) -> None:
    cluster.job("nightly", **TWO_AT_NIGHT)
    other = new_still(cluster, **SHANGHAI)

    for node in (still, other, still, other, other, still):
        node.planner.run_round(job(cluster).next_tick_at)

    assert len(cluster.runs()) >= 5
    assert_all_decided_once(cluster)


@pytest.mark.parametrize("fields", [EACH_HOUR, {**TWO_AT_NIGHT, "timezone": "UTC"}])
def test_job_that_a_user_changes_just_then_keeps_its_next_due_time(
    cluster: Cluster, fields: dict[str, Any]
) -> None:
    cluster.job("other", **fields)
    before = job(cluster)

    cluster.database.write(
        lambda session: due_jobs.make_due(
            session, [before.id], kinds=ZONED_KINDS, at_ms=cluster.now_ms()
        )
    )

    assert job(cluster).next_tick_at == before.next_tick_at


@pytest.mark.parametrize(
    "fields",
    [
        {**TWO_AT_NIGHT, "timezone": "UTC"},
        EACH_HOUR,
        {"schedule_kind": "FIX_DELAY", "schedule_value": "3600", "enabled": True},
        {**TWO_AT_NIGHT, "enabled": False},
    ],
)
def test_jobs_that_do_not_depend_on_it_stay_as_they_are(
    cluster: Cluster, still: SchedulerNode, fields: dict[str, Any]
) -> None:
    cluster.job("other", **fields)
    still.planner.run_round(cluster.now_ms())
    before, recorded = job(cluster), zones(cluster)

    new_still(cluster, **SHANGHAI).planner.run_round(cluster.now_ms())

    after = job(cluster)
    assert (after.last_tick_at, after.next_tick_at) == (before.last_tick_at, before.next_tick_at)
    assert zones(cluster) == recorded
