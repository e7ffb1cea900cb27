"""Flows from their claim to their end, on real rows and a real scheduler."""

from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import select

from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from warren.scheduler.flows.graph_parser import parse
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.models import FlowNode, Run
from warren.sql.run_status import FINAL

pytestmark = on_memory


def flow(name: str, nodes: Mapping[str, Mapping[str, Any]], **fields: Any) -> JobSpec:
    return JobSpec(name=name, app=APP, flow=parse(nodes), **fields)


def job(name: str, handler: str = "noop", **fields: Any) -> JobSpec:
    return JobSpec(name=name, app=APP, handler=handler, **fields)


def nodes_of(cluster: Cluster, run_id: int) -> dict[str, FlowNode]:
    wanted = select(FlowNode).where(FlowNode.flow_run_id == run_id)
    rows = cluster.database.read(lambda session: list(session.execute(wanted).scalars()))
    return {row.node: row for row in rows}


def outcomes(cluster: Cluster, run_id: int) -> dict[str, str | None]:
    return {name: row.outcome for name, row in nodes_of(cluster, run_id).items()}


def finished(cluster: Cluster, run_id: int) -> Run:
    eventually(lambda: cluster.run(run_id).status in FINAL)
    return cluster.run(run_id)


@pytest.fixture
def running(cluster: Cluster) -> Cluster:
    cluster.be_quick()
    cluster.scheduler()
    cluster.executor()
    cluster.wait_online()
    return cluster


def test_a_flow_runs_its_nodes_one_after_the_other_and_succeeds(running: Cluster) -> None:
    running.apply(
        job("echo", "echo"),
        flow(
            "nightly",
            {
                "first": {"job": "echo", "param": "one"},
                "second": {"job": "echo", "after": "first", "param_template": "{{ run_date }}"},
                "last": {"job": "echo", "after": ["first", "second"], "param": "three"},
            },
        ),
    )

    run_id = running.trigger("nightly")

    run = finished(running, run_id)
    assert (run.status, run.address) == ("SUCCEEDED", None)
    assert outcomes(running, run_id) == dict.fromkeys(["first", "second", "last"], "SUCCEEDED")
    of_nodes = running.runs(kind="NODE")
    assert [row.param for row in of_nodes] == ["one", str(run.run_date), "three"]
    assert {row.flow_run_id for row in of_nodes} == {run_id}
    assert {row.scheduled_at for row in of_nodes} == {run.scheduled_at}


WAREHOUSE = {
    "extract": {"job": "extract"},
    "load": {"job": "load", "after": "extract"},
    "mend": {"job": "mend", "after": {"load": "failure"}},
    "report": {"job": "report", "after": ["load", "mend"], "join": "any"},
}


def warehouse(cluster: Cluster, *, load: str = "echo", mend: str = "echo", **fields: Any) -> None:
    cluster.apply(
        job("extract", "echo"),
        job("load", load),
        job("mend", mend),
        job("report", "echo"),
        flow("nightly", WAREHOUSE, **fields),
    )


def test_a_failure_that_a_node_handles_leaves_the_flow_a_success(running: Cluster) -> None:
    warehouse(running, load="fail")

    run_id = running.trigger("nightly")

    assert finished(running, run_id).status == "SUCCEEDED"
    assert outcomes(running, run_id) == {
        "extract": "SUCCEEDED",
        "load": "FAILED",
        "mend": "SUCCEEDED",
        "report": "SUCCEEDED",
    }


def test_a_node_that_cannot_run_any_more_is_bypassed_with_its_reason(running: Cluster) -> None:
    warehouse(running)

    run_id = running.trigger("nightly")

    assert finished(running, run_id).status == "SUCCEEDED"
    mend = nodes_of(running, run_id)["mend"]
    assert (mend.outcome, mend.begun_at) == ("BYPASSED", None)
    assert mend.reason == "load ended SUCCEEDED, and failure was needed"


def test_an_unhandled_failure_fails_the_flow_by_name(running: Cluster) -> None:
    warehouse(running, load="fail", mend="fail")

    run = finished(running, running.trigger("nightly"))

    assert run.status == "FAILED"
    assert run.message == "nodes failed and nothing handled it: load, mend"
    assert outcomes(running, run.id)["report"] == "BYPASSED"


def test_a_retried_flow_repeats_from_its_failure(running: Cluster) -> None:
    warehouse(running, load="fail", mend="fail", retries=1)

    first = running.trigger("nightly")
    finished(running, first)
    [again] = running.runs(kind="RETRY", handler="")

    assert finished(running, again.id).status == "FAILED"
    assert outcomes(running, again.id) == {
        "extract": "KEPT",
        "load": "FAILED",
        "mend": "FAILED",
        "report": "BYPASSED",
    }
    assert nodes_of(running, again.id)["extract"].kept_of == nodes_of(running, first)["extract"].id


def test_a_node_says_how_often_its_runs_are_retried(running: Cluster) -> None:
    running.apply(
        job("lucky", "third-time-lucky"),
        flow("nightly", {"only": {"job": "lucky", "retries": 2, "retry": {"delay": 0}}}),
    )

    run = finished(running, running.trigger("nightly"))

    assert run.status == "SUCCEEDED"
    assert [row.attempt for row in running.runs(flow_run_id=run.id)] == [0, 1, 2]


def test_a_node_starts_no_children_and_its_flow_does(running: Cluster) -> None:
    running.apply(
        job("child"),
        job("node", children=("child",)),
        flow("nightly", {"only": {"job": "node"}}, children=("child",)),
    )

    run = finished(running, running.trigger("nightly"))

    eventually(lambda: running.runs(kind="PARENT"))
    assert [row.origin_id for row in running.runs(kind="PARENT")] == [run.id]
