"""The doors of a job's field, tried with one that is declared in memory only.

`test_made_up_field.py` runs these with `tests/support/made_up_field` on the path.
"""

import os
from pathlib import Path

import pytest
from flask import Flask

from tests.support.api import Program, make_api, make_token
from tests.support.command import run_program
from tests.support.console import Clock, signed_in
from tests.support.console_fixtures import _filled, app, clock, database, rows
from tests.support.desk import Desk
from tests.support.schemas import SQLiteSchema
from tests.support.stored_rows import Rows
from tests.unit import test_documentation
from warren.admin_web.api.application import api_description
from warren.sql.engine import Database

__all__ = ["_filled", "app", "clock", "database", "rows"]

JOB = {"name": "nightly", "app": "reports", "handler": "report"}
PATH = "/jobs/reports/nightly"
FILE = """\
jobs:
  - name: nightly
    app: reports
    handler: report
    flavour: SPICY
"""


@pytest.fixture
def desk(tmp_path: Path, sqlite_schema: SQLiteSchema, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr("tests.support.desk.run_warren", run_program)  # forks know no such field
    desk = Desk(tmp_path, sqlite_schema)
    desk.env["PYTHONPATH"] = os.environ["PYTHONPATH"]
    desk.warren("apps", "add", "reports")
    return desk


@pytest.fixture
def program(database: Database, clock: Clock) -> Program:
    return Program(make_api(database, clock), make_token(database, clock, "admin"))


def test_a_job_file_sets_it_and_commands_tell_it(desk: Desk) -> None:
    desk.warren("jobs", "apply", desk.file(FILE))

    facts = desk.warren("jobs", "show", "nightly").stdout.splitlines()
    [shown] = desk.listed("jobs", "show", "nightly", "--json")
    exported = desk.warren("jobs", "export").stdout

    assert [line.split() for line in facts if "flavour" in line] == [["flavour", "SPICY"]]
    assert shown["flavour"] == "SPICY"
    assert exported.endswith(FILE)


def test_a_job_file_with_a_wrong_value_is_refused_with_the_line(desk: Desk) -> None:
    done = desk.warren("jobs", "apply", desk.file(FILE.replace("SPICY", "HOT")), status=1)

    assert "jobs.yaml:5: " in done.stderr
    assert "flavour" in done.stderr


def test_a_handler_declares_it(desk: Desk) -> None:
    (desk.folder / "handlers.py").write_text(
        "from warren import job\n\n"
        "@job('nightly', app='reports', flavour='SPICY')\ndef nightly(context): ...\n"
    )

    desk.warren("jobs", "apply", "--from", "handlers.py")

    [shown] = desk.listed("jobs", "show", "nightly", "--json")
    assert shown["flavour"] == "SPICY"


def test_the_api_takes_it_and_answers_it(program: Program) -> None:
    body = JOB | {"flavour": "SPICY"}

    wrong = program.put(PATH, JOB | {"flavour": "HOT"}, headers={"If-None-Match": "*"})
    made = program.put(PATH, body, headers={"If-None-Match": "*"})

    assert (wrong.status_code, made.status_code) == (422, 201)
    assert [error["pointer"] for error in wrong.get_json()["errors"]] == ["/flavour"]
    assert program.get(PATH).get_json()["flavour"] == "SPICY"


def test_the_description_of_the_api_has_it() -> None:
    kinds = api_description()["components"]["schemas"]

    assert "flavour" in kinds["Job"]["properties"]
    assert "flavour" in kinds["JobBody"]["properties"]


def test_the_form_asks_for_it_shows_it_and_saves_it(app: Flask, rows: Rows) -> None:
    visit = signed_in(app, "admin")
    sent = JOB | {"language": "", "schedule_kind": "NONE"}

    asked = visit.get("/jobs/new").text
    wrong = visit.post("/jobs/create", sent | {"flavour": "HOT"})
    saved = visit.post("/jobs/create", sent | {"flavour": "SPICY"})
    again = visit.get(saved.headers["Location"] + "/edit").text

    assert '<label for="flavour">Flavour</label>' in asked
    assert wrong.status_code == 422
    assert 'id="flavour-error"' in wrong.text
    assert saved.status_code == 303
    assert '<option selected value="SPICY">SPICY</option>' in again


def test_the_page_of_a_job_tells_it(app: Flask, rows: Rows) -> None:
    job_id = rows.job("nightly", flavour="SPICY")

    page_of_job = signed_in(app, "admin").get(f"/jobs/{job_id}").text

    assert '<dt>Flavour</dt><dd class="">SPICY</dd>' in page_of_job


def test_a_list_of_jobs_as_a_file_has_it(app: Flask, rows: Rows) -> None:
    rows.job("nightly", flavour="SPICY")
    visit = signed_in(app, "admin")

    [job] = visit.get("/jobs?format=json").get_json()
    head, line = visit.get("/jobs?format=csv").text.splitlines()

    assert job["flavour"] == "SPICY"
    assert dict(zip(head.split(","), line.split(","), strict=True))["flavour"] == "SPICY"


def test_the_history_of_edits_tells_its_change(app: Flask, program: Program) -> None:
    program.put(PATH, JOB, headers={"If-None-Match": "*"})
    job_id = program.get(PATH).get_json()["state"]["id"]
    program.put(PATH, JOB | {"flavour": "SPICY"}, headers={"If-Match": "*"})

    told = signed_in(app, "admin").get(f"/jobs/{job_id}/history").text

    assert "Flavour" in told
    assert "SPICY" in told


def test_without_a_line_in_the_documentation_the_gate_fails() -> None:
    with pytest.raises(AssertionError):
        test_documentation.TestCommands().test_every_field_of_a_job_is_documented()
