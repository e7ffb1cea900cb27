"""One field of many jobs through the console: seen before it is saved, and undone as one action."""

import html
import re
from typing import Any

from sqlalchemy import select

from tests.support.console import Clock, Visit, make_app, signed_in
from tests.support.stored_rows import Rows
from warren.sql.accounts import audit_log
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.models import Job


def hidden(page: str, action: str) -> dict[str, str]:
    form = page[page.index(f'action="/jobs/edit/{action}"') :]
    form = form[: form.index("</form>")]
    found = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)
    return {name: html.unescape(value) for name, value in found if name != "csrf_token"}


def shown(visit: Visit, field: str, values: dict[str, str], **asked: Any) -> str:
    """Return the page with the differences."""
    page = visit.get("/jobs/edit", query_string=asked).text
    return visit.post(
        "/jobs/edit/preview", hidden(page, "preview") | {"field": field, **values}
    ).text


def stored(rows: Rows, column: Any) -> list[Any]:
    return list(rows.database.read(lambda s: s.execute(select(column).order_by(Job.id)).scalars()))


def test_what_changes_is_shown_then_saved_then_undone(admin: Visit, rows: Rows) -> None:
    ids = [rows.job(f"job-{n}", timeout=60 * n) for n in range(3)]

    page = shown(admin, "timeout:set", {"value": "60"}, id=ids)
    saved = admin.post("/jobs/edit/save", hidden(page, "save"))
    done = admin.get(saved.location).text
    changed = stored(rows, Job.timeout)
    undone = admin.post("/jobs/edit/undo", hidden(done, "undo"), follow_redirects=True).text

    assert "Save 2 jobs" in page
    assert "already set that way: 1" in page
    assert "<del>120</del>" in page
    assert "2 jobs edited" in done
    assert changed == [60, 60, 60]
    assert "2 jobs changed back" in undone
    assert stored(rows, Job.timeout) == [0, 60, 120]


def test_all_jobs_of_a_filter_are_edited(admin: Visit, rows: Rows) -> None:
    for number in range(60):
        rows.job(f"load-{number}", tags="x")
    rows.job("other")

    page = shown(
        admin, "tags:add", {"value": "nightly"}, all="1", filter="name=load", action="edit"
    )
    admin.post("/jobs/edit/save", hidden(page, "save"))

    assert "Save 60 jobs" in page
    assert stored(rows, Job.tags) == [*["x,nightly"] * 60, None]


def test_every_fault_is_shown_and_nothing_is_saved(admin: Visit, rows: Rows) -> None:
    ids = [rows.job("a", param_template="{{ run_date }}"), rows.job("b")]

    number = shown(admin, "retries:set", {"value": "many"}, id=ids)
    param = shown(admin, "param:set", {"param": "line 1\r\nline 2"}, id=ids)

    assert "Nothing was changed." in number
    assert "many" in number
    assert "reports/a" in param
    assert 'action="/jobs/edit/save"' not in param
    assert stored(rows, Job.param) == [None, None]


def test_a_job_that_changed_after_it_was_shown_keeps_all_from_being_saved(
    admin: Visit, rows: Rows
) -> None:
    ids = [rows.job("a"), rows.job("b")]
    page = shown(admin, "author:set", {"value": "ann"}, id=ids)
    other = shown(admin, "timeout:set", {"value": "5"}, id=ids[1:])
    admin.post("/jobs/edit/save", hidden(other, "save"))

    answer = admin.post("/jobs/edit/save", hidden(page, "save"))

    assert answer.status_code == 422
    assert "reports/b" in answer.text
    assert stored(rows, Job.author) == [None, None]


def test_an_operator_edits_only_jobs_of_own_apps(rows: Rows, clock: Clock, admin: Visit) -> None:
    mine, theirs = rows.job("mine"), rows.job("theirs", "mails")
    page = shown(admin, "author:set", {"value": "ann"}, id=[mine, theirs])
    operator = signed_in(make_app(rows.database, clock), "operator")
    operator.get("/jobs")

    answer = operator.post("/jobs/edit/save", hidden(page, "save"))

    assert answer.status_code == 422
    assert "theirs" not in answer.text
    assert stored(rows, Job.author) == [None, None]


def test_undoing_names_the_jobs_that_somebody_edited_since(admin: Visit, rows: Rows) -> None:
    ids = [rows.job("a"), rows.job("b")]
    saved = admin.post(
        "/jobs/edit/save", hidden(shown(admin, "route:set", {"route": "RANDOM"}, id=ids), "save")
    )
    done = admin.get(saved.location).text
    admin.post(
        "/jobs/edit/save",
        hidden(shown(admin, "author:set", {"value": "ann"}, id=ids[:1]), "save"),
    )

    undone = admin.post("/jobs/edit/undo", hidden(done, "undo"), follow_redirects=True).text

    assert "reports/a: " in undone
    assert "1 job changed back" in undone
    assert stored(rows, Job.route) == ["RANDOM", ""]
    entries = rows.database.read(lambda s: audit_log.listing(s, AuditFilter()))
    assert entries[0].action == "job.undo_edit"


def test_a_webhook_is_said_to_be_beyond_undoing_before_the_edit_and_after_it(
    admin: Visit, rows: Rows
) -> None:
    had = rows.job("had", alarm_webhook="https://old.example.com/secret")
    bare = rows.job("bare")
    new = {"value": "https://new.example.com/x"}

    asked = admin.get("/jobs/edit", query_string={"id": [had]}).text
    page = shown(admin, "alarm_webhook:set", new, id=[had, bare])
    saved = admin.post("/jobs/edit/save", hidden(page, "save"))
    done = admin.get(saved.location).text
    admin.post("/jobs/edit/undo", hidden(done, "undo"))
    again = admin.get(saved.location).text

    assert "cannot restore the previous one" in asked
    assert "This cannot be undone for 1 of them" in page
    assert "This cannot be undone for 1 of them:" in done
    assert re.search(r"<li>reports/had: [^<]*not kept", done)
    assert stored(rows, Job.alarm_webhook) == ["https://new.example.com/x", ""]
    assert "This cannot be undone:" in again
    assert 'action="/jobs/edit/undo"' not in again
