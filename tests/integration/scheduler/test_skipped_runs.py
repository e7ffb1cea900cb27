"""Runs whose handler says that there is nothing to do, or that trying again is useless or early."""

from typing import Any

import pytest
from sqlalchemy import select

from tests.integration.scheduler.family import SENT, end, tick_in_flight
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.invariants import assert_sound
from tests.support.sql_rows import put
from tests.support.webhook_server import WebhookServer
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.models import Alarm
from warren.sql.run_status import RunStatus

ALARMED = {"alarm_emails": ("ops@example.com",)}


def begin(cluster: Cluster, *specs: JobSpec) -> None:
    cluster.scheduler()
    cluster.executor(processes=True)
    cluster.wait_online()
    cluster.apply(*specs)


def spec(name: str, *children: str, **fields: Any) -> JobSpec:
    facts = {"app": APP, "handler": "noop", "children": children}
    return JobSpec(name=name, **(facts | fields))


def alarms(cluster: Cluster) -> list[Alarm]:
    return cluster.database.read(lambda session: list(session.execute(select(Alarm)).scalars()))


def test_a_skipped_run_is_neither_a_success_nor_a_failure(cluster: Cluster) -> None:
    with WebhookServer() as hook:
        begin(cluster, spec("child"), spec("good", "child", webhook_url=hook.url))
        holiday = {"handler": "skip", "retries": 3, **ALARMED}
        cluster.apply(
            spec("child"),
            spec("parent", "child", **holiday, webhook_url=hook.url),
            spec("quiet", **holiday, webhook_url=hook.url, webhook_when="success"),
            spec("calm", **holiday, webhook_url=hook.url, webhook_when="failure"),
        )

        runs = [cluster.wait_final(cluster.trigger(name)) for name in ("quiet", "calm", "parent")]
        eventually(lambda: hook.posts, 30)

        assert {(run.status, run.message) for run in runs} == {("SKIPPED", "holiday")}
        assert {(run.trigger_code, run.handle_code) for run in runs} == {(200, 200)}
        assert cluster.runs(kind="PARENT") == cluster.runs(kind="RETRY") == []
        [post] = hook.posts
        assert (post["type"], post["data"]["job"]) == ("run.skipped", "parent")
        eventually(lambda: alarms(cluster) == [])
        assert_sound(cluster)


@on_memory
@pytest.mark.parametrize(
    ("statuses", "fires"),
    [
        ((RunStatus.SUCCEEDED, RunStatus.SKIPPED), True),
        ((RunStatus.SKIPPED, RunStatus.SUCCEEDED), True),
        ((RunStatus.SKIPPED, RunStatus.SKIPPED), False),
    ],
)
def test_a_skipped_shard_is_neutral(
    cluster: Cluster, statuses: tuple[RunStatus, RunStatus], fires: bool
) -> None:
    cluster.apply(spec("parent", "child"), spec("child"))
    shards = tick_in_flight(cluster, "parent", shards=2)

    for run_id, status in zip(shards, statuses, strict=True):
        end(cluster, run_id, status=status)

    assert len(cluster.runs(kind="PARENT")) == int(fires)


@on_memory
def test_a_skipped_retry_settles_what_failed_before(cluster: Cluster) -> None:
    hourly = {"schedule_kind": "FIX_RATE", "schedule_value": "3600", "enabled": True}
    cluster.apply(spec("job", retries=1, **hourly, **ALARMED))
    [run_id] = tick_in_flight(cluster, "job")
    [again] = end(cluster, run_id, status=RunStatus.FAILED).planned
    put(cluster.database, [again], status=SENT, routed_at=cluster.now_ms())

    end(cluster, again, status=RunStatus.SKIPPED)

    assert alarms(cluster) == []


@on_memory
def test_a_handler_says_when_and_whether_it_is_tried_again(cluster: Cluster) -> None:
    again = {"handler": "later", "retries": 1, "retry_delay": 5, **ALARMED}
    begin(cluster, spec("early", **again), spec("useless", **again, param="useless"))

    early = cluster.wait_final(cluster.trigger("early"))
    useless = cluster.wait_final(cluster.trigger("useless"))

    assert (early.status, early.message) == ("FAILED", "the feed is late")
    [retry] = cluster.runs(kind="RETRY")
    assert retry.origin_id == early.id
    assert retry.due_at - early.finished_at >= 3_590_000
    assert (useless.status, useless.message) == ("FAILED", "no such day")
    eventually(lambda: [one.run_id for one in alarms(cluster)] == [useless.id])
