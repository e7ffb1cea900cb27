"""Many runs at once through the console: counted before, told afterwards, never twice."""

import re
from typing import Any

import pytest
from flask import Flask

from tests.support.console import Clock, Visit, make_app, signed_in
from tests.support.eventually import eventually
from tests.support.sql_rows import all_runs
from tests.support.stored_rows import Rows
from warren.scheduler.board.folding import rebuild
from warren.sql.accounts import audit_log
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.engine import Database
from warren.sql.models import AuditEntry
from warren.sql.run_status import Kind


def hidden(page: str) -> dict[str, list[str]]:
    """Return the hidden fields of the form that asks."""
    found: dict[str, list[str]] = {}
    form = page[page.index('action="/runs/bulk/start"') :]
    for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form):
        if name == "csrf_token":
            continue
        found.setdefault(name, []).append(value.replace("&amp;", "&"))
    return found


def finish(visit: Visit, path: str) -> str:
    """Return the page of a piece of work when it is done."""
    return eventually(lambda: (page := visit.get(path).text) and "done</span>" in page and page)


def do(visit: Visit, **asked: Any) -> str:
    """Ask, confirm, and return the page of the result."""
    question = visit.get("/runs/bulk/ask", query_string=asked)
    answer = visit.post("/runs/bulk/start", hidden(question.text))
    assert answer.status_code == 303
    return finish(visit, answer.location)


def entries(database: Database, action: str) -> list[AuditEntry]:
    wanted = AuditFilter(action=action)
    return list(database.read(lambda session: audit_log.listing(session, wanted)))


def repeated(database: Database) -> list[tuple[int, str | None]]:
    return [(run.job_id, run.param) for run in all_runs(database) if run.kind == "RERUN"]


