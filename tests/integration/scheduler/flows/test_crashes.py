"""Flows while schedulers die between the ends of their nodes, on real services."""

import random
from dataclasses import replace

import pytest

from tests.integration.scheduler.flow_play import flow, job, nodes_of
from tests.support.cluster import BRISK, Cluster
from tests.support.eventually import eventually
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.flows.graph import Condition, Graph
from warren.scheduler.flows.graph_parser import parse
from warren.scheduler.flows.judge import Outcome, judge
from warren.scheduler.node import SchedulerNode
from warren.sql.run_status import FINAL

pytestmark = pytest.mark.parametrize("cluster", ["real"], indirect=True)

#: What the nodes' handlers make of them.
FATE = {"noop": Outcome.SUCCEEDED, "echo": Outcome.SUCCEEDED, "fail": Outcome.FAILED}


def random_graph(chance: random.Random, nodes: int) -> Graph:
    names = [f"n{number}" for number in range(nodes)]
    said = {}
    for number, name in enumerate(names):
        before = chance.sample(names[:number], chance.randint(0, min(number, 3)))
        after = {other: chance.choice(list(Condition)).value for other in before}
        job_name = chance.choice(["noop", "echo", "fail"])
        said[name] = {"job": job_name, "after": after, "join": chance.choice(["all", "any"])}
    return parse(said)


def due_outcomes(graph: Graph) -> dict[str, str]:
    verdict = judge(graph, {}, lambda node: FATE[node.job])
    bypassed = dict.fromkeys(verdict.bypassed, Outcome.BYPASSED)
    return {name: outcome.value for name, outcome in (verdict.at_once | bypassed).items()}


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
    graphs = {f"f{number}": random_graph(chance, 12) for number in range(6)}
    # No executor counts as dead because the machine is slow.
    cluster.timeouts = replace(BRISK, dead_after=60.0)
    handlers = [job(name, name, concurrency=8) for name in FATE]
    cluster.apply(*handlers, *(flow(name, graph.to_mapping()) for name, graph in graphs.items()))
    first, second = cluster.scheduler(), cluster.scheduler()
    cluster.executor()
    cluster.wait_online()
    dies_after(cluster, first, ends=chance.randint(1, 10))

    run_ids = {name: cluster.trigger(name) for name in graphs}
    eventually(lambda: len(cluster.runs(kind="NODE")) > 12)
    cluster.crash(first)
    dies_after(cluster, second, ends=chance.randint(12, 20))
    cluster.scheduler()
    eventually(lambda: cluster.mortals[id(second)].is_dead)
    cluster.crash(second)
    eventually(lambda: all(cluster.run(run_id).status in FINAL for run_id in run_ids.values()))

    for name, run_id in run_ids.items():
        rows = nodes_of(cluster, run_id)
        outcomes = {node: row.outcome for node, row in rows.items()}
        assert outcomes == due_outcomes(graphs[name]), [row.reason for row in rows.values()]
    started = [start["run"] for start in cluster.starts()]
    assert len(started) == len(set(started))
    report = audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC")
    assert report.is_sound
