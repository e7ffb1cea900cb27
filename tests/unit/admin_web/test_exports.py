"""Every list as a file: as it is filtered, in both formats, for whoever may see the list."""

import csv
import io
import json
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update

from tests.support.console import Clock, Visit, signed_in
from tests.support.stored_rows import Rows
from warren.admin_web import exports
from warren.scheduler.jobs.spec import FIELDS
from warren.sql.models import App

LISTS = {
    "/jobs": "name",
    "/runs": "job",
    "/runs/errors": "message",
    "/apps": "name",
    "/executors": "address",
    "/schedulers": "node",
    "/tokens": "name",
    "/users": "name",
    "/audit": "action",
    "/ledger": "job",
}


@pytest.fixture
def rows(rows: Rows, clock: Clock) -> Rows:
    job_id = rows.job("nightly", tags="night,billing", handler="=cmd|' /C calc'!A1")
    rows.job("secret", "mails")
    for number in range(3):
        at = clock.now - number * 1_000
        rows.run(job_id, at, status="FAILED", message=f"@broke {number}", started_at=at)
    rows.executor("one", clock.now, "{}")
    rows.scheduler("node-1", clock.now)
    return rows


def as_csv(visit: Visit, path: str) -> list[dict[str, str]]:
    answer = visit.get(path)
    assert answer.mimetype == "text/csv", path
    assert answer.headers["Content-Disposition"].endswith('.csv"')
    return list(csv.DictReader(io.StringIO(answer.text.removeprefix("\ufeff"))))


def as_json(visit: Visit, path: str) -> list[dict[str, Any]]:
    answer = visit.get(path)
    assert answer.mimetype == "application/json", path
    found: list[dict[str, Any]] = json.loads(answer.text)
    return found


@pytest.mark.parametrize(("path", "column"), LISTS.items())
def test_a_list_links_to_both_files_which_say_the_same(
    admin: Visit, rows: Rows, path: str, column: str
) -> None:
    page = admin.get(path).text

    lines, objects = as_csv(admin, f"{path}?format=csv"), as_json(admin, f"{path}?format=json")

    assert f'{path}?format=csv"' in page
    assert f'{path}?format=json"' in page
    assert len(lines) == len(objects)
    assert bool(objects) is (path != "/tokens")
    if objects:
        assert [*objects[0]] == [*lines[0]]
        assert column in objects[0]


def test_a_file_has_what_the_filter_fits(admin: Visit, rows: Rows, clock: Clock) -> None:
    rows.run(rows.job("hourly"), clock.now - 5_000, status="SUCCEEDED")

    assert [one["status"] for one in as_json(admin, "/runs?status=SUCCEEDED&format=json")] == [
        "SUCCEEDED"
    ]
    assert [one["name"] for one in as_json(admin, "/jobs?tag=billing&format=json")] == ["nightly"]
    assert as_json(admin, "/jobs?tag=bill&format=json") == []
    assert {one["action"] for one in as_json(admin, "/audit?kind=session&format=json")} == {
        "session.open"
    }


def test_a_file_of_runs_counts_attempts_and_those_that_started(admin: Visit, rows: Rows) -> None:
    rows.run(rows.job("hourly"), 0, status="FAILED", attempt=3, starts=1)

    [line] = as_csv(admin, "/runs?job=hourly&format=csv")
    [run] = as_json(admin, "/runs?job=hourly&format=json")

    assert (line["attempt"], line["starts"]) == ("3", "1")
    assert (run["attempt"], run["starts"]) == (3, 1)


def test_no_text_is_a_formula_for_a_spreadsheet(admin: Visit, rows: Rows) -> None:
    [job] = as_csv(admin, "/jobs?app=reports&format=csv")
    runs = as_csv(admin, "/runs?format=csv")

    assert job["handler"] == "'=cmd|' /C calc'!A1"
    assert runs[0]["message"] == "'@broke 0"
    assert as_json(admin, "/runs?format=json")[0]["message"] == "@broke 0"


