"""Limits by the API, and the answer to a trigger while too many runs wait."""

from typing import Any

import pytest

from tests.support.api import Program
from tests.support.stored_rows import Rows
from warren.sql.engine import Database
from warren.sql.models import Hold


def test_a_limit_is_made_changed_listed_and_deleted(admin: Program) -> None:
    made = admin.put("/limits/warehouse", {"at_once": 3})
    changed = admin.put("/limits/warehouse", {"rate": 60, "per": "1m"})

    assert (made.status_code, made.headers["Location"]) == (201, "/api/v1/limits/warehouse")
    assert (changed.status_code, changed.get_json()["per"]) == (200, "1m")
    [limit] = admin.get("/limits").get_json()["items"]
    assert changed.get_json() == limit | {"action": "update"}
    assert admin.call("DELETE", "/limits/warehouse").status_code == 204
    assert admin.get("/limits/warehouse").status_code == 404


def test_what_is_wrong_with_a_limit_is_named(admin: Program) -> None:
    answer = admin.put("/limits/warehouse", {"rate": 60, "per": "soon"})
    empty = admin.put("/limits/warehouse", {})

    assert (answer.status_code, empty.status_code) == (422, 422)
    assert answer.get_json()["errors"][0]["pointer"] == "/per"
    assert empty.get_json()["errors"][0]["code"] == "limit_empty"


def test_a_limit_that_is_held_is_not_deleted(
    admin: Program, rows: Rows, database: Database, clock: Any
) -> None:
    admin.put("/limits/warehouse", {"at_once": 1})
    run_id = rows.run(rows.job("load"), clock.now, status="RUNNING", holds=1)
    database.write(lambda session: session.add(Hold(limit_id=1, run_id=run_id, weight=1)))

    answer = admin.call("DELETE", "/limits/warehouse")

    assert answer.status_code == 409
    assert answer.get_json()["type"] == "urn:warren:problem:limit_held"
    held_by = admin.get("/limits/warehouse").get_json()["held_by"]
    assert [(holder["run"], holder["job"]) for holder in held_by] == [(run_id, "load")]


def test_a_trigger_is_told_to_come_back_while_as_many_wait_as_may(
    admin: Program, rows: Rows, clock: Any
) -> None:
    job_id = rows.job("load", max_waiting=1)
    rows.run(job_id, clock.now - 1_000)

    answer = admin.post("/jobs/reports/load/runs")

    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.get_json()["type"] == "urn:warren:problem:too_many_waiting"


def test_a_job_takes_of_limits_in_each_form_of_a_job_file(admin: Program) -> None:
    job = {"handler": "load", "limits": ["db", "wh:3", {"mail": 1, "partner-api": 2}]}
    named = {"app": "reports", "name": "load"}
    limits = [{"name": name, "at_once": 9} for name in ("db", "wh", "partner-api", "mail")]

    applied = admin.post("/apply", {"limits": limits, "jobs": [named | job]})
    shown = admin.get("/jobs/reports/load").get_json()
    put = admin.put("/jobs/reports/put", job, headers={"If-None-Match": "*"})
    changed = {"limits": [{"wh": 4}]}
    patched = admin.call("PATCH", "/jobs/reports/load", json=changed, headers={"If-Match": "*"})

    assert applied.status_code == 200, applied.text
    assert shown["limits"] == ["db", "wh:3", "mail", "partner-api:2"]
    assert put.get_json()["limits"] == shown["limits"]
    assert patched.get_json()["limits"] == ["wh:4"]


@pytest.mark.parametrize(
    ("use", "detail"),
    [
        ({"wh": 0}, "expected limits to be names, NAME or NAME:WEIGHT, got: 'wh:0'"),
        ({"wh": "two"}, "expected `int`, got `str`"),
        (2, "expected `str | object`, got `int`"),
    ],
)
def test_what_takes_no_limit_is_refused_at_its_place(admin: Program, use: Any, detail: str) -> None:
    admin.put("/limits/wh", {"at_once": 9})

    job = {"handler": "load", "limits": [use]}
    answer = admin.put("/jobs/reports/load", job, headers={"If-None-Match": "*"})

    assert answer.status_code == 422
    [error] = answer.get_json()["errors"]
    assert error["pointer"].startswith("/limits")
    assert error["detail"].startswith(detail)


def test_a_job_that_names_an_unknown_limit_is_refused_at_its_place(
    admin: Program, rows: Rows
) -> None:
    rows.app()
    job = {"handler": "load", "limits": ["warehouse"]}

    answer = admin.put("/jobs/reports/load", job, headers={"If-None-Match": "*"})

    [error] = answer.get_json()["errors"]
    assert answer.status_code == 422
    assert (error["pointer"], error["detail"]) == ("/limits", "unknown limit 'warehouse'")


def test_the_queue_is_paged_the_longest_waiting_first(
    admin: Program, rows: Rows, clock: Any
) -> None:
    job_id, due_at = rows.job("load"), clock.now - 5_000
    ids = [
        rows.run(job_id, due_at),
        rows.run(job_id, due_at, scheduled_at=due_at - 7),
        rows.run(job_id, due_at - 1),
    ]
    rows.run(job_id, clock.now + 60_000)

    listed, more = [], ""
    while more is not None:
        answer = admin.get(f"/queue?app=reports&limit=1{more}").get_json()
        listed += [run["id"] for run in answer["items"]]
        more = answer["next"] and f"&cursor={answer['next']}"

    assert listed == [ids[2], ids[0], ids[1]]
    assert admin.get("/queue?app=nothing").status_code == 404
