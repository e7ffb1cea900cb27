"""`warren runs rerun` and `runs list --unresolved`: repeated for the due time, asked or refused."""

import json
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from tests.support.sql_rows import all_runs
from tests.support.stored_rows import Rows
from warren.cli import root
from warren.sql.models import FlowNode, ScriptVersion
from warren.sql.run_status import Kind

DUE_MS = 1_795_183_200_000


@pytest.fixture
def rows(sqlite_schema_url: str) -> Iterator[Rows]:
    rows = Rows(sqlite_schema_url)
    yield rows
    rows.database.close()


@pytest.fixture
def warren(rows: Rows, sqlite_schema_url: str) -> Callable[..., Result]:
    url = "--database-url", sqlite_schema_url
    return lambda *arguments: CliRunner().invoke(root, [*map(str, arguments), *url])


def test_runs_are_repeated_for_their_due_times(warren: Callable[..., Result], rows: Rows) -> None:
    job_id = rows.job("nightly")
    failed = [rows.run(job_id, DUE_MS + n, status="FAILED", param=f"p{n}") for n in range(2)]

    told = warren("runs", "rerun", *failed, "--json")

    ids = [json.loads(line)["id"] for line in told.output.splitlines()]
    again = {run.id: run for run in all_runs(rows.database) if run.kind == Kind.RERUN}
    assert [(again[one].scheduled_at, again[one].param) for one in ids] == [
        (DUE_MS, "p0"),
        (DUE_MS + 1, "p1"),
    ]


def test_children_that_ran_are_asked_about(warren: Callable[..., Result], rows: Rows) -> None:
    child = rows.job("mails")
    parent = rows.job("nightly", child_ids=str(child))
    run_id = rows.run(parent, DUE_MS, status="SUCCEEDED")
    rows.run(child, DUE_MS, status="SUCCEEDED", kind=Kind.PARENT, origin_id=run_id)

    refused = warren("runs", "rerun", run_id)
    assert refused.exit_code == 2
    assert f"children of run {run_id} have already run for its due time: reports/mails" in (
        refused.output
    )
    assert "add --yes to run them again, or --no-children" in refused.output
    assert not [run for run in all_runs(rows.database) if run.kind == Kind.RERUN]

    assert warren("runs", "rerun", run_id, "--no-children").exit_code == 0
    [again] = [run for run in all_runs(rows.database) if run.kind == Kind.RERUN]
    assert again.without_children == 1


def test_what_is_failed_now_is_listed(warren: Callable[..., Result], rows: Rows) -> None:
    job_id = rows.job("nightly")
    mended = rows.run(job_id, DUE_MS, status="FAILED")
    rows.run(job_id, DUE_MS, status="SUCCEEDED", origin_id=10**9, rerun_of=mended)
    failed = rows.run(job_id, DUE_MS + 1, status="TIMED_OUT")
    rows.run(rows.job("other"), DUE_MS + 1, status="FAILED")

    found = warren("runs", "list", "--unresolved", "--job", "nightly", "--json").output

    assert [json.loads(line)["id"] for line in found.splitlines()] == [failed]
    refused = warren("runs", "list", "--unresolved", "--status", "RUNNING")
    assert refused.exit_code == 2
    assert "--unresolved" in refused.output


def test_a_flow_is_repeated_from_its_failure_or_from_a_node(
    warren: Callable[..., Result], rows: Rows
) -> None:
    load = rows.job("load")
    graph = '{"extract":{"job":"load"},"load":{"job":"load","after":"extract"}}'
    flow = rows.job("nightly", flow=graph, script_type="FLOW")
    version = ScriptVersion(job_id=flow, number=1, script_type="FLOW", source=graph, remark="")
    version_id = rows.database.write(lambda session: _added(session, version))
    run_id = rows.run(flow, DUE_MS, status="FAILED", script_version=version_id)
    outcomes = {"extract": "SUCCEEDED", "load": "FAILED"}
    nodes = [
        {"id": number, "flow_run_id": run_id, "node": node, "job_id": load, "outcome": outcome}
        for number, (node, outcome) in enumerate(outcomes.items(), start=10**6)
    ]
    rows.database.write(lambda session: session.execute(insert(FlowNode), nodes))

    assert warren("runs", "rerun", run_id, "--from", "lod").exit_code == 1
    told = warren("runs", "rerun", run_id, "--failed", "--json")

    new_id = json.loads(told.output)["id"]
    kept = select(FlowNode.node, FlowNode.outcome).where(FlowNode.flow_run_id == new_id)
    stored = rows.database.read(lambda session: dict(session.execute(kept).all()))
    assert stored == {"extract": "KEPT", "load": None}


def _added(session: Session, version: ScriptVersion) -> int:
    session.add(version)
    session.flush()
    return version.id
