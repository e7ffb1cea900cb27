"""Flows are saved like other jobs: what they name must be there, and stays there."""

from typing import Any

import pytest
from sqlalchemy import select

from tests.integration.scheduler.flow_play import flow, job, opened
from tests.support.acting import acting
from tests.support.cluster import APP, Cluster, on_memory
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.problems import Code, Problem, Refused
from warren.sql.models import FlowJob, Job, ScriptVersion

pytestmark = on_memory


def refusal(cluster: Cluster, *specs: JobSpec, app_ids: set[int] | None = None) -> Problem:
    commands = acting(cluster.database, app_ids=app_ids)
    with pytest.raises(Refused) as refused:
        commands.job_files.apply([], specs, dry_run=False, prune=False)
    [problem] = refused.value.problems
    return problem


def rows(cluster: Cluster, model: Any) -> list[Any]:
    return cluster.database.read(lambda session: list(session.execute(select(model)).scalars()))


def test_a_flow_and_the_jobs_of_its_nodes_are_saved_together(cluster: Cluster) -> None:
    cluster.apply(flow("nightly", {"x": {"job": "a"}, "y": {"job": "a", "after": "x"}}), job("a"))

    [nightly], [a] = cluster.jobs(name="nightly"), cluster.jobs(name="a")
    assert nightly.flow == '{"x":{"job":"a"},"y":{"job":"a","after":"x"}}'
    [version] = rows(cluster, ScriptVersion)
    assert (version.id, version.script_type) == (nightly.script_version, "FLOW")
    assert [(row.flow_id, row.job_id) for row in rows(cluster, FlowJob)] == [(nightly.id, a.id)]


def test_a_changed_graph_is_a_version_and_an_open_run_keeps_its_own(cluster: Cluster) -> None:
    cluster.apply(job("a"), flow("nightly", {"x": {"job": "a"}}))
    run_id = opened(cluster, "nightly")

    cluster.apply(flow("nightly", {"x": {"job": "a", "param": "1"}}))
    cluster.apply(flow("nightly", {"x": {"job": "a", "param": "1"}}))

    first, second = rows(cluster, ScriptVersion)
    assert cluster.run(run_id).script_version == first.id
    assert cluster.jobs(name="nightly")[0].script_version == second.id


@pytest.mark.parametrize(
    ("node", "code"),
    [
        ("gone", Code.FLOW_JOB_UNKNOWN),
        ("other/a", Code.FLOW_JOB_UNKNOWN),
        ("inner", Code.FLOW_IN_FLOW),
    ],
)
def test_a_node_needs_a_job_that_is_no_flow(cluster: Cluster, node: str, code: Code) -> None:
    cluster.apply(job("a"), flow("inner", {"x": {"job": "a"}}))

    problem = refusal(cluster, flow("nightly", {"first": {"job": "a"}, "x": {"job": node}}))

    assert (problem.code, problem.field) == (code, "jobs/0/flow/x/job")
    assert cluster.jobs(name="nightly") == []


def test_a_job_of_an_app_that_the_owner_may_not_see_is_unknown(cluster: Cluster) -> None:
    cluster.add_app("hidden")
    cluster.apply(JobSpec(name="a", app="hidden", handler="noop"), job("b"))
    [own] = {row.app_id for row in cluster.jobs(name="b")}
    nightly = flow("nightly", {"x": {"job": "hidden/a"}})

    problem = refusal(cluster, nightly, app_ids={own})

    assert problem.code is Code.FLOW_JOB_UNKNOWN
    cluster.apply(nightly)


def test_a_node_of_a_flow_cannot_become_a_flow(cluster: Cluster) -> None:
    cluster.apply(job("a"), job("b"), flow("nightly", {"x": {"job": "a"}}))

    problem = refusal(cluster, flow("a", {"x": {"job": "b"}}))

    assert problem.code is Code.FLOW_IS_NODE


def test_a_job_that_is_a_node_cannot_be_deleted_before_its_flow(cluster: Cluster) -> None:
    cluster.apply(job("a"), flow("nightly", {"x": {"job": "a"}}))

    with pytest.raises(Problem) as refused:
        cluster.commands().delete("a")

    assert str(refused.value) == (
        f"cannot delete job {APP}/a: it is still a node of flow {APP}/nightly"
    )
    cluster.commands().delete("nightly")
    cluster.commands().delete("a")


def test_a_flow_finds_its_jobs_under_their_new_names(cluster: Cluster) -> None:
    cluster.apply(job("a"), flow("nightly", {"x": {"job": "a"}, "y": {"job": f"{APP}/a"}}))
    [a] = cluster.jobs(name="a")

    acting(cluster.database).jobs.update(a.id, job("b"), seen=None)

    assert cluster.jobs(name="nightly")[0].flow == f'{{"x":{{"job":"b"}},"y":{{"job":"{APP}/b"}}}}'
    assert len(rows(cluster, ScriptVersion)) == 2


def test_a_flow_becomes_a_job_with_a_handler_and_back(cluster: Cluster) -> None:
    nightly = flow("nightly", {"x": {"job": "a"}})
    cluster.apply(job("a"), nightly)

    cluster.apply(job("nightly", "echo"))
    [row] = cluster.jobs(name="nightly")
    assert (row.flow, row.script_version, row.handler) == (None, None, "echo")
    assert rows(cluster, FlowJob) == []
    cluster.apply(nightly)

    [row] = cluster.jobs(name="nightly")
    assert (bool(row.flow), bool(row.script_version), row.handler) == (True, True, "")
    assert len(rows(cluster, FlowJob)) == 1


def test_a_flow_has_neither_handler_nor_an_editable_script(cluster: Cluster) -> None:
    cluster.apply(job("a"), flow("nightly", {"x": {"job": "a"}}))
    [row] = cluster.jobs(name="nightly")

    with pytest.raises(Refused) as both:
        acting(cluster.database).jobs.create(flow("other", {"x": {"job": "a"}}, handler="noop"))
    with pytest.raises(Problem) as script:
        acting(cluster.database).scripts.save(
            row.id, "x", remark="r", based_on=row.script_version or 0
        )

    assert [problem.code for problem in both.value.problems] == [Code.FLOW_AND_HANDLER]
    assert script.value.code is Code.NO_SCRIPT
    assert isinstance(row, Job)