def test_a_file_has_no_row_of_a_foreign_app(app: Flask, rows: Rows) -> None:
    stranger, operator = signed_in(app, "stranger"), signed_in(app, "operator")

    assert [one["name"] for one in as_json(stranger, "/jobs?format=json")] == ["secret"]
    for path in ("/runs", "/runs/errors", "/executors"):
        assert as_json(stranger, f"{path}?format=json") == []
    assert [one["name"] for one in as_json(operator, "/apps?format=json")] == ["reports"]
    assert operator.get("/users?format=csv").status_code == 403
    assert operator.get("/audit?format=csv").status_code == 403


def test_a_file_of_jobs_has_every_field_but_secrets(admin: Visit, rows: Rows) -> None:
    child = rows.job("mail", scope="CLUSTER", limits="partner-api:2")
    rows.job("parent", child_ids=str(child), alarm_secret="signs", alarm_style="dingtalk")

    jobs = as_json(admin, "/jobs?app=reports&format=json")
    mail, parent = (next(job for job in jobs if job["name"] == name) for name in ("mail", "parent"))

    in_schedule = {"schedule_kind", "schedule_value", "schedule_options"}
    secret = {name for name, field in FIELDS.items() if field.kind.is_secret}
    assert secret == {"alarm_webhook", "alarm_secret", "webhook_url"}
    assert FIELDS.keys() - mail.keys() == in_schedule | secret | {"script_source"}
    assert [*mail][:4] == ["id", "app", "name", "author"]
    assert (mail["scope"], mail["limits"]) == ("CLUSTER", ["partner-api:2"])
    assert parent["children"] == ["reports/mail"]


def test_a_file_of_apps_has_what_their_jobs_take_from_them(admin: Visit, rows: Rows) -> None:
    values = {"route": "ROUND", "alarm_webhook": "https://hook", "alarm_style": "slack"}
    more = {"webhook_url": "https://hook", "webhook_when": "failure"}
    is_ours = App.id == rows.app("reports")
    rows.database.write(lambda s: s.execute(update(App).where(is_ours).values(**values, **more)))

    [app] = [one for one in as_json(admin, "/apps?format=json") if one["name"] == "reports"]

    assert (app["route"], app["alarm_style"], app["webhook_when"]) == ("ROUND", "slack", "failure")
    assert "https:" not in json.dumps(app)


def test_a_file_holds_no_webhook(admin: Visit, rows: Rows) -> None:
    rows.job("hooked", alarm_webhook="https://hooks.example.com/token")

    assert "hooks.example.com" not in admin.get("/jobs?format=json").text


def test_long_lists_are_written_whole_and_end_at_the_bound(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    rows.runs(rows.job("much"), range(clock.now, clock.now + 1_300))
    rows.jobs(700)

    assert len(as_json(admin, "/runs?job=much&format=json")) == 1_300
    ids = [one["id"] for one in as_json(admin, "/jobs?format=json")]
    assert len(ids) == len(set(ids)) == 703


def test_a_file_ends_at_its_bound(app: Flask) -> None:
    endless = ({"n": number} for number in range(exports.MAX_ROWS + 5))

    with app.test_request_context("/?format=json"):
        found = json.loads(exports.answer("much", ("n",), endless).get_data(as_text=True))

    assert len(found) == exports.MAX_ROWS


def test_the_first_rows_are_sent_before_many_are_read() -> None:
    limits = []

    def read(_: int | None, limit: int) -> tuple[list[exports.Row], int | None]:
        limits.append(limit)
        return [{}] * limit, None if len(limits) == 3 else 1

    rows = exports.pages(read)
    next(rows)

    assert limits == [exports.FIRST_CHUNK]
    assert len(list(rows)) == exports.FIRST_CHUNK - 1 + 2 * exports.CHUNK
