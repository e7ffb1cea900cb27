"""All jobs of a filter at once; tags, favourites and saved filters, by which they are found."""

import re
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from tests.support.console import Clock, Visit, signed_in
from tests.support.eventually import eventually
from tests.support.sql_rows import all_runs
from tests.support.stored_rows import Rows
from warren.sql.engine import Database
from warren.sql.models import Job

SEEN = re.compile(r'name="seen"[^>]*value="([0-9a-f]+)"')
CRON = {"schedule_kind": "CRON", "schedule_value": "0 0 2 * * ?"}


def hidden(page: str) -> dict[str, str]:
    form = page[page.index('action="/jobs/bulk/start"') :]
    found = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)
    return {name: value for name, value in found if name != "csrf_token"}


def begin(visit: Visit, action: str, query: str) -> str:
    """Ask, from the list with all jobs chosen, confirm, and return the path of the result."""
    visit.get("/jobs")
    form = {"all": "1", "filter": query}
    if action == "ask-delete":
        asked = visit.get(f"/jobs/{action}", query_string=form, follow_redirects=True)
    else:
        asked = visit.post(f"/jobs/{action}", form, follow_redirects=True)
    return str(visit.post("/jobs/bulk/start", hidden(asked.text)).location)


def ended(visit: Visit, path: str, how: str = "done") -> str:
    """Return the page of the result when it says how the work ended."""
    return str(
        eventually(lambda: (page := visit.get(path).text) and f"{how}</span>" in page and page)
    )


def do(visit: Visit, action: str, query: str) -> str:
    """Begin, and return the page of the result."""
    return ended(visit, begin(visit, action, query))


def states(database: Database) -> dict[str, int]:
    statement = select(Job.name, Job.is_enabled)
    return {one.name: one.is_enabled for one in database.read(lambda s: s.execute(statement).all())}


def names(page: str) -> list[str]:
    return re.findall(r'class="job-name"><div><a href="[^"]+">([^<]+)</a>', page)


def test_all_jobs_of_a_filter_are_started_and_stopped(admin: Visit, rows: Rows) -> None:
    for number in range(60):
        rows.job(f"night-{number}", **CRON)
    rows.job("other", **CRON)
    [job_id] = rows.database.read(lambda s: s.scalars(select(Job.id).filter_by(name="night-1")))
    rows.run(job_id, 4_102_444_800_000)

    started = do(admin, "start", "name=night")
    again = do(admin, "start", "name=night")
    stopped = do(admin, "stop", "name=night-1")

    assert "Started: 60" in started
    assert "Already started: 60" in again
    assert "Stopped: 11" in stopped
    assert "Planned runs cancelled: 1" in stopped
    found = states(rows.database)
    assert sum(found.values()) == 49
    assert found["other"] == 0


def test_what_the_list_shows_by_next_run_is_what_all_of_it_means(admin: Visit, rows: Rows) -> None:
    rows.job("on", **CRON)
    rows.job("off", **CRON)
    do(admin, "start", "name=on")

    page = do(admin, "ask-delete", "order=due")
    none = admin.get("/jobs/bulk/ask?action=delete&filter=order%3Ddue%26state%3Dstopped")

    assert "Deleted: 1" in page
    assert list(states(rows.database)) == ["off"]
    assert names(admin.get("/jobs?order=due&state=stopped").text) == []
    assert none.status_code == 303


def test_each_matching_job_runs_once(admin: Visit, rows: Rows) -> None:
    for number in range(55):
        rows.job(f"night-{number}")

    assert "Queued: 55" in do(admin, "trigger", "")
    assert len(all_runs(rows.database)) == 55


def test_children_go_with_their_parents(admin: Visit, app: Flask, rows: Rows) -> None:
    rows.job("child-a")
    admin.get("/jobs/new")
    form = {"app": "reports", "name": "parent", "handler": "h", "schedule_kind": "NONE"}
    form |= {"route": "FIRST", "block": "SERIAL_EXECUTION", "misfire": "DO_NOTHING"}
    form |= {"delivery": "AT_MOST_ONCE", "concurrency": "1", "timeout": "0", "retries": "0"}
    answer = admin.post("/jobs/create", form | {"retry_delay": "0", "children": "child-a"})
    assert answer.status_code == 303

    refused = do(admin, "ask-delete", "name=child")
    page = do(admin, "ask-delete", "app=reports")

    assert "Refused: 1" in refused
    assert "Deleted: 2" in page
    assert states(rows.database) == {}


def test_jobs_of_foreign_apps_do_not_fit(app: Flask, rows: Rows) -> None:
    rows.job("mine", **CRON)
    rows.job("theirs", "mails", **CRON)

    assert "Started: 1" in do(signed_in(app, "operator"), "start", "")
    assert states(rows.database) == {"mine": 1, "theirs": 0}


