"""The nodes of a flow's run by the API."""

from collections.abc import Callable
from typing import Any

from tests.support.api import Program
from tests.support.console import Clock
from tests.support.flow_rows import FlowRows, night
from tests.support.stored_rows import Rows


def nodes(program: Program, run_id: int) -> dict[str, dict[str, Any]]:
    answer = program.get(f"/runs/{run_id}/nodes")
    assert answer.status_code == 200, answer.text
    return {node["node"]: node for node in answer.get_json()["items"]}


def test_each_node_tells_its_state_its_runs_and_what_it_waits_for(
    admin: Program, rows: Rows, clock: Clock
) -> None:
    flow = night(rows, clock.now)

    found = nodes(admin, flow.run_id)

    assert list(found) == ["extract", "load", "parts", "mend", "report"]
    assert {name: node["state"] for name, node in found.items()} == {
        "extract": "SUCCEEDED",
        "load": "SUCCEEDED",
        "parts": "RUNNING",
        "mend": "BYPASSED",
        "report": "WAITING",
    }
    parts, report = found["parts"], found["report"]
    shards = [parts[key] for key in ("shards", "succeeded", "skipped", "failed")]
    assert shards == [3, 1, 0, 1]
    assert (parts["app"], parts["job"], parts["outcome"]) == ("reports", "part", None)
    assert report["after"] == {"parts": "success", "mend": "success"}
    assert (report["join"], report["run_id"], report["begun_at"]) == ("any", None, None)
    assert found["mend"]["reason"] == "load succeeded, and its failure was needed"
    run = admin.get(f"/runs/{found['load']['run_id']}").get_json()
    assert (run["kind"], run["attempt"], run["flow_run_id"]) == ("RETRY", 1, flow.run_id)
    assert admin.get(f"/runs/{parts['run_id']}").get_json()["status"] == "RUNNING"


def test_before_a_flow_is_opened_all_its_nodes_wait(
    admin: Program, rows: Rows, clock: Clock
) -> None:
    flow = FlowRows(rows, clock.now)

    found = nodes(admin, flow.run_id)

    assert {node["state"] for node in found.values()} == {"WAITING"}
    assert [node["job"] for node in found.values()] == [
        *("extract", "load", "part", "mend", "report")
    ]


def test_a_node_that_is_kept_names_the_run_in_which_it_was_over(
    admin: Program, rows: Rows, clock: Clock
) -> None:
    first = FlowRows(rows, clock.now - 9_000, {"load": {"job": "load"}}, status="FAILED")
    first.open(load={"outcome": "SUCCEEDED", "shards": 1, "begun_at": 1, "ended_at": 2})
    again = FlowRows(rows, clock.now, {"load": {"job": "load"}}, name="again", status="RUNNING")
    kept = {"outcome": "KEPT", "kept_outcome": "SUCCEEDED", "kept_of": first.nodes["load"]}
    again.open(load=kept)

    load = nodes(admin, again.run_id)["load"]

    assert (load["state"], load["kept_outcome"]) == ("KEPT", "SUCCEEDED")
    assert load["kept_run_id"] == first.run_id


def test_a_token_for_the_flow_alone_sees_no_jobs_and_runs_of_its_nodes(
    program: Callable[..., Program], rows: Rows, clock: Clock
) -> None:
    flow = night(rows, clock.now)
    only = program(job_ids=[flow.job_id])

    load = nodes(only, flow.run_id)["load"]

    assert (load["state"], load["job"], load["app"], load["run_id"]) == ("SUCCEEDED", *[None] * 3)


def test_other_runs_have_no_nodes(admin: Program, rows: Rows, clock: Clock) -> None:
    assert nodes(admin, rows.run(rows.job("plain"), clock.now)) == {}
    assert admin.get("/runs/77/nodes").status_code == 404
