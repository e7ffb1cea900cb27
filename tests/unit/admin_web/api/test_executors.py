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


def test_an_executor_is_shown_with_its_handlers_and_is_told_apart_by_its_app(
    admin: Program, clock: Clock, rows: Rows
) -> None:
    for app in ("reports", "mails"):
        rows.executor("one", clock.now_ms(), LOAD, app=app)

    shown = admin.get("/executors/one?app=mails").get_json()

    assert (shown["app"], shown["handler_facts"]) == ("mails", [])
    assert admin.get("/executors/one").status_code == 409
    assert admin.get("/executors/two").status_code == 404


def test_the_cluster_says_what_is_paused_and_why_nothing_is_sent(
    admin: Program, clock: Clock, rows: Rows
) -> None:
    admin.post("/apps/reports/pause", {"reason": "new disk"})

    said = admin.get("/cluster").get_json()

    assert [(pause["app"], pause["reason"]) for pause in said["pauses"]] == [
        ("reports", "new disk")
    ]
    assert [why["code"] for why in said["blocked_by"]] == ["NO_SCHEDULER_ONLINE"]
    assert (said["paused"], said["paused_at"]) == (False, None)


def test_an_app_is_added_once_and_an_unknown_one_is_answered_with_a_similar_name(
    admin: Program,
) -> None:
    added = admin.post("/apps", {"name": "prints", "title": "Prints"})

    assert (added.status_code, added.get_json()["title"]) == (201, "Prints")
    assert added.headers["Location"].endswith("/apps/prints")
    assert admin.post("/apps", {"name": "prints"}).status_code == 409
    detail = admin.post("/apps/prnts/resume").get_json()["detail"]
    assert detail == "no app named 'prnts', did you mean 'prints'?"


def test_an_executor_that_is_gone_is_removed_and_no_other(
    admin: Program, clock: Clock, rows: Rows
) -> None:
    now_ms = clock.now_ms()
    for address, beat_ms in (
        ("here", now_ms),
        ("busy", now_ms - 60_000),
        ("gone", now_ms - 60_000),
    ):
        rows.executor(address, beat_ms, LOAD)
    rows.run(rows.job("nightly"), now_ms, status="RUNNING", address="busy")

    answers = [
        admin.call("DELETE", f"/executors/reports/{address}")
        for address in ("here", "busy", "gone")
    ]

    assert [answer.status_code for answer in answers] == [409, 409, 204]
    assert "is online; drain it first" in answers[0].text
    assert "has open runs (1)" in answers[1].text
    assert [each["address"] for each in admin.get("/executors").get_json()["items"]] == [
        *("busy", "here")
    ]