def test_whoever_signs_in_on_the_way_is_back_at_the_same_question(app: Flask, rows: Rows) -> None:
    for name in ("night-1", "night-2", "other"):
        rows.job(name, **CRON)
    visit = Visit(app)

    sign_in = visit.get("/jobs/bulk/ask?action=stop&filter=name%3Dnight").location
    question = visit.get(visit.sign_in("admin", path=sign_in).location)

    assert "Stop 2 jobs" in question.text
    one = visit.get("/jobs/bulk/ask?action=stop&filter=name%3Dother")
    assert "Stop 1 job<" in one.text


class TestTags:
    def test_jobs_are_found_by_a_whole_tag(self, admin: Visit, rows: Rows) -> None:
        rows.job("a", tags="night,billing")
        rows.job("b", tags="nightly")
        rows.job("c", tags="billing_1")

        assert names(admin.get("/jobs?tag=night").text) == ["a"]
        assert names(admin.get("/jobs?tag=billing").text) == ["a"]
        assert names(admin.get("/jobs?tag=b%25&order=newest").text) == []
        assert 'href="/jobs?tag=billing_1"' in admin.get("/jobs").text

    def test_the_form_takes_and_shows_them(self, admin: Visit, rows: Rows) -> None:
        job_id = rows.job("a")
        seen = SEEN.findall(admin.get(f"/jobs/{job_id}/edit").text)[0]
        form = {"name": "a", "handler": "h", "schedule_kind": "NONE", "route": "FIRST"}
        form |= {"block": "SERIAL_EXECUTION", "misfire": "DO_NOTHING", "retry_delay": "0"}
        form |= {"delivery": "AT_MOST_ONCE", "concurrency": "1", "timeout": "0", "retries": "0"}
        form |= {"seen": seen, "tags": "night, billing"}

        assert admin.post(f"/jobs/{job_id}/save", form).status_code == 303

        assert "night, billing" in admin.get(f"/jobs/{job_id}").text
        wrong: dict[str, Any] = form | {"tags": "two words"}
        wrong["seen"] = SEEN.findall(admin.get(f"/jobs/{job_id}/edit").text)[0]
        assert "without commas" in admin.post(f"/jobs/{job_id}/save", wrong).text


class TestWhatOneKeeps:
    def test_favourites_are_each_users_own(self, admin: Visit, app: Flask, rows: Rows) -> None:
        job_id = rows.job("a")
        rows.job("b")
        operator = signed_in(app, "operator")
        admin.get("/jobs")

        admin.post(f"/jobs/{job_id}/favourite", {"on": "1"})

        assert names(admin.get("/jobs?favourites=1").text) == ["a"]
        assert 'aria-pressed="true"' in admin.get(f"/jobs/{job_id}").text
        assert names(operator.get("/jobs?favourites=1").text) == []
        admin.post(f"/jobs/{job_id}/favourite", {"on": "0"})
        assert names(admin.get("/jobs?favourites=1").text) == []

    def test_a_foreign_job_is_no_favourite(self, app: Flask, rows: Rows) -> None:
        theirs = rows.job("theirs", "mails")
        operator = signed_in(app, "operator")
        operator.get("/jobs")

        assert operator.post(f"/jobs/{theirs}/favourite", {"on": "1"}).status_code == 404

    def test_a_saved_filter_is_a_link_until_it_is_deleted(
        self, admin: Visit, app: Flask, rows: Rows, clock: Clock
    ) -> None:
        rows.run(rows.job("a"), clock.now, status="LOST")
        admin.get("/runs?status=LOST")
        form = {"page": "runs", "query": "status=LOST&period=hour", "name": " My  <b> "}

        for _ in range(2):
            assert admin.post("/filters/save", form).status_code == 303

        page = admin.get("/runs").text
        assert page.count('href="/runs?status=LOST&amp;period=hour">My &lt;b&gt;<') == 1
        assert "My &lt;b&gt;" not in signed_in(app, "operator").get("/runs").text
        own = re.findall(r'name="id" value="(\d+)"><button class="button small">Delete', page)[0]
        signed = signed_in(app, "operator")
        signed.get("/runs")
        signed.post("/filters/forget", {"page": "runs", "id": own})
        assert "My &lt;b&gt;" in admin.get("/runs").text
        admin.post("/filters/forget", {"page": "runs", "id": own})
        assert "My &lt;b&gt;" not in admin.get("/runs").text

    @pytest.mark.parametrize(
        "wrong", [{"page": "users"}, {"name": ""}, {"name": "x" * 65}, {"query": "q" * 2_000}]
    )
    def test_what_is_no_filter_is_not_saved(self, admin: Visit, wrong: dict[str, str]) -> None:
        admin.get("/runs")
        admin.post("/filters/save", {"page": "runs", "query": "status=LOST", "name": "n"} | wrong)

        assert 'aria-current="true">n<' not in admin.get("/runs?status=LOST").text
        assert "Delete n<" not in admin.get("/runs").text
