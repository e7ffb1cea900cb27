"""Flows from their claim to their end, on real rows and a real scheduler."""

from typing import Any

import pytest

from tests.integration.scheduler.flow_play import (
    end_node,
    flow,
    job,
    nodes_of,
    outcomes,
    runs_of,
)
from tests.support.cluster import Cluster, on_memory
from tests.support.eventually import eventually
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.models import Run
from warren.sql.run_status import FINAL

pytestmark = on_memory


def finished(cluster: Cluster, run_id: int) -> Run:
    eventually(lambda: cluster.run(run_id).status in FINAL)
    return cluster.run(run_id)


@pytest.fixture
def running(cluster: Cluster) -> Cluster:
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
    assert run.message == "failed, and no node handled it: load, mend"
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


def test_the_elements_of_a_node_whose_job_is_a_broadcast_are_its_shards(running: Cluster) -> None:
    running.add_app("absent")
    running.apply(
        JobSpec(name="list", app="absent", handler="x"),
        job("part", "echo", route="SHARDING_BROADCAST", concurrency=9),
        flow(
            "nightly",
            {
                "list": {"job": "absent/list"},
                "parts": {"job": "part", "after": "list", "each": "list.result"},
                "all": {"job": "part", "after": "parts"},
            },
        ),
    )
    run_id = running.trigger("nightly")
    eventually(lambda: nodes_of(running, run_id).get("list"))

    end_node(running, run_id, "list", result='["a", "b", "c"]')

    assert finished(running, run_id).status == "SUCCEEDED"
    shards = [(run.shard_index, run.shard_total) for run in runs_of(running, run_id, "parts")]
    assert shards == [(0, 3), (1, 3), (2, 3)]
    assert [run.shard_total for run in runs_of(running, run_id, "all")] == [1]
