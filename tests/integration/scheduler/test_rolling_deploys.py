"""A new handler comes to one executor after the other: runs go only where it is."""

from collections import Counter
from typing import Any

import pytest

from tests.support.cluster import Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.instant_slots import HANDLERS
from warren.broker.messages import Heartbeat, Load
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.scheduler.membership.catalogues import Need
from warren.scheduler.node_context import Timeouts
from warren.sql.models import Registration, Run, StoredCatalogue
from warren.sql.registry import presence

OLD = tuple(name for name in HANDLERS if name != "echo")


def settled(cluster: Cluster, run_id: int) -> Run:
    eventually(lambda: cluster.run(run_id).finished_at)
    return cluster.run(run_id)


def deploy(cluster: Cluster) -> None:
    """Start schedulers, an executor with the old code, and one with the new handler `echo`."""
    cluster.scheduler()
    cluster.executor("a-old", handlers=OLD, code_version="v1")
    cluster.executor("b-new", code_version="v2")
    cluster.wait_online("a-old", "b-new")


@on_memory
@pytest.mark.parametrize(
    "route", ["FIRST", "LAST", "ROUND", "CONSISTENT_HASH", "FAILOVER", "BUSYOVER", "LEAST_LOADED"]
)
def test_a_run_goes_only_where_its_handler_is(cluster: Cluster, route: str) -> None:
    deploy(cluster)
    names = [f"fresh-{number}" for number in range(4)]
    cluster.apply(*[JobSpec(name=n, app="demo", handler="echo", route=route) for n in names])

    runs = [settled(cluster, cluster.trigger(name)) for name in names]

    assert {(run.status, run.address, run.code_version) for run in runs} == {
        ("SUCCEEDED", "b-new", "v2")
    }


@on_memory
def test_a_broadcast_has_a_shard_for_each_executor_with_its_handler(cluster: Cluster) -> None:
    deploy(cluster)
    cluster.job("fresh", handler="echo", route="SHARDING_BROADCAST")
    cluster.job("known", handler="noop", route="SHARDING_BROADCAST")

    fresh = settled(cluster, cluster.trigger("fresh"))
    known = settled(cluster, cluster.trigger("known"))

    assert (fresh.status, fresh.address, fresh.shard_total) == ("SUCCEEDED", "b-new", 1)
    assert known.shard_total == 2
    versions = [(run.address, run.code_version) for run in cluster.runs(job_id=known.job_id)]
    assert sorted(versions) == [("a-old", "v1"), ("b-new", "v2")]


@on_memory
@pytest.mark.parametrize(
    ("fields", "addresses", "words"),
    [
        ({"handler": "echo"}, [], "no online executor has handler 'echo': a-old"),
        (
            {"handler": "echo"},
            ["a-old"],
            "no requested executor that is online has handler 'echo': a-old",
        ),
        ({}, ["b-new"], "none of the requested executors is online: b-new"),
        ({"app": "empty"}, [], "no executor of app empty is online"),
    ],
)
def test_a_run_that_nobody_can_take_ends_with_the_reason_after_a_while(
    cluster: Cluster, fields: dict[str, Any], addresses: list[str], words: str
) -> None:
    cluster.timeouts = Timeouts(no_executor=1.0, dead_after=1.0)
    cluster.add_app("empty")
    cluster.scheduler()
    gone = cluster.executor("b-new")
    cluster.executor("a-old", handlers=OLD)
    cluster.wait_online("a-old", "b-new")
    cluster.kill(gone)
    eventually(lambda: not cluster.is_online("b-new"))
    cluster.job("waits", **fields)
    began = cluster.now_ms()

    run = settled(cluster, cluster.trigger("waits", addresses=addresses))

    assert (run.status, run.message) == ("UNDELIVERED", words)
    assert run.finished_at is not None
    assert run.finished_at - began >= 1_000


