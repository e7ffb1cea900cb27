"""The date that a run is about: it comes from its due time, and all that follows has it too."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.integration.scheduler.family import end, tick_in_flight
from tests.support.acting import acting
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.sql_rows import put
from warren.scheduler.commands.bulk.reruns import RerunOptions
from warren.scheduler.commands.bulk.triggers import Trigger, When
from warren.scheduler.commands.commands import Commands
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.listings import recent
from warren.sql.listings.recent import RunFilter
from warren.sql.models import Run
from warren.sql.run_status import Kind, RunStatus

DAY = date(2026, 2, 28)
BEFORE = {"run_date_days": -1}
HOURLY = {"schedule_kind": "FIX_RATE", "schedule_value": "3600", "enabled": True}


@pytest.fixture
def commands(cluster: Cluster) -> Commands:
    return acting(cluster.database, cluster.now_ms, who="test")


def spec(name: str, *children: str, **fields: Any) -> JobSpec:
    facts = {"app": APP, "handler": "noop", "children": children}
    return JobSpec(name=name, **(facts | fields))


def today(cluster: Cluster) -> date:
    return datetime.fromtimestamp(cluster.now_ms() / 1_000, UTC).date()


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1_000)


def job_id(cluster: Cluster, name: str) -> int:
    [row] = cluster.jobs(name=name)
    return row.id


def test_a_scheduled_run_has_the_local_day_of_its_due_time_moved_by_the_rule(
    cluster: Cluster,
) -> None:
    zone = "Pacific/Kiritimati"  # 14 hours ahead of UTC
    every = {"schedule_kind": "FIX_RATE", "schedule_value": "1", "enabled": True}
    cluster.apply(spec("daily", timezone=zone, run_date_days=-2, **every))
    cluster.scheduler()

    [first, *_] = eventually(cluster.runs)

    there = datetime.fromtimestamp(first.scheduled_at / 1_000 + 14 * 3_600, UTC).date()
    assert first.run_date is not None
    assert (there - first.run_date).days == 2


def test_what_follows_a_run_has_its_date(cluster: Cluster, commands: Commands) -> None:
    cluster.apply(
        spec("parent", "child", retries=1, **BEFORE, **HOURLY), spec("child", run_date_months=-3)
    )
    [run_id] = tick_in_flight(cluster, "parent")
    put(cluster.database, [run_id], run_date=DAY)

    end(cluster, run_id, status=RunStatus.FAILED)
    [retry] = cluster.runs(kind=Kind.RETRY)
    put(cluster.database, [retry.id], status=RunStatus.SENT, routed_at=cluster.now_ms())
    end(cluster, retry.id)
    [again], _ = commands.runs.rerun([retry.id], RerunOptions(children=False))

    kinds = {run.kind: run.run_date for run in cluster.runs()}
    assert {kinds[kind] for kind in (Kind.RETRY, Kind.PARENT, Kind.RERUN)} == {DAY}
    assert again


@on_memory
def test_all_shards_of_a_broadcast_have_one_date(cluster: Cluster) -> None:
    cluster.apply(spec("wide", "child", route="SHARDING_BROADCAST"), spec("child"))
    shards = tick_in_flight(cluster, "wide", shards=3)
    put(cluster.database, shards, run_date=DAY)

    for run_id in shards:
        end(cluster, run_id)

    [child] = cluster.runs(kind=Kind.PARENT)
    assert child.run_date == DAY


def test_a_trigger_gives_a_date_or_the_rule_does(cluster: Cluster, commands: Commands) -> None:
    cluster.apply(spec("daily", **BEFORE))
    at = ms("2027-03-01T08:00:00Z")

    given = commands.runs.trigger(job_id(cluster, "daily"), run_date=DAY)
    by_rule = commands.runs.trigger(job_id(cluster, "daily"), when=When(at_ms=at))

    dates = {run.id: run.run_date for run in cluster.runs()}
    assert dates == {given: DAY, by_rule: date(2027, 2, 28)}


@on_memory
def test_a_run_that_is_moved_keeps_only_a_date_that_was_given(
    cluster: Cluster, commands: Commands
) -> None:
    cluster.apply(spec("daily", **BEFORE))
    first, later = (When(at_ms=ms(f"2027-03-0{day}T08:00:00Z")) for day in (1, 5))
    job = job_id(cluster, "daily")
    given = commands.runs.trigger(job, when=first, run_date=DAY)
    by_rule = commands.runs.trigger(job, when=first)

    for run_id in (given, by_rule):
        commands.runs.move(run_id, later)

    dates = {run.id: run.run_date for run in cluster.runs()}
    assert dates == {given: DAY, by_rule: date(2027, 3, 4)}


def test_an_edit_of_the_rule_gives_planned_runs_their_new_date(cluster: Cluster) -> None:
    cluster.apply(spec("daily", **HOURLY))
    [run_id] = tick_in_flight(cluster, "daily", scheduled_at=ms("2027-03-31T08:00:00Z"))
    put(cluster.database, [run_id], status=RunStatus.PLANNED)
    put(cluster.database, [run_id], run_date=date(2027, 3, 31))

    cluster.apply(spec("daily", run_date_months=-1, **HOURLY))

    [run] = cluster.runs(id=run_id)
    assert run.run_date == date(2027, 2, 28)


def test_runs_are_found_by_their_date(cluster: Cluster, commands: Commands) -> None:
    cluster.apply(spec("daily"), spec("other"))
    wanted = [
        commands.runs.trigger(job_id(cluster, name), run_date=DAY) for name in ("daily", "other")
    ]
    commands.runs.trigger(job_id(cluster, "daily"))

    def ids(**fields: Any) -> list[int]:
        chosen = RunFilter(run_date=DAY, **fields)
        return [run.id for run in cluster.database.read(lambda s: recent.runs(s, chosen))]

    assert sorted(ids()) == wanted
    assert ids(job="daily") == wanted[:1]
    assert sorted(ids(status="PLANNED")) == wanted


def test_a_handler_and_a_script_are_told_the_date(cluster: Cluster, tmp_path: Path) -> None:
    cluster.apply(
        spec("tells", handler="tells-date"),
        spec("script", handler="", script_language="shell", script_source="echo $WARREN_RUN_DATE"),
    )
    cluster.scheduler()
    cluster.executor(processes=True)
    cluster.wait_online()
    commands = acting(cluster.database, cluster.now_ms, who="test")
    runs = [
        commands.runs.trigger(job_id(cluster, name), run_date=DAY) for name in ("tells", "script")
    ]

    ended = [cluster.wait_final(run_id) for run_id in runs]

    assert [run.status for run in ended] == [RunStatus.SUCCEEDED] * 2
    assert ended[0].result == '"2026-02-28"'
    assert "2026-02-28" in (ended[1].log_tail or "")


@on_memory
def test_a_batch_of_runs_may_have_a_date_each(cluster: Cluster, commands: Commands) -> None:
    cluster.apply(spec("daily"))
    days = [date(2026, 11, number) for number in (1, 2, 3)]

    commands.runs.trigger_all(job_id(cluster, "daily"), [Trigger(run_date=day) for day in days])

    assert [run.run_date for run in cluster.runs()] == days


def test_an_imported_run_without_a_date_is_run_again_without_one(
    cluster: Cluster, commands: Commands
) -> None:
    cluster.apply(spec("daily"))
    [run_id] = tick_in_flight(cluster, "daily")
    end(cluster, run_id, status=RunStatus.FAILED)
    put(cluster.database, [run_id], run_date=None)

    [again], _ = commands.runs.rerun([run_id])

    row = cluster.database.read(lambda session: session.get_one(Run, again))
    assert row.run_date is None
