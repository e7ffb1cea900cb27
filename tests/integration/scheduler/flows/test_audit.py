"""The audit judges what is stored of flows: it is sound, and finds what a hand has changed."""

from typing import Any

import pytest
from sqlalchemy import delete, insert, update

from tests.integration.scheduler.flow_play import (
    FAILED,
    SKIPPED,
    end_node,
    faults,
    flow,
    job,
    open_run,
    opened,
    runs_of,
)
from tests.support.acting import acting
from tests.support.cluster import Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.sql_rows import put
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.commands.reruns import RerunOptions
from warren.sql.models import FlowNode, Run

pytestmark = on_memory

FLOW = {
    "extract": {"job": "a"},
    "load": {"job": "a", "after": "extract", "each": "extract.result"},
    "mend": {"job": "a", "after": {"load": "failure"}},
    "maybe": {"job": "a", "after": "extract", "if": "extract.result == 7"},
    "report": {"job": "a", "after": ["load", "mend"], "join": "any"},
}


def night(cluster: Cluster) -> int:
    """Return a flow's run of which each kind of outcome is stored."""
    cluster.apply(
        job("child"), job("a", children=("child",)), flow("nightly", FLOW, children=("child",))
    )
    run_id = opened(cluster, "nightly")
    end_node(cluster, run_id, "extract", result="[1, 2]")
    end_node(cluster, run_id, "load", status=FAILED)
    end_node(cluster, run_id, "mend")
    end_node(cluster, run_id, "report", status=SKIPPED)
    assert cluster.run(run_id).status == "SUCCEEDED"
    return run_id


def change(cluster: Cluster, node: str, values: dict[str, Any]) -> None:
    cluster.database.write(
        lambda session: session.execute(
            update(FlowNode).where(FlowNode.node == node).values(**values)
        )
    )


def test_flows_are_sound_however_they_ended(cluster: Cluster) -> None:
    run_id = night(cluster)
    change_nothing = acting(cluster.database).runs
    [again], _ = change_nothing.rerun([run_id], RerunOptions(from_node="report", children=False))
    open_run(cluster, again)
    end_node(cluster, again, "report", status=FAILED)
    [last], _ = change_nothing.rerun([again], RerunOptions(failed=True, children=False))
    open_run(cluster, last)

    assert faults(cluster) == []


@pytest.mark.parametrize(
    ("node", "values", "expected"),
    [
        (
            "mend",
            {"node": "other"},
            ["lost: node mend has no row", "doubled: node other is not in the graph"],
        ),
        ("extract", {"flow_run_id": 7}, ["lost: node extract has no row"]),
        (
            "mend",
            {"outcome": "FAILED"},
            [
                "lost: the flow is SUCCEEDED; by its nodes it is FAILED",
                "doubled: node report is SKIPPED; by its graph it is BYPASSED",
                "doubled: node mend is FAILED; by its runs it is SUCCEEDED",
            ],
        ),
        (
            "load",
            {"outcome": "SUCCEEDED"},
            [
                "doubled: node mend is SUCCEEDED; by its graph it is BYPASSED",
                "doubled: node load is SUCCEEDED; by its runs it is FAILED",
            ],
        ),
        ("load", {"shards": 3}, ["lost: 2 of 3 runs of node load have a row"]),
        ("report", {"outcome": None}, ["lost: node report is RUNNING; by its graph it is over"]),
        (
            "report",
            {"outcome": "BYPASSED", "begun_at": None},
            [
                "doubled: node report is BYPASSED; by its graph it is RUNNING",
            ],
        ),
    ],
    ids=[
        "renamed",
        "moved away",
        "another end",
        "another end before",
        "more runs",
        "reopened",
        "bypassed",
    ],
)
def test_a_node_that_was_changed_by_hand_is_found(
    cluster: Cluster, node: str, values: dict[str, Any], expected: list[str]
) -> None:
    night(cluster)

    change(cluster, node, values)

    assert faults(cluster) == expected


def test_a_node_that_was_deleted_or_doubled_is_found(cluster: Cluster) -> None:
    run_id = night(cluster)
    cluster.database.write(lambda s: s.execute(delete(FlowNode).where(FlowNode.node == "maybe")))
    assert faults(cluster) == ["lost: node maybe has no row"]
    row = {"flow_run_id": run_id, "job_id": 1, "outcome": "BYPASSED"}
    cluster.database.write(
        lambda s: s.execute(
            insert(FlowNode), [row | {"id": 901, "node": "maybe"}, row | {"id": 902, "node": "x"}]
        )
    )

    assert faults(cluster) == ["doubled: node x is not in the graph"]


def test_a_run_of_a_node_that_was_deleted_is_found(cluster: Cluster) -> None:
    run_id = night(cluster)
    [of_node] = runs_of(cluster, run_id, "mend")

    cluster.database.write(lambda s: s.execute(delete(Run).where(Run.id == of_node.id)))

    assert "lost: 0 of 1 runs of node mend have a row" in faults(cluster)


def test_a_flow_whose_end_was_changed_by_hand_is_found(cluster: Cluster) -> None:
    run_id = night(cluster)

    put(cluster.database, [run_id], status="FAILED")

    assert "lost: the flow is FAILED; by its nodes it is SUCCEEDED" in faults(cluster)


def test_the_due_times_of_a_flow_are_counted_like_those_of_any_job(cluster: Cluster) -> None:
    every = {"schedule_kind": "FIX_RATE", "schedule_value": "1", "enabled": True}
    cluster.apply(job("a"), flow("nightly", {"first": {"job": "a"}}, **every))
    node = cluster.new_scheduler()

    eventually(lambda: node.planner.run_round(cluster.now_ms()) or cluster.runs())

    [row] = audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC").jobs
    assert row.due == row.fired == len(cluster.runs())
