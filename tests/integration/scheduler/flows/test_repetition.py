"""A flow is repeated from its failure, from a node, or for one node; the rest is kept."""

from typing import Any

import pytest

from tests.integration.scheduler.family import completion, end
from tests.integration.scheduler.flow_play import (
    FAILED,
    SUCCEEDED,
    begun,
    end_node,
    faults,
    flow,
    job,
    nodes_of,
    open_run,
    opened,
    outcomes,
    runs_of,
)
from tests.support.acting import acting
from tests.support.cluster import Cluster, on_memory
from tests.support.sql_rows import put
from warren.broker.messages import Called
from warren.scheduler.commands.reruns import RerunOptions
from warren.scheduler.completion.calls import ReportedCall
from warren.scheduler.problems import Code, Problem
from warren.sql.runs import reruns
from warren.sql.runs.transitions import SentTo

pytestmark = on_memory

FLOW: dict[str, Any] = {
    "extract": {"job": "a"},
    "load": {"job": "a", "after": "extract"},
    "other": {"job": "a", "after": "extract"},
    "report": {"job": "a", "after": ["load", "other"], "param_template": "{{ extract.result }}"},
}


def failed_night(cluster: Cluster, **fields: Any) -> int:
    """Return a flow's run whose `load` has failed."""
    cluster.apply(job("a"), flow("nightly", FLOW, **fields))
    run_id = opened(cluster, "nightly")
    end_node(cluster, run_id, "extract", result='"42 rows"')
    end_node(cluster, run_id, "load", status=FAILED, message="no disk")
    end_node(cluster, run_id, "other")
    assert cluster.run(run_id).status == "FAILED"
    return run_id


def again(cluster: Cluster, run_id: int, **options: Any) -> int:
    [new_id], _ = acting(cluster.database).runs.rerun([run_id], RerunOptions(**options))
    return open_run(cluster, new_id)


def test_a_flow_is_repeated_from_its_failure(cluster: Cluster) -> None:
    run_id = failed_night(cluster)

    new_id = again(cluster, run_id, failed=True)

    assert begun(cluster, new_id) == ["load"]
    assert outcomes(cluster, new_id) == {
        "extract": "KEPT",
        "load": None,
        "other": "KEPT",
        "report": None,
    }
    kept = nodes_of(cluster, new_id)["extract"]
    assert (kept.kept_outcome, kept.result) == ("SUCCEEDED", '"42 rows"')
    end_node(cluster, new_id, "load")
    assert [run.param for run in runs_of(cluster, new_id, "report")] == ["42 rows"]
    end_node(cluster, new_id, "report")
    run = cluster.run(new_id)
    assert (run.status, run.kind, run.rerun_of) == ("SUCCEEDED", "RERUN", run_id)
    assert run.scheduled_at == cluster.run(run_id).scheduled_at


def test_a_retry_of_a_flow_repeats_it_from_its_failure(cluster: Cluster) -> None:
    run_id = failed_night(cluster, retries=1)

    [retry] = cluster.runs(kind="RETRY")
    open_run(cluster, retry.id)

    assert begun(cluster, retry.id) == ["load"]
    assert (retry.job_id, retry.scheduled_at) == (
        cluster.run(run_id).job_id,
        cluster.run(run_id).scheduled_at,
    )


def test_a_flow_is_repeated_from_a_node_whatever_became_of_those_before(cluster: Cluster) -> None:
    run_id = failed_night(cluster)

    new_id = again(cluster, run_id, from_node="report")

    assert begun(cluster, new_id) == ["report"]
    assert nodes_of(cluster, new_id)["load"].kept_outcome == "FAILED"


def test_one_node_is_repeated_and_nothing_after_it(cluster: Cluster) -> None:
    run_id = failed_night(cluster)

    new_id = again(cluster, run_id, only_node="extract")
    end_node(cluster, new_id, "extract", result='"43 rows"')

    assert outcomes(cluster, new_id) == {
        "extract": "SUCCEEDED",
        "load": "KEPT",
        "other": "KEPT",
        "report": "KEPT",
    }
    assert cluster.run(new_id).message == "failed, and no node handled it: load"


