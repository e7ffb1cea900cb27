"""Executors by the API: why one gets no new runs."""

from tests.support.api import Program
from tests.support.console import Clock
from tests.support.stored_rows import Rows

LOAD = '{"slots": 4, "running": 0}'


def test_an_executor_that_gets_no_runs_says_why(admin: Program, clock: Clock, rows: Rows) -> None:
    rows.job("nightly", is_enabled=1)
    rows.scheduler("here", clock.now_ms())
    rows.executor("one", clock.now_ms(), LOAD)
    rows.executor("two", clock.now_ms(), LOAD, app="mails")
    admin.post("/apps/reports/pause", {"reason": "new disk"})

    listed = admin.get("/executors").get_json()["items"]
    admin.post("/apps/reports/resume")
    [resumed] = admin.get("/executors?app=reports").get_json()["items"]

    told = {one["address"]: one["blocked_by"] for one in listed}
    [why] = told["one"]
    assert why["code"] == "APP_PAUSED"
    assert why["message"] == "app reports is paused until somebody resumes it (new disk)"
    assert [why["code"] for why in told["two"]] == ["NO_STARTED_JOB"]
    assert resumed["blocked_by"] == []


def test_an_executor_that_no_route_chooses_says_so_in_the_list_of_its_app(
    admin: Program, clock: Clock, rows: Rows
) -> None:
    rows.job("nightly", is_enabled=1, route="FIRST")
    rows.scheduler("here", clock.now_ms())
    for address in ("one", "two"):
        rows.executor(address, clock.now_ms(), LOAD)

    first, second = admin.get("/executors?app=reports").get_json()["items"]

    assert first["blocked_by"] == []
    assert [why["code"] for why in second["blocked_by"]] == ["ROUTED_ELSEWHERE"]