@on_memory
def test_a_run_waits_for_the_executor_that_brings_its_handler(cluster: Cluster) -> None:
    cluster.scheduler()
    cluster.executor("a-old", handlers=OLD)
    cluster.wait_online("a-old")
    cluster.job("fresh", handler="echo")
    run_id = cluster.trigger("fresh")
    eventually(lambda: cluster.run(run_id).status == "PLANNED")

    cluster.executor("b-new")

    assert settled(cluster, run_id).address == "b-new"


@on_memory
def test_jobs_without_a_route_spread_and_each_stays_with_its_executor(cluster: Cluster) -> None:
    cluster.scheduler()
    for address in ("one", "two", "three"):
        cluster.executor(address)
    cluster.wait_online("one", "two", "three")
    names = [f"job-{number}" for number in range(12)]
    cluster.apply(*[JobSpec(name=name, app="demo", handler="noop") for name in names])

    twice = [cluster.trigger(name) for name in names * 2]

    where = [settled(cluster, run_id).address for run_id in twice]
    assert where[:12] == where[12:]
    assert len(set(where)) > 1


@on_memory
def test_jobs_without_a_route_go_by_that_of_their_app(cluster: Cluster) -> None:
    cluster.scheduler()
    for address in ("one", "two"):
        cluster.executor(address)
    cluster.wait_online("one", "two")
    app = AppSpec(name="demo", route="LAST")
    specs = [JobSpec(name=f"job-{number}", app="demo", handler="noop") for number in range(6)]
    cluster.commands().apply([app], specs, dry_run=False, prune=False)

    runs = [settled(cluster, cluster.trigger(spec.name)) for spec in specs]

    assert {run.address for run in runs} == {"two"}


@on_memory
def test_least_loaded_takes_the_most_free_slots_and_counts_what_it_has_sent(
    cluster: Cluster,
) -> None:
    cluster.scheduler()
    cluster.executor("big", slots=4)
    cluster.executor("small", slots=2)
    cluster.wait_online("big", "small")
    cluster.job("work", handler="sleep", param="30", route="LEAST_LOADED", concurrency=4)

    runs = [cluster.trigger("work") for _ in range(6)]

    eventually(lambda: all(cluster.run(one).address for one in runs))
    where = Counter(cluster.run(one).address for one in runs)
    assert where == {"big": 4, "small": 2}


@on_memory
def test_a_catalogue_is_told_once_and_read_by_those_that_start_later(cluster: Cluster) -> None:
    told: list[str] = []
    first = cluster.scheduler()
    keep = first.roles.catalogues.keep
    first.roles.catalogues.keep = lambda body, now: told.append(body) or keep(body, now)
    cluster.executor("one")
    [row] = eventually(lambda: stored(cluster))
    eventually(lambda: first.roles.catalogues.find(row.fingerprint))
    later = ("two", "three", "four")
    for address in later:
        cluster.executor(address)
    cluster.wait_online("one", *later)

    second = cluster.new_scheduler()
    second.roles.presence.load()
    beats = {one.catalogue for one in registered(cluster)}

    assert beats == {row.fingerprint}
    assert len(told) == 1
    known = second.roles.catalogues.find(row.fingerprint)
    assert known is not None
    assert known.names == set(HANDLERS)
    second.roles.close()


@on_memory
def test_who_tells_no_catalogue_may_have_anything(cluster: Cluster) -> None:
    node = cluster.new_scheduler()
    cluster.schedulers.append(node)
    who = {"app": "demo", "address": "gateway", "boot_id": "b"}
    beat = Heartbeat(started_at_ms=1, load=Load(slots=2), **who)
    node.registrar.greet(beat, "")
    node.registrar.run_round(cluster.now_ms())

    abilities = node.roster.abilities("demo")
    assert (
        abilities.lacking(Need("echo")) == abilities.lacking(Need("php", is_script=True)) == set()
    )
    assert (abilities.slots, abilities.code_versions) == ({"gateway": 2}, {})


def stored(cluster: Cluster) -> list[StoredCatalogue]:
    return cluster.database.read(lambda session: list(session.query(StoredCatalogue)))


def registered(cluster: Cluster) -> list[Registration]:
    rows = cluster.database.read(lambda session: presence.listing(session, presence.EXECUTOR))
    return list(rows)