def test_a_repetition_takes_the_graph_of_then_or_of_now(cluster: Cluster) -> None:
    run_id = failed_night(cluster)
    mended = FLOW | {"load": {"job": "a", "after": "extract", "param": "less"}}
    cluster.apply(flow("nightly", mended | {"new": {"job": "a", "after": "extract"}}))

    then = again(cluster, run_id, failed=True)
    end_node(cluster, then, "load", status=FAILED)
    now = again(cluster, then, failed=True, current=True)

    assert set(nodes_of(cluster, then)) == set(FLOW)
    first = nodes_of(cluster, run_id)["extract"].id
    assert {nodes_of(cluster, one)["extract"].kept_of for one in (then, now)} == {first}
    assert begun(cluster, now) == ["load", "new"]
    assert [run.param for run in runs_of(cluster, now, "load")] == ["less"]


def test_what_succeeded_after_a_declined_node_stays(cluster: Cluster) -> None:
    declining = {
        "first": {"job": "a"},
        "declined": {"job": "a", "after": "first", "if": "{{ false }}"},
        "clean": {"job": "a", "after": {"declined": "always"}},
        "load": {"job": "a", "after": "first"},
    }
    cluster.apply(job("a"), flow("nightly", declining, retries=1))
    run_id = opened(cluster, "nightly")
    for node, status in {"first": SUCCEEDED, "clean": SUCCEEDED, "load": FAILED}.items():
        end_node(cluster, run_id, node, status=status)

    [retry] = cluster.runs(kind="RETRY")
    open_run(cluster, retry.id)
    assert begun(cluster, retry.id) == ["load"]
    end_node(cluster, retry.id, "load", status=FAILED)
    new_id = again(cluster, retry.id, failed=True)
    assert begun(cluster, new_id) == ["load"]
    end_node(cluster, new_id, "load")

    assert cluster.run(new_id).status == "SUCCEEDED"
    with pytest.raises(Problem) as refused:
        again(cluster, new_id, failed=True)
    assert refused.value.code is Code.RERUN_NOTHING_FAILED


def edited(cluster: Cluster) -> int:
    """Return a failed night's run; in the graph of now `add` stands in the place of `other`."""
    run_id = failed_night(cluster)
    nodes = {
        **FLOW,
        "add": {"job": "b", "after": "extract"},
        "report": {"job": "b", "after": ["load", "add"]},
    }
    del nodes["other"]
    cluster.apply(job("b"), flow("nightly", nodes))
    return run_id


def test_a_part_is_judged_against_the_graph_that_will_run(cluster: Cluster) -> None:
    run_id = edited(cluster)

    for options in ({"from_node": "other", "current": True}, {"only_node": "add"}):
        with pytest.raises(Problem) as refused:
            again(cluster, run_id, **options)
        assert refused.value.code is Code.RERUN_NO_NODE
    new_id = again(cluster, run_id, from_node="add", current=True)

    assert begun(cluster, new_id) == ["add"]
    end_node(cluster, new_id, "add")
    assert outcomes(cluster, new_id)["report"] == "BYPASSED"
    assert cluster.run(new_id).message == "failed, and no node handled it: load"
    assert faults(cluster) == []


def test_a_new_node_that_is_not_named_does_not_run(cluster: Cluster) -> None:
    run_id = edited(cluster)

    new_id = again(cluster, run_id, only_node="report", current=True)
    end_node(cluster, new_id, "report")
    [job_of_now] = {run.job_id for run in runs_of(cluster, new_id, "report")}

    assert job_of_now != cluster.run(run_id).job_id
    add = nodes_of(cluster, new_id)["add"]
    assert (add.outcome, add.kept_outcome) == ("KEPT", "BYPASSED")
    assert add.reason == "it had not run before, and was not repeated"
    assert faults(cluster) == []


def test_a_node_whose_job_was_renamed_is_repeated(cluster: Cluster) -> None:
    run_id = failed_night(cluster)
    [stored] = cluster.jobs(name="a")
    acting(cluster.database).jobs.update(stored.id, job("z"), seen=None)

    new_id = again(cluster, run_id, failed=True)

    assert begun(cluster, new_id) == ["load"]


def test_a_job_that_is_no_flow_any_more_has_no_part_to_repeat(cluster: Cluster) -> None:
    run_id = failed_night(cluster)
    cluster.apply(job("nightly"))

    with pytest.raises(Problem) as refused:
        again(cluster, run_id, failed=True, current=True)

    assert refused.value.code is Code.RERUN_NO_FLOW


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"from_node": "lod"}, Code.RERUN_NO_NODE),
        ({"failed": True, "only_node": "load"}, Code.RERUN_PARTS),
    ],
    ids=["an unknown node", "two parts"],
)
def test_a_part_that_there_is_not_is_refused(
    cluster: Cluster, options: dict[str, Any], code: Code
) -> None:
    run_id = failed_night(cluster)

    with pytest.raises(Problem) as refused:
        again(cluster, run_id, **options)

    assert refused.value.code is code
    assert cluster.runs(kind="RERUN") == []


