"""Job files by the API: an export reads only what it shows."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import event, select

from tests.support.api import Program
from tests.support.console import Clock, make_app, signed_in
from tests.support.stored_rows import Rows
from warren.sql.engine import Database
from warren.sql.instants import moment
from warren.sql.listings.app_listing import EFFECTIVE_ROUTE
from warren.sql.models import App, Job

#: The form of a new job as it is, with a name and a handler.
FORM = {
    "app": "reports",
    "name": "by-form",
    "schedule_kind": "NONE",
    "handler": "h",
    "route": "",
    "block": "SERIAL_EXECUTION",
    "misfire": "DO_NOTHING",
    "delivery": "AT_MOST_ONCE",
    "concurrency": "1",
    "timeout": "0",
    "retries": "0",
    "retry_delay": "0",
}


@pytest.fixture
def jobs_read(rows: Rows) -> Iterator[list[str]]:
    """The names of the jobs that are read from the database from now on."""
    for app, name in (("reports", "daily"), ("reports", "nightly"), ("mails", "weekly")):
        rows.job(name, app, script_source="print(1)")
    names: list[str] = []

    def note(job: Job, _context: object) -> None:
        names.append(job.name)

    event.listen(Job, "load", note)
    yield names
    event.remove(Job, "load", note)


def exported(caller: Program, query: str = "") -> list[str]:
    answer = caller.get(f"/export{query}")
    assert answer.status_code == 200, answer.text
    return [f"{job['app']}/{job['name']}" for job in answer.get_json()["jobs"]]


def test_a_token_of_some_apps_exports_their_jobs_and_no_other_job_is_read(
    program: Any, jobs_read: list[str]
) -> None:
    assert exported(program("operator")) == ["reports/daily", "reports/nightly"]

    assert sorted(jobs_read) == ["daily", "nightly"]


def test_an_export_of_one_app_reads_no_job_of_another(admin: Program, jobs_read: list[str]) -> None:
    assert exported(admin, "?app=mails") == ["mails/weekly"]

    assert jobs_read == ["weekly"]


def test_a_token_of_all_apps_exports_every_app_and_job(
    admin: Program, jobs_read: list[str]
) -> None:
    answer = admin.get("/export").get_json()

    assert [app["name"] for app in answer["apps"]] == ["mails", "reports"]
    assert exported(admin) == ["mails/weekly", "reports/daily", "reports/nightly"]


def test_an_export_of_one_app_has_no_other_app(admin: Program, jobs_read: list[str]) -> None:
    answer = admin.get("/export?app=reports").get_json()

    assert [app["name"] for app in answer["apps"]] == ["reports"]


def test_an_export_that_is_applied_as_it_is_changes_nothing(admin: Program) -> None:
    job = {"handler": "h", "schedule": {"cron": "0 0 2 * * ?"}, "tags": ["a"]}
    for name, more in (
        ("own-process", {"process": "fresh"}),
        ("shared-process", {"process": "handler"}),
        ("either", {"enabled": True}),
    ):
        made = admin.put(f"/jobs/reports/{name}", job | more, headers={"If-None-Match": "*"})
        assert made.status_code == 201, made.text
    told = admin.get("/export?app=reports").get_json()

    applied = admin.post("/apply?dry_run=true", told).get_json()

    assert applied["changes"] == []


def test_an_export_has_the_calendars_of_its_jobs(
    admin: Program, program: Any, clock: Clock
) -> None:
    until = {"until": f"{moment(clock.now_ms()).year}-12-31"}
    calendars = [
        {"name": "bank", "from": "holidays:DE"},
        {"name": "plant", "weekend": ["SUN"], "days": {until["until"]: "off Stocktaking"}, **until},
        {"name": "unused", **until},
    ]
    schedule = {"cron": "0 0 2 * * ?", "calendar": "bank"}
    jobs = [
        {"name": "daily", "app": "reports", "handler": "h", "schedule": schedule},
        {
            "name": "monthly",
            "app": "reports",
            "handler": "h",
            "schedule": {"cron": "0 0 2 1 * ?"},
            "run_date": {"workdays": -1, "calendar": "plant"},
        },
    ]
    made = admin.post("/apply", {"calendars": calendars, "jobs": jobs})
    assert made.status_code == 200, made.text

    as_json = admin.get("/export").get_json()
    as_yaml = admin.get("/export", headers={"Accept": "application/yaml"}).text

    named = {calendar["name"]: calendar for calendar in as_json["calendars"]}
    assert [named["bank"]["from"], named["plant"]["days"]] == ["holidays:DE", calendars[1]["days"]]
    assert [*named] == ["bank", "plant"]
    sent = {"data": as_yaml, "headers": {"Content-Type": "application/yaml"}}
    for answer in (admin.post("/apply", as_json), admin.post("/apply", **sent)):
        assert (answer.status_code, answer.get_json()["changes"]) == (200, []), answer.text
        assert answer.get_json()["unchanged"] == len(["bank", "plant", "daily", "monthly"])
    assert program("operator").get("/export").get_json()["calendars"] == []


def test_a_job_that_no_file_may_hold_is_left_out_and_named(admin: Program, rows: Rows) -> None:
    over = {"schedule_kind": "CRON", "schedule_value": "0 0 0 1 1 ? 2020", "is_enabled": 1}
    rows.job("over\n- x", **over)
    rows.job("nightly")

    as_json = admin.get("/export?app=reports").get_json()
    as_yaml = admin.get("/export?app=reports", headers={"Accept": "application/yaml"}).text

    words = "job 'reports/over\\n- x' is left out: "
    assert [job["name"] for job in as_json["jobs"]] == ["nightly"]
    assert [line.startswith(words) for line in as_json["left_out"]] == [True]
    assert as_yaml.startswith(f"# {words}")
    sent = {"data": as_yaml, "headers": {"Content-Type": "application/yaml"}}
    for answer in (admin.post("/apply", as_json), admin.post("/apply", **sent)):
        assert (answer.status_code, answer.get_json()["changes"]) == (200, []), answer.text


@pytest.mark.parametrize("dry_run", ["true", "false"])
def test_applying_a_file_warns_of_handlers_that_no_online_executor_has(
    admin: Program, rows: Rows, clock: Clock, dry_run: str
) -> None:
    rows.executor("a", clock.now, json.dumps({"handlers": ["orders.feed"]}))
    schedule = {"cron": "0 0 2 ? * 1-5"}
    jobs = [
        {"name": "night", "app": "reports", "handler": "orders.fed", "schedule": schedule},
        {"name": "day", "app": "reports", "handler": "orders.feed"},
    ]

    answer = admin.post(f"/apply?dry_run={dry_run}", {"jobs": jobs}).get_json()

    assert [one["details"] for one in answer["changes"]] == [["stopped (enabled is not set)"], []]
    assert answer["warnings"] == [
        {"job": "reports/night", "message": words}
        for words in (
            "no online executor has 'orders.fed'; did you mean 'orders.feed'?",
            "1-5 is Sunday to Thursday; did you mean MON-FRI?",
        )
    ]


def test_applying_a_file_again_warns_of_handlers_again_but_not_of_schedules(
    admin: Program, rows: Rows, clock: Clock
) -> None:
    rows.executor("a", clock.now, json.dumps({"handlers": ["orders.feed"]}))
    schedule = {"cron": "0 0 2 ? * 1-5"}
    jobs = [{"name": "night", "app": "reports", "handler": "x", "schedule": schedule}]
    admin.post("/apply", {"jobs": jobs})

    answer = admin.post("/apply", {"jobs": jobs}).get_json()

    assert answer["changes"] == []
    assert answer["warnings"] == [{"job": "reports/night", "message": "no online executor has 'x'"}]


def test_jobs_without_a_route_have_that_of_their_app_whichever_way_they_are_saved(
    admin: Program, database: Database, clock: Clock
) -> None:
    app = {"name": "reports", "title": "Reports", "route": "LEAST_LOADED"}
    by_file = {"name": "by-file", "app": "reports", "handler": "h"}
    admin.post("/apply", {"apps": [app], "jobs": [by_file]})
    admin.put("/jobs/reports/by-api", {"handler": "h"}, headers={"If-None-Match": "*"})
    browser = signed_in(make_app(database, clock), "admin")

    assert browser.post("/jobs/create", FORM).status_code == 303

    jobs = select(Job.name, EFFECTIVE_ROUTE).join(App, App.id == Job.app_id).order_by(Job.name)
    found = database.read(lambda session: [tuple(row) for row in session.execute(jobs)])
    assert found == [(name, "LEAST_LOADED") for name in ("by-api", "by-file", "by-form")]


def test_an_export_keeps_the_route_of_an_app(admin: Program) -> None:
    app = {"name": "reports", "title": "Reports", "route": "ROUND"}
    admin.post("/apply", {"apps": [app]})

    exported = admin.get("/export").get_json()
    applied = admin.post("/apply", exported).get_json()

    assert {"name": "reports", "title": "Reports", "route": "ROUND"} in exported["apps"]
    assert applied["changes"] == []


def test_a_route_of_an_app_that_does_not_exist_is_refused(admin: Program) -> None:
    answer = admin.post("/apply", {"apps": [{"name": "reports", "route": "RUOND"}]})

    assert answer.status_code == 422
    assert [one["pointer"] for one in answer.get_json()["errors"]] == ["/apps/0/route"]


def test_all_that_is_wrong_with_a_file_in_json_is_told_at_once(admin: Program) -> None:
    wrong = {
        "apps": [{"name": "x", "alarm": {"webhook": 5, "style": "slack"}}],
        "calendars": [
            {"name": "cn", "days": {"2026-13-01": "off", "x": "work"}, "weekend": ["SUT"]},
            {"name": "Cn", "days": {"2036-12-01": "wrk"}},
        ],
        "limits": [{"name": "ware", "at_once": "x"}, {"name": "Bad", "at_once": 0}],
        "jobs": [
            {"name": "a", "app": "report", "handler": "h", "timeout": "x", "retries": 9_999},
            {"name": "b", "app": "reports", "hander": "h"},
            5,
        ],
    }

    answer = admin.post("/apply", wrong)

    assert answer.status_code == 400
    assert {error["pointer"] for error in answer.get_json()["errors"]} == {
        "/apps/0/name",
        "/apps/0/alarm/webhook",
        "/calendars/0/days/2026-13-01",
        "/calendars/0/days/x",
        "/calendars/0/weekend",
        "/calendars/1/name",
        "/calendars/1/days",
        "/limits/0/at_once",
        "/limits/1/name",
        "/limits/1/at_once",
        "/jobs/0/timeout",
        "/jobs/0/retries",
        "/jobs/1/hander",
        "/jobs/1/handler",
        "/jobs/2",
    }


def test_a_misspelt_app_in_json_is_answered_with_the_nearest(admin: Program) -> None:
    answer = admin.post("/apply", {"jobs": [{"name": "a", "app": "report", "handler": "h"}]})

    [told] = answer.get_json()["errors"]
    assert told["detail"] == "unknown app 'report', did you mean 'reports'?"


def test_all_that_is_wrong_with_an_app_is_told_at_once(admin: Program) -> None:
    wrong = {
        "title": "x" * 65,
        "addresses": ["a b", "c d"],
        "route": "ROUNDD",
        "alarm": {"emails": ["a", "b"]},
    }

    answers = [admin.put("/apps/reports", wrong), admin.put("/apps/Fresh", wrong)]

    told = [[error["pointer"] for error in each.get_json()["errors"]] for each in answers]
    lists = ["/addresses"] * 2, ["/alarm/emails"] * 2
    assert told[0] == ["/title", *lists[0], "/route", *lists[1]]
    assert told[1] == ["/name", *told[0]]
