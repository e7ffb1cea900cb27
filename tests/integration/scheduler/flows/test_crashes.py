"""Flows while schedulers die between the ends of their nodes, on real services."""

import random
from dataclasses import replace

import pytest

from benchmarks.soak.evidence import flow_runs, rows_of
from benchmarks.soak.flows import mistakes, new_flow
from tests.integration.scheduler.flow_play import flow, job
from tests.support.cluster import BRISK, Cluster
from tests.support.eventually import eventually
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.node import SchedulerNode
from warren.sql.run_status import OPEN

pytestmark = pytest.mark.parametrize("cluster", ["real"], indirect=True)


def dies_after(cluster: Cluster, node: SchedulerNode, ends: int) -> None:
    """Let a scheduler die before the commit that would end so many nodes, and never notice."""
    mortal, cable, commits = cluster.mortals[id(node)], cluster.cables[id(node)], [0]

    def die() -> None:
        commits[0] += len(cluster.runs(kind="NODE", status="SUCCEEDED")) >= ends
        if commits[0]:
            mortal.die()
            cable.is_cut = True

    mortal.before_commit = die


def test_flows_end_as_judged_although_schedulers_die_between_the_ends(cluster: Cluster) -> None:
    chance = random.Random(1)
    flows = [new_flow(1, number) for number in range(8)]
    # No executor counts as dead because the machine is slow.
    cluster.timeouts = replace(BRISK, dead_after=60.0)
    for one in flows:
        nodes = {node.name: node.said() for node in one.flow.values()}
        jobs = [job(node.job, "random", concurrency=8) for node in one.flow.values()]
        cluster.apply(*jobs, flow(one.name, nodes, retries=one.retries))
    first, second = cluster.scheduler(), cluster.scheduler()
    cluster.executor()
    cluster.wait_online()
    dies_after(cluster, first, ends=chance.randint(1, 10))

    for one in flows:
        cluster.trigger(one.name)
    eventually(lambda: len(cluster.runs(kind="NODE")) > 12)
    cluster.crash(first)
    dies_after(cluster, second, ends=chance.randint(12, 20))
    cluster.scheduler()
    eventually(lambda: cluster.mortals[id(second)].is_dead)
    cluster.crash(second)
    eventually(lambda: not [run for run in cluster.runs() if run.status in OPEN])

    ids = {row.name: row.id for row in cluster.jobs()}
    by_id = {ids[one.name]: one for one in flows}
    rows = rows_of(cluster.database, by_id)
    runs = flow_runs(cluster.database, rows, by_id, stopped_ms=cluster.now_ms())
    assert [run.attempt for run in runs].count(0) == len(flows)
    assert list(mistakes(runs)) == []
    started = [start["run"] for start in cluster.starts()]
    assert len(started) == len(set(started))
    report = audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC")
    assert report.is_sound