def test_nothing_is_repeated_where_nothing_failed_or_is_no_flow(cluster: Cluster) -> None:
    cluster.apply(job("a"), flow("nightly", {"only": {"job": "a"}}))
    run_id = opened(cluster, "nightly")
    end_node(cluster, run_id, "only")

    with pytest.raises(Problem) as refused:
        again(cluster, run_id, failed=True)
    with pytest.raises(Problem) as no_flow:
        again(cluster, runs_of(cluster, run_id, "only")[0].id, failed=True)

    assert refused.value.code is Code.RERUN_NOTHING_FAILED
    assert no_flow.value.code is Code.RERUN_NO_FLOW


def call(cluster: Cluster, run_id: int) -> None:
    """Let the newest run of `load` call another job."""
    run = runs_of(cluster, run_id, "load")[-1]
    put(cluster.database, [run.id], status="RUNNING", routed_at=1, address="a", boot_id="b")
    report = Called(run_id=run.id, boot_id="b", job="mail", number=1)
    reported = ReportedCall(report=report, sent_to=SentTo(run.app_id, "a", "b"))
    planner = completion(cluster).calls
    cluster.database.write(lambda session: planner.plan(session, [reported]))


def test_a_node_calls_once_however_often_its_flow_is_repeated(cluster: Cluster) -> None:
    nodes = {"first": {"job": "a"}, "load": {"job": "a", "after": "first", "retries": 1}}
    cluster.apply(job("a"), job("mail"), flow("nightly", nodes, retries=1))
    [mail_job] = cluster.jobs(name="mail")
    run_id = opened(cluster, "nightly")
    end_node(cluster, run_id, "first")

    def fail() -> int:
        """Let both attempts of `load` call and fail; return the newest run of the flow."""
        for _ in range(2):
            call(cluster, run_id)
            end_node(cluster, run_id, "load", status=FAILED)
        return cluster.runs(job_id=cluster.run(run_id).job_id)[-1].id

    run_id = open_run(cluster, fail())  # a retry
    run_id = again(cluster, fail(), failed=True)
    run_id = open_run(cluster, fail())  # a retry of that
    run_id = again(cluster, fail(), from_node="load", current=True)
    fail()

    assert len(cluster.runs(job_id=mail_job.id)) == 1
    assert len(runs_of(cluster, run_id, "load")) == 2


# -- nodes with the same job ------------------------------------------------------------------


def failed_now(cluster: Cluster) -> set[int]:
    failed = [run.id for run in cluster.runs(status=FAILED)]
    superseded = cluster.database.read(lambda session: reruns.superseded(session, failed))
    return set(failed) - superseded


def test_the_success_of_another_node_with_the_same_job_repairs_no_failure(
    cluster: Cluster,
) -> None:
    both = {"load": {"job": "a"}, "check": {"job": "a", "after": {"load": "always"}}}
    cluster.apply(job("a"), flow("nightly", both))
    run_id = opened(cluster, "nightly")
    end_node(cluster, run_id, "load", status=FAILED)
    [load] = runs_of(cluster, run_id, "load")

    end_node(cluster, run_id, "check")

    assert failed_now(cluster) == {load.id, run_id}


def test_a_later_run_of_its_flow_repairs_the_failure_of_a_node(cluster: Cluster) -> None:
    cluster.apply(job("a"), flow("nightly", {"load": {"job": "a"}}))
    run_id = opened(cluster, "nightly")
    end_node(cluster, run_id, "load", status=FAILED)

    end_node(cluster, again(cluster, run_id), "load")

    assert failed_now(cluster) == set()


def test_the_failures_of_two_nodes_with_the_same_job_are_repeated_each_for_itself(
    cluster: Cluster,
) -> None:
    cluster.apply(job("a"), flow("nightly", {"load": {"job": "a"}, "check": {"job": "a"}}))
    run_id = opened(cluster, "nightly")
    for node in ("load", "check"):
        end_node(cluster, run_id, node, status=FAILED)
    failures = [runs_of(cluster, run_id, node)[0].id for node in ("load", "check")]

    repeated, _ = acting(cluster.database).runs.rerun(failures)
    put(cluster.database, repeated, status="SENT", routed_at=cluster.now_ms())
    end(cluster, repeated[0])
    end(cluster, repeated[1], status=FAILED)

    assert [run.rerun_of for run in cluster.runs() if run.id in repeated] == failures
    assert failed_now(cluster) == {repeated[1], run_id}
