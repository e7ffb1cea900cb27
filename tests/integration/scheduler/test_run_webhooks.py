"""Webhooks on the end of runs, from a whole Warren: jobs run, and a server hears of it."""

import base64
from typing import Any

from tests.support.cluster import APP, SECRET, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.webhook_server import WebhookServer
from warren.broker.signing import webhook_secret
from warren.scheduler.alarms.events import AlarmPolicy, RunWebhook
from warren.scheduler.alarms.webhook import sign
from warren.scheduler.completion import completion
from warren.scheduler.jobs.spec import AppSpec
from warren.sql.alarms import alarms
from warren.sql.alarms.alarms import RUN_END, AlarmStatus, NewAlarm
from warren.sql.models import Alarm


def kept(cluster: Cluster) -> list[Alarm]:
    return cluster.database.read(lambda session: list(session.query(Alarm).order_by(Alarm.id)))


def begin(cluster: Cluster, **options: Any) -> None:
    cluster.scheduler(**options)
    cluster.executor()
    cluster.wait_online()


def data(hook: WebhookServer) -> dict[str, dict[str, Any]]:
    """Return what was told of each job."""
    return {post["data"]["job"]: post for post in hook.posts}


def test_each_run_is_told_once_when_its_last_attempt_is_over(cluster: Cluster) -> None:
    with WebhookServer() as hook:
        begin(cluster, alarms=AlarmPolicy(console_url="https://console.example.com"))
        cluster.job("good", webhook_url=hook.url)
        cluster.job("bad", handler="fail", retries=1, webhook_url=hook.url)
        cluster.job("alone", webhook_url="")

        first = {name: cluster.trigger(name) for name in ("good", "bad", "alone")}
        eventually(lambda: len(hook.posts) == 2)
        cluster.wait_final(first["alone"])
        eventually(lambda: kept(cluster) == [])

        good, bad = data(hook)["good"], data(hook)["bad"]
        last = cluster.runs(origin_id=first["bad"])[-1]
        assert (good["type"], good["data"]["status"]) == ("run.succeeded", "SUCCEEDED")
        assert good["data"]["run_id"] == good["data"]["first_run_id"] == first["good"]
        assert (bad["type"], bad["data"]["status"]) == ("run.failed", "FAILED")
        assert (bad["data"]["run_id"], bad["data"]["first_run_id"]) == (last.id, first["bad"])
        assert bad["data"]["url"] == f"https://console.example.com/runs/{last.id}"
        assert len(hook.posts) == 2
        assert {run.alarm_status for run in cluster.runs(origin_id=first["good"])} == {0}


@on_memory
def test_it_is_signed_with_the_key_of_its_app(cluster: Cluster) -> None:
    with WebhookServer() as hook:
        begin(cluster)
        cluster.job("good", webhook_url=hook.url)

        cluster.trigger("good")
        eventually(lambda: hook.requests)

        headers = {name.lower(): value for name, value in hook.requests[0][2].items()}
        keys = cluster_keys()
        parts = headers["webhook-id"], headers["webhook-timestamp"], hook.bodies[0]
        assert headers["webhook-signature"] == sign(keys, *parts)


@on_memory
def test_jobs_without_one_have_their_apps_and_each_hears_what_it_asked_for(
    cluster: Cluster,
) -> None:
    with WebhookServer() as hook, WebhookServer() as own:
        begin(cluster)
        app = AppSpec(name=APP, webhook=RunWebhook(url=hook.url, when="failure"))
        cluster.commands().apply([app], [], dry_run=False, prune=False)
        cluster.job("good")
        cluster.job("bad", handler="fail")
        cluster.job("mine", webhook_url=own.url, webhook_when="success")

        for name in ("good", "mine", "bad"):
            cluster.wait_final(cluster.trigger(name))
        eventually(lambda: hook.posts and own.posts)
        eventually(lambda: kept(cluster) == [])

        assert list(data(hook)) == ["bad"]
        assert list(data(own)) == ["mine"]


@on_memory
def test_all_shards_of_a_tick_are_told_as_one(cluster: Cluster) -> None:
    with WebhookServer() as hook:
        cluster.scheduler()
        for address in ("one", "two", "three"):
            cluster.executor(address)
        cluster.wait_online("one", "two", "three")
        cluster.job("wide", route="SHARDING_BROADCAST", webhook_url=hook.url)

        run_id = cluster.trigger("wide")
        eventually(lambda: hook.posts)
        eventually(lambda: kept(cluster) == [])

        assert len(cluster.runs(origin_id=run_id)) == 3
        assert [post["type"] for post in hook.posts] == ["run.succeeded"]


@on_memory
def test_a_receiver_that_is_away_is_told_later_and_holds_up_no_run(cluster: Cluster) -> None:
    with WebhookServer() as hook:
        hook.status = 503
        begin(cluster)
        cluster.job("good", webhook_url=hook.url)

        cluster.wait_final(cluster.trigger("good"))
        eventually(lambda: [alarm.error for alarm in kept(cluster)] == ["it answered 503"])
        hook.status = 200
        cluster.database.write(
            lambda session: session.query(Alarm).update({"next_try_at": 0}),
        )

        eventually(lambda: kept(cluster) == [])
        assert len(hook.posts) >= 2
        ids = {headers["webhook-id"] for _, _, headers in hook.requests}
        assert len(ids) == 1


@on_memory
def test_a_job_keeps_so_many_unsent_messages_and_no_more(cluster: Cluster) -> None:
    begin(cluster)
    cluster.job("good", webhook_url="https://example.com/")
    [job] = cluster.jobs()
    # Not sent before tomorrow.
    later = cluster.now_ms() + 86_400_000
    waiting = [
        NewAlarm(
            subject_key=f"end:{number}",
            channel=RUN_END,
            target=str(job.webhook_url),
            content="{}",
            created_at=later,
            job_id=job.id,
            status=AlarmStatus.READY,
        )
        for number in range(completion.MAX_UNSENT)
    ]
    cluster.database.write(lambda session: alarms.add(session, waiting))

    assert cluster.wait_final(cluster.trigger("good")).status == "SUCCEEDED"

    assert len(kept(cluster)) == completion.MAX_UNSENT


def cluster_keys() -> bytes:
    """Return the key that the receiver has."""
    return base64.b64decode(webhook_secret(SECRET, APP).removeprefix("whsec_"))
