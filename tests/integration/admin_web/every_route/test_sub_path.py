"""A console at a path of its host: nothing that it sends leads out of that path."""

import re

import pytest

from tests.integration.admin_web.every_route.test_shown_text import paths
from tests.support.console import PASSWORD, Clock, Visit, make_app
from tests.support.sample_app import add_sample_app
from tests.support.stored_rows import Rows
from warren.sql.engine import Database

LEADS = re.compile(r'\s(?:href|src|action|formaction|data-[a-z-]+)="(/[^"]*)"')


@pytest.fixture
def visit(database: Database, clock: Clock) -> Visit:
    return Visit(make_app(database, clock, console_url="http://127.0.0.1/warren/"))


def test_every_link_form_and_asset_of_every_page_stays_inside(
    visit: Visit, rows: Rows, clock: Clock
) -> None:
    made = add_sample_app(rows, "reports", lambda field: f"some-{field}", clock.now)
    visit.sign_in("admin", path="/warren/login")
    outside, seen = {}, 0

    for path in paths(visit.client.application, made):
        answer = visit.get(path)
        found = LEADS.findall(answer.text)
        seen += len(found)
        if wrong := [each for each in found if not each.startswith("/warren/")]:
            outside[path] = wrong
        if not answer.headers.get("Location", "/warren/").startswith("/warren/"):
            outside[path] = [answer.headers["Location"]]

    assert seen > 1_000
    assert outside == {}


def test_a_sign_in_leads_to_the_page_that_was_wanted(visit: Visit) -> None:
    asked = visit.get("/warren/jobs?app=reports")

    form = asked.headers["Location"]
    visit.get(form)
    answer = visit.post(form, {"username": "admin", "password": PASSWORD})

    assert form == "/warren/login?next=/warren/jobs?app%3Dreports"
    assert answer.headers["Location"] == "/warren/jobs?app=reports"


@pytest.mark.parametrize("path", ["/warren/login", "/login"])
def test_a_proxy_may_remove_the_path_or_leave_it(visit: Visit, path: str) -> None:
    answer = visit.get(path)

    assert answer.status_code == 200
    assert 'href="/warren/static/console.css' in answer.text


def test_a_page_after_a_form_is_the_one_with_the_form(visit: Visit, rows: Rows) -> None:
    job_id = rows.job("nightly", schedule_kind="FIX_RATE", schedule_value="60")
    visit.sign_in("admin", path="/warren/login")

    back = f"/warren/jobs/{job_id}"
    started = visit.post("/warren/jobs/start", {"id": str(job_id), "back": back})
    dismissed = visit.post(
        "/warren/alarms/dismiss",
        {"ids": "1"},
        headers={"Referer": "http://localhost/warren/alarms?state=failed"},
    )

    assert started.headers["Location"] == back
    assert dismissed.headers["Location"] == "/warren/alarms?state=failed"
    assert visit.get("/warren").status_code == 200