def test_a_row_of_the_board_runs_all_that_failed_of_its_due_time_again(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    job_id = rows.job("purge")
    of_shards = [("FAILED", 0), ("FAILED", 0), ("SUCCEEDED", 0), ("FAILED", 0), ("SUCCEEDED", 1)]
    ids = [
        rows.run(
            job_id,
            clock.now,
            status=status,
            shard_index=min(place, 3),
            shard_total=4,
            attempt=attempt,
            message="no luck",
        )
        for place, (status, attempt) in enumerate(of_shards)
    ]
    rows.database.write(lambda session: rebuild(session, [job_id], now_ms=clock.now))
    [path] = re.findall(r'data-rerun href="([^"]+)"', admin.get("/").text)

    question = admin.get(path.replace("&amp;", "&"))

    assert "Start 2 runs again?" in question.text
    assert hidden(question.text)["id"] == [str(ids[0]), str(ids[1])]


def test_ticked_runs_run_again_with_their_parameters(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    job_id = rows.job("nightly")
    ids = [
        rows.run(job_id, clock.now - n * 1_000, status="FAILED", param=f"p{n}") for n in range(3)
    ]

    page = do(admin, action="again", id=ids[:2])

    assert "Queued again: 2" in page
    assert sorted(repeated(rows.database)) == [(job_id, "p0"), (job_id, "p1")]
    [entry] = entries(rows.database, "run.again")
    assert entry.name == "2 runs"
    assert all(str(run_id) in (entry.after or "") for run_id in ids[:2])


def test_the_question_tells_how_many_fit_the_filter(admin: Visit, rows: Rows, clock: Clock) -> None:
    job_id, other = rows.job("nightly"), rows.job("hourly")
    for n in range(120):
        rows.run(job_id, clock.now - n * 1_000 - 1, status="FAILED")
        rows.run(other, clock.now - n * 1_000 - 1, status="FAILED")
    asked = {"action": "again", "all": "1", "filter": "job=reports/nightly&status=failures"}

    question = admin.get("/runs/bulk/ask", query_string=asked).text
    page = do(admin, **asked)

    assert "Start 120 runs again?" in question
    assert "120 of 120" in page
    assert len(repeated(rows.database)) == 120
    assert {found for found, _ in repeated(rows.database)} == {job_id}


def test_a_form_that_is_sent_twice_plans_nothing_twice(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    run_id = rows.run(rows.job("nightly"), clock.now - 1_000, status="FAILED")
    form = hidden(admin.get(f"/runs/bulk/ask?action=again&id={run_id}").text)

    first = admin.post("/runs/bulk/start", form)
    finish(admin, first.location)
    assert admin.post("/runs/bulk/start", form).location == first.location
    # Another console, which knows nothing of the first one's work.
    beside = signed_in(make_app(rows.database, clock), "admin")
    beside.get("/runs")
    page = finish(beside, beside.post("/runs/bulk/start", form).location)

    assert "or by this form: 1" in page
    assert len(repeated(rows.database)) == 1


def test_each_new_run_tells_who_ran_it_again(admin: Visit, rows: Rows, clock: Clock) -> None:
    job_id = rows.job("nightly")
    ids = [rows.run(job_id, clock.now - n * 60_000, status="FAILED") for n in (1, 2)]

    do(admin, action="again", id=ids)

    again = [run.id for run in all_runs(rows.database) if run.kind == "RERUN"]
    assert len(again) == 2
    for run_id in again:
        assert "<dt>Triggered by user</dt><dd>admin</dd>" in admin.get(f"/runs/{run_id}").text


def test_of_a_ticks_attempts_each_shard_runs_again_once(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    job_id = rows.job("wide", route="SHARDING_BROADCAST")
    at = clock.now - 5_000
    ids = [
        rows.run(job_id, at, status="FAILED", shard_index=shard, shard_total=3, attempt=attempt)
        for shard in range(3)
        for attempt in range(2)
    ]

    page = do(admin, action="again", id=ids)

    assert "Queued again: 3" in page
    again = [run for run in all_runs(rows.database) if run.kind == "RERUN"]
    assert sorted(run.shard_index for run in again) == [0, 1, 2]
    assert {(run.scheduled_at, run.shard_total) for run in again} == {(at, 3)}
    assert len({run.origin_id for run in again}) == 1


def test_the_question_tells_by_job_what_runs_and_what_has_recovered(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    job_id, other = rows.job("nightly"), rows.job("hourly")
    mended = clock.now - 5_000
    rows.run(job_id, mended, status="FAILED")
    rows.run(job_id, mended, status="SUCCEEDED", attempt=1, kind=Kind.RETRY)
    rows.run(job_id, clock.now - 9_000, status="FAILED")
    rows.run(other, clock.now - 9_000, status="FAILED")
    rows.run(999, clock.now - 9_000, status="FAILED")

    question = admin.get(
        "/runs/bulk/ask", query_string={"action": "again", "all": "1", "filter": "status=failures"}
    ).text
    page = do(admin, action="again", all="1", filter="status=failures")

    assert "Start 2 runs again?" in question
    for words in (
        "reports/nightly",
        "reports/hourly",
        "Resolved: a later attempt succeeded: 1",
        "Job deleted: 1",
    ):
        assert words in question
    assert "Queued again: 2" in page
    assert sorted(job for job, _ in repeated(rows.database)) == sorted([job_id, other])


def test_only_the_newest_due_time_of_each_job_runs_again_if_that_is_chosen(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    job_id, other = rows.job("nightly"), rows.job("hourly")
    for n in range(3):
        rows.run(job_id, clock.now - n * 60_000 - 1, status="FAILED", param=f"p{n}")
    rows.run(other, clock.now - 90_000, status="FAILED", param="q")
    asked = {"action": "again", "all": "1", "filter": "status=failures"}

    question = admin.get("/runs/bulk/ask", query_string=asked).text
    [path] = re.findall('href="([^"]*times=newest)"', question)
    newest = admin.get(path.replace("&amp;", "&")).text
    page = finish(admin, admin.post("/runs/bulk/start", hidden(newest)).location)

    assert "Start 4 runs again?" in question
    assert "Newest due time of each job 2" in question
    assert "Start 2 runs again?" in newest
    assert "Queued again: 2" in page
    assert sorted(repeated(rows.database)) == [(job_id, "p0"), (other, "q")]


def test_ticked_runs_of_one_due_time_each_leave_no_due_times_to_choose(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    ids = [rows.run(rows.job(name), clock.now - 1_000, status="FAILED") for name in ("a", "b")]

    question = admin.get("/runs/bulk/ask", query_string={"action": "again", "id": ids}).text

    assert "Newest due time of each job" not in question


def test_nothing_is_offered_when_all_has_recovered(admin: Visit, rows: Rows, clock: Clock) -> None:
    job_id, mended = rows.job("nightly"), clock.now - 5_000
    failed = rows.run(job_id, mended, status="FAILED")
    rows.run(job_id, mended, status="SUCCEEDED", attempt=1, kind=Kind.RETRY)

    question = admin.get(f"/runs/bulk/ask?action=again&id={failed}").text

    assert "Nothing to run again" in question
    assert '<button class="button main"' not in question


def test_what_cannot_run_again_is_counted_and_left_alone(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    gone = rows.run(999, clock.now - 1_000, status="FAILED")
    running = rows.run(rows.job("nightly"), clock.now - 1_000, status="RUNNING")

    page = do(admin, action="again", id=[gone, running, 123_456_789])

    for line in (
        "Still open, or being repeated: 1",
        "Job deleted: 1",
        "Not found, or no permission: 1",
    ):
        assert line in page
    assert repeated(rows.database) == []
    assert entries(rows.database, "run.again") == []


def test_kills_cancel_what_is_queued_and_ask_for_the_rest(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    job_id = rows.job("nightly")
    by_status = {
        status: rows.run(job_id, clock.now - n * 1_000 - 1, status=status)
        for n, status in enumerate(("PLANNED", "RUNNING", "SENT", "SUCCEEDED"))
    }

    page = do(admin, action="kill", all="1", filter="job=nightly")

    assert "Killed, cancelled or kill requested: 3" in page
    assert "Already ended, or kill already requested: 1" in page
    after = {run.id: run for run in all_runs(rows.database)}
    assert after[by_status["PLANNED"]].status == "CANCELLED"
    assert after[by_status["RUNNING"]].kill_requested_at
    assert after[by_status["SENT"]].kill_requested_at
    assert after[by_status["SUCCEEDED"]].kill_requested_at is None
    [entry] = entries(rows.database, "run.kill")
    assert entry.name == "3 runs"


def test_a_kill_of_all_that_match_includes_retries_that_are_due_later(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    later = rows.run(rows.job("nightly"), clock.now + 600_000, status="PLANNED")

    page = do(admin, action="kill", all="1", filter="status=open")

    assert "1 of 1" in page
    assert [(run.id, run.status) for run in all_runs(rows.database)] == [(later, "CANCELLED")]


def test_runs_of_foreign_apps_are_not_there(app: Flask, rows: Rows, clock: Clock) -> None:
    theirs = rows.run(rows.job("secret", "mails"), clock.now - 1_000, app="mails", status="FAILED")
    operator = signed_in(app, "operator")

    page = do(operator, action="again", id=theirs)

    assert "Not found, or no permission: 1" in page
    assert repeated(rows.database) == []


def test_a_viewer_is_offered_nothing_and_may_nothing(app: Flask, rows: Rows, clock: Clock) -> None:
    run_id = rows.run(rows.job("nightly"), clock.now - 1_000, status="FAILED")
    viewer = signed_in(app, "viewer")

    assert "/runs/bulk/ask" not in viewer.get("/runs").text.replace('action="/runs/bulk/ask"', "")
    assert 'name="id"' not in viewer.get("/runs").text
    assert viewer.get(f"/runs/bulk/ask?action=again&id={run_id}").status_code == 403


def test_more_runs_than_were_counted_are_asked_about_again(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    job_id = rows.job("nightly")
    rows.run(job_id, clock.now - 1_000, status="FAILED")
    asked = {"action": "again", "all": "1", "filter": "status=failures"}
    form = hidden(admin.get("/runs/bulk/ask", query_string=asked).text)
    rows.run(job_id, clock.now - 2_000, status="FAILED")

    answer = admin.post("/runs/bulk/start", form, follow_redirects=True)

    assert "More runs match now." in answer.text
    assert "Start 2 runs again?" in answer.text
    assert repeated(rows.database) == []


def test_what_was_begun_is_shown_to_nobody_else(
    admin: Visit, app: Flask, rows: Rows, clock: Clock
) -> None:
    run_id = rows.run(rows.job("nightly"), clock.now - 1_000, status="FAILED")
    form = hidden(admin.get(f"/runs/bulk/ask?action=again&id={run_id}").text)
    path = admin.post("/runs/bulk/start", form).location
    finish(admin, path)

    answer = signed_in(app, "operator").get(path)

    assert answer.status_code == 404
    assert "No details available." in answer.text


def test_without_a_tick_nothing_is_asked(admin: Visit) -> None:
    answer = admin.get("/runs/bulk/ask?action=kill", follow_redirects=True)

    assert "No run was selected." in answer.text


def test_whoever_signs_in_on_the_way_is_back_at_the_same_question(
    app: Flask, rows: Rows, clock: Clock
) -> None:
    job_id = rows.job("nightly")
    ids = [rows.run(job_id, clock.now - n * 1_000 - 1, status="LOST") for n in range(3)]
    for n in range(3):
        rows.run(job_id, clock.now - 9_000 - n, status="FAILED")
    asked = [
        {"action": "again", "all": "1", "filter": "job=reports/nightly&status=FAILED"},
        {"action": "again", "id": ids},
    ]

    for query in asked:
        visit = Visit(app)
        sign_in = visit.get("/runs/bulk/ask", query_string=query).location
        question = visit.get(visit.sign_in("admin", path=sign_in).location)

        assert "Start 3 runs again?" in question.text
        answer = visit.post("/runs/bulk/start", hidden(question.text))
        assert "3 of 3" in finish(visit, answer.location)


def test_no_question_is_about_an_action_that_does_not_exist(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    run_id = rows.run(rows.job("nightly"), clock.now - 1_000, status="FAILED")

    assert admin.get(f"/runs/bulk/ask?action=burn&id={run_id}").status_code == 404


@pytest.mark.parametrize("wrong", [{"action": "burn"}, {"key": "x"}, {"asked_at": "-1"}])
def test_a_form_that_no_page_has_is_refused(admin: Visit, wrong: dict[str, str]) -> None:
    admin.get("/runs")
    form = {"action": "again", "key": "k" * 22, "asked_at": "1", "count": "1", "id": "1"}

    assert admin.post("/runs/bulk/start", form | wrong).status_code == 400
