"""Lists of runs by what they belong to: without flows' nodes, of one flow, of a backfill."""

import pytest
from sqlalchemy.orm import Session

from tests.support.api import Program
from tests.support.console import Clock
from tests.support.flow_rows import FlowRows, night
from tests.support.stored_rows import Rows
from warren.sql.listings import run_search
from warren.sql.listings.recent import along_jobs
from warren.sql.listings.run_search import RunSearch


@pytest.fixture
def flow(rows: Rows, clock: Clock) -> FlowRows:
    return night(rows, clock.now)


def ids(program: Program, query: str) -> list[int]:
    answer = program.get(f"/runs?{query}")
    assert answer.status_code == 200, answer.text
    return [run["id"] for run in answer.get_json()["items"]]


def test_runs_are_listed_by_their_flow(admin: Program, rows: Rows, flow: FlowRows) -> None:
    load = flow.jobs["load"]
    alone = rows.run(load, flow.at_ms, status="FAILED")
    of_flow = f"flow_run_id={flow.run_id}"

    everything = ids(admin, "limit=200")

    nodes = [run_id for run_id in everything if run_id not in {alone, flow.run_id}]
    assert sorted(ids(admin, "outside_flows=true")) == sorted([alone, flow.run_id])
    assert sorted(ids(admin, of_flow)) == sorted(nodes)
    assert len(ids(admin, f"{of_flow}&status=FAILED")) == 2
    assert len(ids(admin, f"{of_flow}&job=reports/load")) == 2
    first = admin.get(f"/runs?{of_flow}&limit=4").get_json()
    rest = ids(admin, f"{of_flow}&limit=4&cursor={first['next']}")
    assert sorted([run["id"] for run in first["items"]] + rest) == sorted(nodes)


@pytest.mark.parametrize("most_jobs", [100, 2])
def test_a_flow_of_many_jobs_has_the_same_runs(rows: Rows, flow: FlowRows, most_jobs: int) -> None:
    rows.run(flow.jobs["load"], flow.at_ms, status="FAILED")
    wanted = RunSearch(flow_run_id=flow.run_id)

    def read(session: Session) -> list[int]:
        scope = along_jobs(session, wanted, app_ids=None, most_jobs=most_jobs)
        return [run.id for run in run_search.page(session, scope).runs]

    found = rows.database.read(read)

    assert len(found) == len(set(found)) == 6


def test_runs_are_listed_by_their_backfill(admin: Program, rows: Rows, clock: Clock) -> None:
    job_id = rows.job("daily", schedule_kind="CRON", schedule_value="0 0 2 * * ?", timezone="UTC")
    span = {"from": "2026-03-01", "to": "2026-03-07"}
    made = admin.post("/jobs/reports/daily/backfills", span).get_json()["id"]
    of_backfill = rows.run(job_id, clock.now, status="FAILED", backfill_id=made, origin_id=made)
    rows.run(job_id, clock.now, status="FAILED")

    assert ids(admin, f"backfill_id={made}") == [of_backfill]
    assert ids(admin, f"backfill_id={made}&status=SUCCEEDED") == []


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("flow_run_id=999999", 404, "no run with id 999999"),
        ("backfill_id=999999", 404, "no backfill 999999"),
        ("flow_run_id=0", 422, "flow_run_id"),
        ("flow_run_id=7&outside_flows=true", 422, "expected outside_flows without flow_run_id"),
    ],
)
def test_what_does_not_exist_or_go_together_is_named(
    admin: Program, query: str, status: int, words: str
) -> None:
    answer = admin.get(f"/runs?{query}")

    assert answer.status_code == status
    assert words in answer.text
